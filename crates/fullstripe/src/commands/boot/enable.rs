//! `enable`: adds an array to the settings file of the machine, and has md leave its drives alone.

use super::{Report, SiteArgs, change_settings, programs};
use anyhow::{Result, bail};
use container::machine::container_of;
use container::mdadm_conf;
use container::open::{refuse_twins, to_look};
use container::probe::Probed;
use container::root_drive;
use drives::holders::holders;
use metadata::imsm::Uuid;
use settings::edit::with_array;
use settings::sound::Sound;
use std::path::Path;
use std::process::ExitCode;

/// The two lines that have somebody told, in words.
pub const ALERT_LINES: &str = "`[alerts]` and `mail = [\"root\"]`";

/// Arguments of `enable`.
#[derive(clap::Args, Debug)]
pub struct EnableArgs {
    /// Name of the array in the settings file: 1 to 32 letters, digits, `_`, `.` and `-`.
    name: String,
    /// Drives of the array; its spares may be among them.
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    #[command(flatten)]
    site: SiteArgs,
}

/// Runs `enable`.
///
/// # Errors
/// A drive cannot be read or belongs to no container or another one, the name or the container is in the file already,
/// or a file or program fails. A refusal if the root file system lies on a drive: md would leave its array alone at the next boot.
pub fn run(args: &EnableArgs) -> Result<ExitCode> {
    settings::check_name(&args.name).map_err(anyhow::Error::msg)?;
    refuse_options(&args.drives)?;
    refuse_twins(&args.drives)?;
    root_drive::refuse(&args.drives)?;
    let drives = to_look(&args.drives)?;
    let uuid = one_container(&drives)?.to_string();
    // Of all its drives, named or not: md may have dropped those that are named.
    root_drive::refuse_container(&args.site.machine(), &uuid)?;
    let (name, file) = (args.name.as_str(), args.site.file());
    let change = change_settings(
        &file,
        |text| with_array(text, &file.display().to_string(), name, &uuid),
        || mdadm_conf::ignore(&args.site.machine(), name, &uuid),
    )?;
    let added = format!(
        "Added the container {uuid} to {} as array \"{name}\".",
        file.display()
    );
    let mut report = Report::new(name, uuid, file, added);
    report.notes = users(&drives);
    report.add(&change, "so that md leaves the array alone");
    let renewed = programs::renew_initramfs(&args.site, &mut report);
    report.next.push(format!(
        "set what differs from the defaults in the block [array.{}] (`fullstripe config show` prints all keys); each boot \
         then starts the array where fullstripe is installed for systemd. Now: systemctl daemon-reload, udevadm trigger \
         --action=add --subsystem-match=block --settle, and systemctl start fullstripe@{name}; or without systemd: fullstripe serve --array {name}",
        settings::show::key_as_toml(name)
    ));
    report.next.extend(nobody_is_told(&report.file));
    report.print(args.site.json)?;
    renewed.map(|()| ExitCode::SUCCESS)
}

/// What to do if the settings in `file` name nobody who is told of a drive that fails.
fn nobody_is_told(file: &Path) -> Option<String> {
    let alerts = Sound::read(file).ok()?.settings.alerts;
    alerts.tells_nobody().then(|| {
        format!(
            "nobody is told of a drive that fails, except the journal: add the two lines {ALERT_LINES} to {}, and try it with `fullstripe \
             alert test`",
            file.display()
        )
    })
}

/// Refuses drives with options: at boot drives are found by what is on them, and are opened without any.
fn refuse_options(drives: &[String]) -> Result<()> {
    match drives.iter().find(|drive| drive.contains(',')) {
        Some(drive) => bail!(
            "{drive} has options, which the server does not know when it finds the drive at boot; name drives that need none"
        ),
        None => Ok(()),
    }
}

/// The container that all drives belong to; spares belong to any.
///
/// # Errors
/// A drive has no record that can be read, two drives are of different containers, or all are spares.
fn one_container(drives: &[Probed]) -> Result<Uuid> {
    let mut found: Option<(Uuid, &str)> = None;
    for probed in drives {
        let name = probed.drive.name();
        match (container_of(probed), found) {
            (Some(uuid), Some((first, other))) if first != uuid => bail!(
                "{other} belongs to the container {first} and {name} to {uuid}; name the drives of one container"
            ),
            (Some(uuid), _) => found = found.or(Some((uuid, name))),
            (None, _) if is_spare(probed) => {}
            (None, _) => {
                let why = match &probed.found {
                    Err(error) => format!("holds a record that cannot be read ({error})"),
                    Ok(_) => "holds no array".to_owned(),
                };
                bail!(
                    "{name} {why}; leave it out, `fullstripe list` shows the drives of each array"
                );
            }
        }
    }
    match found {
        Some((uuid, _)) => Ok(uuid),
        None => bail!(
            "all drives named are spares, which belong to no container; name a member of the array too"
        ),
    }
}

fn is_spare(probed: &Probed) -> bool {
    matches!(&probed.found, Ok(Some(found)) if found.mpb.is_spare())
}

/// Who else uses the drives now, such as md.
fn users(drives: &[Probed]) -> Vec<String> {
    let used = drives.iter().filter_map(|probed| {
        let users = holders(probed.path()?);
        let sentence = || {
            format!(
                "{} is in use by {}; stop that before fullstripe serves the array.",
                probed.drive.name(),
                words::and(&users)
            )
        };
        (!users.is_empty()).then(sentence)
    });
    used.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_that_nobody_is_told_until_the_settings_name_somebody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fullstripe.toml");
        std::fs::write(&file, "").unwrap();
        let said = nobody_is_told(&file).unwrap();
        assert!(
            said.starts_with("nobody is told of a drive that fails"),
            "{said}"
        );
        assert!(
            said.contains("`[alerts]` and `mail = [\"root\"]` to "),
            "{said}"
        );
        std::fs::write(&file, "[alerts]\nmail = [\"root\"]\n").unwrap();
        assert_eq!(nobody_is_told(&file), None);
    }
}

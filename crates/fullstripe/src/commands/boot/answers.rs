//! What udev and systemd ask at boot: whose a drive is, and which arrays are to be started; and what the scripts of a package ask
//! when it is installed or removed: which arrays there are, and whether their devices are in use; and whether the machine may
//! hibernate. Not for people, so it is not in
//! the help.
//!
//! A mistake in the settings file concerns the array in whose block it is, and no other ([`settings::sound`]).

use super::{hibernation, in_use, kernel_log};
use crate::terminal::print::{print_note, print_text};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use container::machine::container_of;
use container::open::one_to_look;
use container::probe::Probed;
use container::spare_note::container_noted;
use drives::holders::partitions;
use drives::spec::Target;
use settings::sound::{Mistake, Sound};
use settings::{ArraySettings, Settings};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the unit of every array is.
const UNIT: &str = "/usr/lib/systemd/system/fullstripe@.service";
/// What systemd starts at boot. An array's unit orders itself before file systems, so the arrays are part of these.
const STARTED_WITH: &str = "local-fs.target.wants";
/// Where the kernel lists block devices.
const DEVICES: &str = "/sys/class/block";
/// The array of a drive whose container is named in a file that has a mistake.
const UNKNOWN: &str = "unknown";
/// The variable in which udev gives a device's links to the programs of its rules.
const LINKS: &str = "DEVLINKS";

/// What udev and systemd ask at boot.
#[derive(clap::Args, Debug)]
pub struct BootArgs {
    #[command(subcommand)]
    question: Question,
    /// The settings file.
    #[arg(long, value_name = "FILE", global = true, default_value = settings::PLACE)]
    settings: PathBuf,
}

#[derive(Subcommand, Debug)]
enum Question {
    /// Print which array of the settings a drive belongs to, as a property of udev
    Member {
        /// The drive.
        device: String,
    },
    /// Write what has systemd start the arrays of the settings, as a generator does
    Units {
        /// Folder for units.
        normal: PathBuf,
        /// Folders in which nothing is written.
        other: Vec<PathBuf>,
        /// Where mistakes of the settings are written too, as the kernel's log takes them.
        #[arg(long, value_name = "FILE")]
        log: Option<PathBuf>,
    },
    /// Print the names of the arrays of the settings, one a line
    Arrays,
    /// Refuse if a block device of fullstripe is mounted or claimed, and say by whom
    InUse,
    /// Refuse if there is a block device of fullstripe, because the machine must not hibernate then
    MayHibernate,
}

/// Runs `boot`.
///
/// # Errors
/// The settings have a mistake, and what was asked was done for the arrays that it does not concern; the drive cannot be read; a
/// file cannot be written. A device that is in use is a refusal.
pub fn run(args: &BootArgs) -> Result<ExitCode> {
    match &args.question {
        Question::Member { device } => print_member(&args.settings, device)?,
        Question::Units {
            normal,
            other: _,
            log,
        } => {
            let found = Sound::read(&args.settings);
            kernel_log::write_mistakes(log.as_deref(), &found)?;
            let found = found?;
            write_units(&found, normal)?;
            found.without_mistake()?;
        }
        Question::Arrays => {
            let found = Sound::read(&args.settings)?;
            print_text(&lines(&found))?;
            found.without_mistake()?;
        }
        Question::InUse => in_use::refuse_used()?,
        Question::MayHibernate => hibernation::refuse_served()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of the arrays, one a line. One whose block has a mistake is among them: it may be being served.
fn lines(found: &Sound) -> String {
    let names = found.names().into_iter();
    names.map(|name| format!("{name}\n")).collect()
}

/// Prints nothing if the drive belongs to none of the arrays. A mistake in the file does not make a drive anybody else's: what
/// is mounted by mistake from one drive of a mirror makes it differ from the other.
fn print_member(place: &Path, device: &str) -> Result<()> {
    let Some(text) = settings::text_of(place)? else {
        return Ok(());
    };
    let probed = one_to_look(device)?;
    let links = std::env::var(LINKS).unwrap_or_default();
    let called: Vec<&str> = [device].into_iter().chain(links.split(' ')).collect();
    let shown = place.display().to_string();
    let (found, mistakes) = match Sound::parse(&text, &shown) {
        Ok(sound) => (sound.settings, words_of(&sound.mistakes)),
        Err(mistake) => (Settings::default(), vec![format!("{mistake:#}")]),
    };
    for mistake in &mistakes {
        print_note(&format!("fullstripe: {mistake}"));
    }
    let unknown = || (!mistakes.is_empty() && is_named(&text, &probed)).then_some(UNKNOWN);
    let name = owner(&found, &probed, &called).or_else(unknown);
    let Some(name) = name else {
        return Ok(());
    };
    // In sysfs a slash in a device's name is written as an exclamation mark.
    let name_of_kernel = device.trim_start_matches("/dev/").replace('/', "!");
    let seen = match partitions(&Path::new(DEVICES).join(name_of_kernel))[..] {
        [] => "",
        _ => "FULLSTRIPE_PARTITIONS=1\n",
    };
    print_text(&format!("FULLSTRIPE_ARRAY={name}\n{seen}"))
}

fn words_of(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}

/// Whether a text has the UUID of a drive's container in it.
fn is_named(text: &str, probed: &Probed) -> bool {
    let belongs_to = container_of(probed).or_else(|| container_noted(probed));
    belongs_to.is_some_and(|uuid| has_word(text, &uuid.to_string()))
}

fn has_word(text: &str, uuid: &str) -> bool {
    text.to_ascii_lowercase().contains(uuid)
}

/// The array to which a drive belongs by its record, or that has a drive with one of these paths as its spare, or whose spare the
/// drive says that it is.
fn owner<'a>(settings: &'a Settings, probed: &Probed, called: &[&str]) -> Option<&'a str> {
    if let Some(uuid) = container_of(probed) {
        return settings.name_of(&uuid.to_string());
    }
    let mut arrays = settings.arrays.iter();
    let named = arrays.find(|(_, array)| has_spare(array, called));
    let noted = || settings.name_of(&container_noted(probed)?.to_string());
    named.map(|(name, _)| name.as_str()).or_else(noted)
}

fn has_spare(array: &ArraySettings, called: &[&str]) -> bool {
    array.spares.iter().any(|spec| {
        let spec = container::probe::parse_spec(spec).map(|spec| spec.target);
        matches!(spec, Ok(Target::Path(path)) if called.iter().any(|name| Path::new(name) == path))
    })
}

/// Has systemd start every array of the file. The unit of an array whose block has a mistake ends at once and says so, and is
/// then among the failed units, where an operator looks.
fn write_units(found: &Sound, folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        bail!(
            "{} is not a folder; systemd names the folders for its generators",
            folder.display()
        );
    }
    for name in found.names() {
        let unit = format!("fullstripe@{name}.service");
        let wants = folder.join(STARTED_WITH);
        make_folder(&wants)?;
        let link = wants.join(&unit);
        symlink(UNIT, &link).with_context(|| format!("cannot make the link {}", link.display()))?;
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::imsm::build::NewDrive;
    use metadata::imsm::{Mpb, Uuid};

    const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";

    fn settings(text: &str) -> Settings {
        Settings::parse(text, "fullstripe.toml").unwrap()
    }

    fn sound(text: &str) -> Sound {
        Sound::parse(text, "fullstripe.toml").unwrap()
    }

    #[test]
    fn systemd_starts_each_array() {
        let folder = tempfile::tempdir().unwrap();
        let found = sound(&format!("[array.my-data]\nuuid = \"{UUID}\"\n"));
        write_units(&found, folder.path()).unwrap();
        let link = folder
            .path()
            .join("local-fs.target.wants/fullstripe@my-data.service");
        assert_eq!(std::fs::read_link(link).unwrap(), Path::new(UNIT));
        let error = write_units(&found, &folder.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("is not a folder"), "{error}");
    }

    #[test]
    fn a_mistake_in_the_file_leaves_drives_to_nobody_else() {
        let text = format!(
            "[array.a]\nuuid = \"{}\"\nshrads = 2\n",
            UUID.to_uppercase()
        );
        assert!(Settings::parse(&text, "f").is_err());
        assert!(has_word(&text, UUID));
        assert!(!has_word(&text, "3aaa0122:29827cfa:5331ad66:ca767372"));
    }

    #[test]
    fn scripts_get_one_name_a_line() {
        let two = format!(
            "[array.b]\nuuid = \"{UUID}\"\n[array.\"a.1\"]\nuuid = \"1{}\"\n",
            &UUID[1..]
        );
        assert_eq!(lines(&sound(&two)), "a.1\nb\n");
        assert_eq!(lines(&sound(&(two + "shards = 99"))), "a.1\nb\n");
        assert_eq!(lines(&sound("")), "");
    }

    #[test]
    fn without_arrays_nothing_is_started() {
        let folder = tempfile::tempdir().unwrap();
        write_units(&sound(""), folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_mistake_in_one_block_holds_up_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("fullstripe.toml");
        let [units, log] = ["units", "log"].map(|name| folder.path().join(name));
        std::fs::create_dir(&units).unwrap();
        let run_on = |text: &str| {
            std::fs::write(&place, text).unwrap();
            std::fs::write(&log, "").unwrap();
            let question = Question::Units {
                normal: units.clone(),
                other: Vec::new(),
                log: Some(log.clone()),
            };
            let settings = place.clone();
            let error = run(&BootArgs { question, settings }).unwrap_err();
            (error.to_string(), std::fs::read_to_string(&log).unwrap())
        };
        let (error, logged) = run_on(&format!(
            "[alerts]\nmial = []\n[array.a]\nuuid = \"{UUID}\"\n[array.b]\nshards = 99\n"
        ));
        assert!(error.contains(":2: alerts has no key \"mial\""), "{error}");
        assert_eq!(logged.lines().count(), 2, "{logged}");
        assert!(
            logged.contains("fullstripe.toml:6: array.b.shards cannot be 99"),
            "{logged}"
        );
        for name in ["a", "b"] {
            let link = format!("local-fs.target.wants/fullstripe@{name}.service");
            assert!(units.join(link).is_symlink());
        }
        std::fs::remove_dir_all(&units).unwrap();
        let (error, logged) = run_on("[array");
        assert!(error.contains(":1: this is not TOML ("), "{error}");
        assert!(logged.contains(&error), "{logged}");
    }

    #[test]
    fn a_spare_is_recognised_by_any_of_its_links() {
        let settings = settings(&format!(
            "[array.a]\nuuid = \"{UUID}\"\nspares = [\"/dev/disk/by-id/nvme-S1,sector=512\"]\n"
        ));
        let array = settings.array("a").unwrap();
        assert!(has_spare(
            array,
            &["/dev/nvme4n1", "/dev/disk/by-id/nvme-S1"]
        ));
        assert!(!has_spare(
            array,
            &["/dev/nvme4n1", "/dev/disk/by-id/nvme-S11"]
        ));
    }

    #[test]
    fn a_spare_that_says_whose_it_is_needs_no_line_in_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spare.img");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        let path = path.display().to_string();
        let probed = one_to_look(&path).unwrap();
        let drive = NewDrive {
            serial: probed.serial,
            total_sectors: probed.placement.total_sectors(),
        };
        // The note takes from an array's record its family number only.
        let record = Mpb::spare(&drive, probed.sector).unwrap();
        let opened = container::open::for_change(std::slice::from_ref(&path)).unwrap();
        container::spare_note::write(&opened[0].drive, &record).unwrap();
        container::write::write_record(&record, &[&opened[0]]).unwrap();
        let uuid = Uuid::of_container(&record).to_string();
        let probed = one_to_look(&path).unwrap();
        let other = settings(&format!("[array.a]\nuuid = \"{UUID}\"\n"));
        assert_eq!(owner(&other, &probed, &[&path]), None);
        let ours = settings(&format!("[array.b]\nuuid = \"{uuid}\"\n"));
        assert_eq!(owner(&ours, &probed, &[&path]), Some("b"));
        assert!(is_named(
            &format!("[array.b]\nuuid = '{uuid}'\nshrads = 1"),
            &probed
        ));
    }
}

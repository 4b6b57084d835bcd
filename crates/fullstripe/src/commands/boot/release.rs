//! `release`: takes an array out of the settings file of the machine and gives its drives to Linux md.
//!
//! The drives are found by the UUID of the container and opened exclusively, as `serve` opens them, so an array that is
//! being served is refused. Then md's view of their records is checked ([`container::for_md`]).

use super::{Report, SiteArgs, change_settings, programs};
use crate::commands::waiting;
use anyhow::{Result, bail};
use clap::ValueEnum;
use container::machine::FoundMembers;
use container::mdadm_conf;
use container::open::for_reading;
use container::probe::Probed;
use container::refusal::refused;
use container::{for_md, state_folder};
use drives::holders::holders;
use settings::Settings;
use settings::edit::without_array;
use std::process::ExitCode;

/// Who gets the array.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Successor {
    /// Linux md
    Md,
}

/// Arguments of `release`.
#[derive(clap::Args, Debug)]
pub struct ReleaseArgs {
    /// Name of the array in the settings file.
    name: String,
    /// Who gets the array.
    #[arg(long, value_name = "md", hide_possible_values = true)]
    to: Successor,
    /// Do not tell udev of the drives anew: md gets them at the next boot.
    #[arg(long)]
    no_udev: bool,
    #[command(flatten)]
    site: SiteArgs,
}

/// Runs `release`.
///
/// # Errors
/// The file has no such array, or a file or program fails. An array that is being served, and one that md cannot take,
/// are refusals.
pub fn run(args: &ReleaseArgs) -> Result<ExitCode> {
    let Successor::Md = args.to;
    let (name, file, machine) = (args.name.as_str(), args.site.file(), args.site.machine());
    let uuid = Settings::read(&file)?.array(name)?.uuid.clone();
    refuse_served(name, &uuid)?;
    let FoundMembers {
        members,
        spares,
        unreadable,
    } = machine.members_of(&uuid)?;
    let claimed = claim(&members)?;
    waiting::refuse(&members)?;
    let mut notes = for_md::check(&members, programs::mdadm_version(&machine))?;
    notes.extend(unreadable);
    if members.is_empty() {
        let none = "no member of the container is here, so nothing was checked; md gets the drives when they appear.";
        notes.push(none.to_owned());
    }
    let change = change_settings(
        &file,
        |text| without_array(text, &file.display().to_string(), name),
        || mdadm_conf::no_longer_ignore(&machine, &uuid),
    )?;
    let removed = format!(
        "Removed array \"{name}\", the container {uuid}, from {}.",
        file.display()
    );
    let mut report = Report::new(name, uuid, file, removed);
    report.notes = notes;
    report.add(&change, "so that md takes the array");
    let mut paths: Vec<String> = members
        .iter()
        .map(|probed| probed.drive.name().to_owned())
        .collect();
    // udev keeps its spares for fullstripe too.
    paths.extend(spares);
    // md opens the drives exclusively.
    drop((claimed, members));
    let ended = hand_over(args, &paths, &mut report);
    report.print(args.site.json)?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Renews the initramfs and lets md have the drives at `paths`.
///
/// # Errors
/// A program fails; the sentence says that the files are changed.
fn hand_over(args: &ReleaseArgs, paths: &[String], report: &mut Report) -> Result<()> {
    let renewed = programs::renew_initramfs(&args.site, report);
    let announced = match args.no_udev || paths.is_empty() {
        true => Ok(()),
        false => programs::announce(&args.site.machine(), paths, report),
    };
    report.next.push(
        "md assembles the array when udev reports its drives, if mdadm's udev rules are installed; on a machine without \
         Intel's platform (RST, VROC) mdadm wants IMSM_NO_PLATFORM=1 in its environment, or, if it is newer than 4.2, \
         mdadm.imsm.test=1 on the kernel's command line."
            .to_owned(),
    );
    match (renewed, announced) {
        (Err(one), Err(other)) => bail!("{one:#}; {other:#}"),
        (one, other) => one.and(other),
    }
}

/// Refuses an array whose server has locked the array's state folder.
fn refuse_served(name: &str, uuid: &str) -> Result<()> {
    let folder = state_folder::of_array(&state_folder::choose()?, uuid);
    if state_folder::is_served(&folder)? {
        return Err(refused(format!(
            "array \"{name}\" is being served; stop it first: systemctl stop fullstripe@{name}, or end the \
             process that serves it"
        )));
    }
    Ok(())
}

/// Opens the drives that no other part of the kernel holds, as `serve` does. Whoever serves them is named in the refusal.
fn claim(members: &[Probed]) -> Result<Vec<Probed>> {
    let is_free = |probed: &&Probed| probed.path().is_some_and(|path| holders(path).is_empty());
    let free = members.iter().filter(is_free);
    let specs: Vec<String> = free.map(|probed| probed.drive.name().to_owned()).collect();
    for_reading(&specs)
}

//! `fail`, `remove` and `replace`: orders about one drive.
//!
//! The drive is identified by a name that survives a restart ([`names::drive`]). What the order does to redundancy is
//! printed before it is sent ([`super::consequences`]), and an order that fails a volume needs the user's confirmation.

use super::Reach;
use super::consequences::{Consequences, of_fail, of_remove, of_replace};
use super::orders::{absolute, answered};
use crate::terminal::print::print_note;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use container::refusal::refused;
use hyper::Method;
use server::api::names::{self, NameError};
use server::api::schema::{FailRequest, ReplaceRequest};
use server::client::encode;
use server::status::{MemberStatus, Status};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The help text of the drive argument, the same for every order.
const NAMING: &str = "The drive: its path or serial as `status` shows them, or VOLUME:SLOT";

/// A drive to fail.
#[derive(Args, Debug)]
pub struct FailArgs {
    #[arg(value_name = "DRIVE", help = NAMING, add = ArgValueCompleter::new(super::completion::drives))]
    drive: String,
    /// Fail the drive even if a volume fails as a result
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    reach: Reach,
}

/// A drive to remove.
#[derive(Args, Debug)]
pub struct RemoveArgs {
    #[arg(value_name = "DRIVE", help = NAMING, add = ArgValueCompleter::new(super::completion::drives))]
    drive: String,
    #[command(flatten)]
    reach: Reach,
}

/// A drive and the one that takes its place.
#[derive(Args, Debug)]
pub struct ReplaceArgs {
    #[arg(value_name = "DRIVE", help = NAMING, add = ArgValueCompleter::new(super::completion::drives))]
    drive: String,
    /// The new drive: a spare by its path or serial, or the path of a drive to add
    #[arg(long, value_name = "DRIVE", add = ArgValueCompleter::new(super::completion::drives_and_files))]
    with: String,
    /// Use the new drive even if it holds data, which is lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

/// The drive of the array that `name` means.
fn find<'a>(status: &'a Status, name: &str) -> Result<&'a MemberStatus> {
    let found = names::drive(status, name).or_else(|error| {
        // Either of the two paths may be relative: the one typed here or the one that the array knows.
        let path = std::path::absolute(name).ok();
        let is_same = |one: &&MemberStatus| {
            one.state != "removed" && path.is_some() && std::path::absolute(&one.name).ok() == path
        };
        let whole = status.members.iter().find(is_same);
        match error {
            NameError::Unknown(_) => whole.ok_or(error),
            NameError::Ambiguous(_) => Err(error),
        }
    });
    found.map_err(|error| match error {
        NameError::Unknown(sentence) | NameError::Ambiguous(sentence) => anyhow!(sentence),
    })
}

/// Prints what an order does to redundancy, before it is sent.
fn tell(reach: &Reach, consequences: &Consequences) {
    if !reach.json {
        let lines = &consequences.lines;
        lines.iter().for_each(|line| print_note(line));
    }
}

/// `fail`.
///
/// # Errors
/// See [`ClientError`](server::client::ClientError); a refusal if a volume would fail and the user has not confirmed.
pub fn fail(args: &FailArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let status: Status = client.get("/v1/status")?;
    let drive = find(&status, &args.drive)?;
    let consequences = of_fail(&status, drive);
    if consequences.ends_volume && !args.yes {
        agree(&args.reach, &drive.name, &consequences)?;
    } else {
        tell(&args.reach, &consequences);
    }
    let request = FailRequest {
        volumes_may_fail: consequences.ends_volume,
    };
    let path = format!("/v1/members/{}/fail", drive.id);
    answered(&args.reach, &client.send(Method::POST, &path, &request)?)
}

/// Asks the user at the terminal for confirmation; with `--json` or without a terminal the order is refused.
fn agree(reach: &Reach, drive: &str, consequences: &Consequences) -> Result<()> {
    let lines = consequences.lines.join("; ");
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if reach.json || !is_asked {
        return Err(refused(format!(
            "{drive} stays in use: {lines}; bring redundancy back first, or fail it all the same with --yes"
        )));
    }
    tell(reach, consequences);
    write!(std::io::stderr(), "Fail {drive}? Type yes: ").context("cannot ask on the terminal")?;
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .context("the answer cannot be read")?;
    if answer.trim() != "yes" {
        return Err(refused(format!("{drive} stays in use, as it was")));
    }
    Ok(())
}

/// `remove`.
///
/// # Errors
/// See [`ClientError`](server::client::ClientError).
pub fn remove(args: &RemoveArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let status: Status = client.get("/v1/status")?;
    let drive = find(&status, &args.drive)?;
    tell(&args.reach, &of_remove(&status, drive));
    let path = format!("/v1/members/{}/remove", drive.id);
    answered(&args.reach, &client.order(Method::POST, &path)?)
}

/// `replace`.
///
/// # Errors
/// The drive is in no slot, or its replacement is misspelt; see also
/// [`ClientError`](server::client::ClientError).
pub fn replace(args: &ReplaceArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let status: Status = client.get("/v1/status")?;
    let drive = find(&status, &args.drive)?;
    let (volume, slot) = first_place(&status, drive)?;
    let request = ReplaceRequest {
        slot,
        with: replacement(&status, &args.with)?,
        force: args.force,
    };
    let path = format!("/v1/volumes/{}/replace", encode(&volume));
    let done = client.send(Method::POST, &path, &request)?;
    // A replacement loses nothing, so this is printed once the order has been accepted, not before.
    tell(&args.reach, &of_replace(&status, drive, &args.with));
    answered(&args.reach, &done)
}

/// A volume of the drive and its slot there. A drive is copied for all its volumes, whichever is named.
fn first_place(status: &Status, drive: &MemberStatus) -> Result<(String, u8)> {
    let first = names::slots_of(status, drive).next();
    let place = first.map(|(volume, slot, _)| (volume.name.clone(), slot));
    place.with_context(|| {
        format!(
            "{} is {} and in no slot of a volume, so there is nothing to replace",
            drive.name, drive.state
        )
    })
}

/// A drive of the array is found by its name and sent as its number; any other drive is sent as its path.
fn replacement(status: &Status, with: &str) -> Result<String> {
    match names::drive(status, with) {
        Ok(drive) => Ok(drive.id.to_string()),
        Err(NameError::Unknown(_)) => absolute(with),
        Err(NameError::Ambiguous(sentence)) => Err(anyhow!(sentence)),
    }
}

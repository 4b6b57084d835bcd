//! The commands that talk to a serving process.
//!
//! Each is a thin client of the HTTP interface ([`server::api`]): it finds the socket, sends the request, and
//! prints the answer, as text for people or with `--json` as the interface returned it. Only the serving process
//! decides what is allowed.
//!
//! [`server::client`] is the client itself. [`status`] and [`events`] only read, [`drives`] sends orders about a drive
//! and prints their [`consequences`] first, [`devices`] makes volumes block devices, [`orders`] sends the other orders,
//! [`jobs`] starts long work and can wait for its end. [`panel`] and [`changes`] put a status into words; [`completion`] answers the shell.

mod changes;
mod completion;
mod consequences;
mod devices;
mod drives;
mod events;
mod giving_up;
mod health;
mod jobs;
mod orders;
mod panel;
mod scrub;
mod status;
#[cfg(test)]
mod tests;

use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use container::refusal::refused;
use server::api::names::{self, NameError};
use server::api::schema::Done;
use server::client::{Client, ClientError};
use server::status::{Status, VolumeStatus};
use std::path::PathBuf;
use std::process::ExitCode;

/// Commands for a running array.
#[derive(Subcommand, Debug)]
pub enum ClientCommand {
    /// Show the running array: volumes, drives, background work
    Status(status::StatusArgs),
    /// Show what has happened to the running array
    Events(events::EventsArgs),
    /// Stop using a drive, as if it had failed
    Fail(drives::FailArgs),
    /// Remove a failed drive or a spare from the array
    Remove(drives::RemoveArgs),
    /// Add a drive as a spare; a degraded volume takes it at once
    AddSpare(orders::AddSpareArgs),
    /// Replace a drive by copying it to another one while it stays in service
    Replace(drives::ReplaceArgs),
    /// Restore redundancy: rebuild onto a spare, or resume paused work
    Rebuild(jobs::RebuildArgs),
    /// Read everything and compare data with redundancy
    Scrub(scrub::ScrubArgs),
    /// Make a volume a block device of this machine: /dev/fullstripe/NAME
    Attach(devices::AttachArgs),
    /// Remove the block device of a volume
    Detach(devices::DetachArgs),
    /// Pause the background work of a volume
    Pause(orders::VolumeArgs),
    /// Resume the paused background work of a volume
    Resume(orders::VolumeArgs),
    /// Cancel the scrub or replacement of a volume
    Cancel(orders::VolumeArgs),
    /// Limit background work
    Rate(orders::RateArgs),
    /// Stop the serving process: flush, mark volumes clean, release the drives
    Stop(orders::StopArgs),
}

/// How to reach the serving process, and how to print its answer.
#[derive(Args, Clone, Debug, Default)]
pub struct Reach {
    /// Socket of the serving process; default: $FULLSTRIPE_SOCKET, or the user's default socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Reach {
    fn connect(&self) -> Result<Client> {
        Client::connect(self.socket.as_deref())
    }

    /// Prints the answer to an order.
    fn print(&self, done: &Done) -> Result<()> {
        if self.json {
            print_json(done)
        } else {
            print_text(&format!("{}\n", done.text))
        }
    }
}

/// The volume that is meant: the one called `name`, or the only one.
///
/// # Errors
/// There is no volume of that name, or there are several and none is named; the sentence lists them.
fn volume<'a>(status: &'a Status, name: Option<&str>) -> Result<&'a VolumeStatus> {
    match (name, &status.volumes[..]) {
        (None, [only]) => Ok(only),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
            bail!("name one of the volumes: {}", names.join(", "))
        }
        (Some(name), _) => match names::volume(status, name) {
            Ok((_, volume)) => Ok(volume),
            Err(NameError::Unknown(sentence) | NameError::Ambiguous(sentence)) => bail!(sentence),
        },
    }
}

/// The name of the meant volume, from the current status of the serving process.
fn volume_name(client: &Client, name: Option<&str>) -> Result<String> {
    match name {
        Some(name) => Ok(name.to_owned()),
        None => Ok(volume(&client.get("/v1/status")?, None)?.name.clone()),
    }
}

/// Runs `command`.
///
/// # Errors
/// One sentence: no array is being served, or what the serving process answered. An order that is refused to protect
/// data has its own exit code.
pub fn run(command: &ClientCommand) -> Result<ExitCode> {
    let result = match command {
        ClientCommand::Status(args) => status::run(args),
        ClientCommand::Events(args) => events::run(args),
        ClientCommand::Fail(args) => drives::fail(args),
        ClientCommand::Remove(args) => drives::remove(args),
        ClientCommand::AddSpare(args) => orders::add_spare(args),
        ClientCommand::Replace(args) => drives::replace(args),
        ClientCommand::Rebuild(args) => jobs::rebuild(args),
        ClientCommand::Scrub(args) => scrub::run(args),
        ClientCommand::Attach(args) => devices::attach(args),
        ClientCommand::Detach(args) => devices::detach(args),
        ClientCommand::Pause(args) => orders::on_volume(args, "pause"),
        ClientCommand::Resume(args) => orders::on_volume(args, "resume"),
        ClientCommand::Cancel(args) => orders::cancel(args),
        ClientCommand::Rate(args) => orders::rate(args),
        ClientCommand::Stop(args) => orders::stop(args),
    };
    result.map_err(|error| match error.downcast_ref::<ClientError>() {
        Some(ClientError::Answered { body, .. }) if body.protects_data => {
            refused(body.error.clone())
        }
        _ => error,
    })
}

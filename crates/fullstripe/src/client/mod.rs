//! The commands that talk to a serving process.
//!
//! Each is a thin client of the HTTP interface ([`server::api`]): it finds the socket, asks, and
//! shows the answer, as text for people or with `--json` as what the interface said. What may be
//! done is decided by the serving process alone.
//!
//! [`server::client`] is the client itself. [`status`] and [`events`] look, [`drives`] gives orders about a drive and says
//! their [`consequences`] first, [`orders`] gives the others, [`jobs`] orders long work and can wait for its end.
//! [`panel`] and [`changes`] put a status into words; [`completion`] serves the shell.

mod changes;
mod completion;
mod consequences;
mod drives;
mod events;
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
    /// Let go of a failed drive or a spare
    Remove(drives::RemoveArgs),
    /// Add a drive as a spare; a degraded volume takes it at once
    AddSpare(orders::AddSpareArgs),
    /// Copy a drive to another one while it stays in service
    Replace(drives::ReplaceArgs),
    /// Bring redundancy back: take a spare, resume what is paused; or wait for it
    Rebuild(jobs::RebuildArgs),
    /// Read everything and compare data with redundancy
    Scrub(scrub::ScrubArgs),
    /// Halt the background work of a volume
    Pause(orders::VolumeArgs),
    /// Let the background work of a volume go on
    Resume(orders::VolumeArgs),
    /// Give up the scrub or replacement of a volume
    Cancel(orders::VolumeArgs),
    /// Limit background work
    Rate(orders::RateArgs),
    /// End the serving process: flush, mark everything clean, let go of the drives
    Stop(orders::StopArgs),
}

/// How to reach the serving process, and how to answer.
#[derive(Args, Clone, Debug, Default)]
pub struct Reach {
    /// Socket of the serving process; default: $FULLSTRIPE_SOCKET, or the user's own
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
/// There is none of that name, or there are several and none is named; the sentence lists them.
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

/// Its name, as the serving process has it now.
fn volume_name(client: &Client, name: Option<&str>) -> Result<String> {
    match name {
        Some(name) => Ok(name.to_owned()),
        None => Ok(volume(&client.get("/v1/status")?, None)?.name.clone()),
    }
}

/// Runs `command`.
///
/// # Errors
/// One sentence: nobody serves, or what the serving process said. An order that it refuses for the
/// sake of data has its own exit code.
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

//! The commands that change something and return at once.

use super::{Reach, volume_name};
use crate::commands::boot::in_use;
use anyhow::{Context, Result, bail};
use clap::Args;
use container::refusal::refused;
use drives::spec::{MemberSpec, Target, parse_size};
use hyper::Method;
use models::library::is_file;
use server::api::schema::{Done, RateRequest, SpareRequest};
use server::client::{ClientError, encode};
use server::status::Status;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long `stop --wait` waits; the serving process has shorter limits for its own end.
const STOP_WITHIN: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// One volume.
#[derive(Args, Debug)]
pub struct VolumeArgs {
    /// Name of the volume; may be left out where there is only one
    pub(super) volume: Option<String>,
    #[command(flatten)]
    pub(super) reach: Reach,
}

/// A drive to add.
#[derive(Args, Debug)]
pub struct AddSpareArgs {
    /// The drive: a path, with options like `,serial=NAME`
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Use the drive even if it holds data, which is lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

/// A limit.
#[derive(Args, Debug)]
pub struct RateArgs {
    /// Bytes of each drive per second, like 200m; 0 or `unlimited` for no limit
    #[arg(value_name = "RATE", value_parser = parse_rate)]
    bytes_per_s: u64,
    #[command(flatten)]
    reach: Reach,
}

/// How to stop.
#[derive(Args, Debug)]
pub struct StopArgs {
    /// Wait until the process has ended
    #[arg(long)]
    wait: bool,
    /// Stop although a block device is in use: what uses it waits until the array is served again
    #[arg(long)]
    leave_devices: bool,
    #[command(flatten)]
    reach: Reach,
}

/// A rate as the user writes it.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number {
        "0" | "unlimited" => Ok(0),
        _ => parse_size(number).ok_or_else(|| {
            format!(
                "{text} is no rate; give bytes per second, or a number with k, m or g, or unlimited"
            )
        }),
    }
}

/// Prints the answer to an order.
pub(super) fn answered(reach: &Reach, done: &Done) -> Result<ExitCode> {
    reach.print(done)?;
    Ok(ExitCode::SUCCESS)
}

/// `pause` and `resume`.
///
/// # Errors
/// See [`ClientError`].
pub fn on_volume(args: &VolumeArgs, what: &str) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let volume = volume_name(&client, args.volume.as_deref())?;
    let path = format!("/v1/volumes/{}/{what}", encode(&volume));
    answered(&args.reach, &client.order(Method::POST, &path)?)
}

/// `cancel`.
///
/// # Errors
/// See [`ClientError`].
pub fn cancel(args: &VolumeArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let volume = volume_name(&client, args.volume.as_deref())?;
    let path = format!("/v1/volumes/{}/job", encode(&volume));
    answered(&args.reach, &client.order(Method::DELETE, &path)?)
}

/// `add-spare`.
///
/// # Errors
/// The drive is misspelt; see also [`ClientError`].
pub fn add_spare(args: &AddSpareArgs) -> Result<ExitCode> {
    let request = SpareRequest {
        drive: absolute(&args.drive)?,
        force: args.force,
    };
    let client = args.reach.connect()?;
    answered(
        &args.reach,
        &client.send(Method::POST, "/v1/spares", &request)?,
    )
}

/// The drive's specification with absolute paths, because the serving process may run in another folder.
///
/// # Errors
/// It is misspelt.
pub fn absolute(spec: &str) -> Result<String> {
    let parsed: MemberSpec = spec.parse()?;
    let whole = |path: &str| -> Result<String> {
        let path = std::path::absolute(path).context("cannot determine the current folder")?;
        Ok(path.display().to_string())
    };
    let mut parts = spec.split(',').map(str::to_owned).collect::<Vec<String>>();
    if let Target::Path(_) = &parsed.target {
        parts[0] = whole(&parts[0])?;
    }
    for part in &mut parts {
        if let Some(drive) = part.strip_prefix("model=")
            && is_file(drive)
        {
            *part = format!("model={}", whole(drive)?);
        }
    }
    Ok(parts.join(","))
}

/// `rate`.
///
/// # Errors
/// See [`ClientError`].
pub fn rate(args: &RateArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let request = RateRequest {
        bytes_per_s: args.bytes_per_s,
    };
    answered(
        &args.reach,
        &client.send(Method::PUT, "/v1/rate", &request)?,
    )
}

/// `stop`.
///
/// # Errors
/// See [`ClientError`]; with `--wait` also when the process does not end in time. A device in use is a refusal without
/// `--leave-devices`.
pub fn stop(args: &StopArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let before = match client.get::<Status>("/v1/status") {
        // Whatever is in use is left.
        Err(_) if args.leave_devices => Status::default(),
        told => told?,
    };
    if !args.leave_devices {
        refuse_devices_in_use(&before)?;
    }
    let done: Done = client.order(Method::POST, "/v1/stop")?;
    if !args.wait {
        return answered(&args.reach, &done);
    }
    let deadline = Instant::now() + STOP_WITHIN;
    let mut last = before;
    loop {
        match client.get::<Status>("/v1/status") {
            Err(error) if matches!(error.downcast_ref(), Some(ClientError::Nobody(_))) => break,
            Ok(status) => last = status,
            // The answer broke off: the process is just ending.
            Err(_) => {}
        }
        std::thread::sleep(LOOK_EVERY);
        if Instant::now() > deadline {
            bail!(
                "the serving process has not ended within {} s",
                STOP_WITHIN.as_secs()
            );
        }
    }
    let text = stopped(&last);
    answered(&args.reach, &Done { text, member: None })
}

/// Refuses while something uses a block device of the array: it would wait, and `umount` too, until the array is served again.
fn refuse_devices_in_use(status: &Status) -> Result<()> {
    let devices = status.volumes.iter().filter_map(|volume| {
        let device = volume.device.as_ref()?;
        Some((volume.name.as_str(), Path::new(&device.node)))
    });
    let Some(used) = in_use::refusal(devices) else {
        return Ok(());
    };
    Err(refused(format!(
        "{used}; with --leave-devices it waits until the array is served again"
    )))
}

/// The sentence about an array that has ended; `last` is its last status.
fn stopped(last: &Status) -> String {
    let failed = last
        .volumes
        .iter()
        .filter(|volume| volume.state == "failed");
    let failed: Vec<&str> = failed.map(|volume| volume.name.as_str()).collect();
    match failed[..] {
        [] => "the array is stopped".to_owned(),
        _ => format!(
            "the array is stopped; {} had failed and could not be flushed",
            failed.join(", ")
        ),
    }
}

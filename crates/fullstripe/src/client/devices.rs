//! The commands that make a volume a block device of this machine, and remove the device.

use super::orders::{VolumeArgs, answered};
use super::volume_name;
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use server::api::schema::{AttachDone, AttachRequest, Done};
use server::client::encode;
use server::status::DeviceKind;
use std::process::ExitCode;
use words::typed_size;

/// The block of ext4 and of the page cache.
const BLOCK_BYTES: u64 = 4096;

/// Which volume, and how.
#[derive(Args, Debug)]
pub struct AttachArgs {
    /// How the device reaches the serving process: ublk, or nbd, the kernel's NBD client; default: ublk where the
    /// kernel has it, else nbd
    #[arg(long = "as", value_name = "WAY", value_parser = ways())]
    way: Option<DeviceKind>,
    #[command(flatten)]
    volume: VolumeArgs,
}

fn ways() -> impl TypedValueParser<Value = DeviceKind> {
    let kind = |name: String| {
        let mut kinds = DeviceKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.name() == name);
        kind.expect("only names of kinds are possible")
    };
    PossibleValuesParser::new(DeviceKind::ALL.map(DeviceKind::name)).map(kind)
}

/// `attach`.
///
/// # Errors
/// See [`server::client::ClientError`].
pub fn attach(args: &AttachArgs) -> Result<ExitCode> {
    let reach = &args.volume.reach;
    let client = reach.connect()?;
    let volume = volume_name(&client, args.volume.volume.as_deref())?;
    let path = format!("/v1/volumes/{}/attach", encode(&volume));
    let request = AttachRequest { kind: args.way };
    let done: AttachDone = client.send_about_device(&path, &request)?;
    if reach.json {
        print_json(&done)?;
    } else {
        print_text(&format!("{}\n{}", done.text, advice(&done)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `detach`.
///
/// # Errors
/// See [`server::client::ClientError`].
pub fn detach(args: &VolumeArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let volume = volume_name(&client, args.volume.as_deref())?;
    let path = format!("/v1/volumes/{}/detach", encode(&volume));
    let done: Done = client.send_about_device(&path, &())?;
    answered(&args.reach, &done)
}

/// How to align a file system with the rows of the array; nothing where nothing is striped.
fn advice(done: &AttachDone) -> String {
    let (chunk_bytes, row_bytes) = (u64::from(done.chunk_bytes), done.row_bytes);
    if row_bytes <= chunk_bytes || !chunk_bytes.is_multiple_of(BLOCK_BYTES) {
        return String::new();
    }
    let device = &done.device.path;
    format!(
        "for file systems that fit its chunks and stripes:\n  \
         mkfs.ext4 -b {BLOCK_BYTES} -E stride={},stripe_width={} {device}\n  \
         mkfs.xfs -d su={},sw={} {device}\n",
        chunk_bytes / BLOCK_BYTES,
        row_bytes / BLOCK_BYTES,
        typed_size(chunk_bytes),
        row_bytes / chunk_bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::status::DeviceStatus;

    fn done(chunk_bytes: u32, row_bytes: u64) -> AttachDone {
        AttachDone {
            text: String::new(),
            device: DeviceStatus {
                kind: DeviceKind::Ublk,
                path: "/dev/fullstripe/vol0".to_owned(),
                node: "/dev/ublkb0".to_owned(),
            },
            chunk_bytes,
            row_bytes,
        }
    }

    #[test]
    fn a_striped_volume_says_how_file_systems_fit() {
        insta::assert_snapshot!(advice(&done(128 << 10, 384 << 10)), @r"
        for file systems that fit its chunks and stripes:
          mkfs.ext4 -b 4096 -E stride=32,stripe_width=96 /dev/fullstripe/vol0
          mkfs.xfs -d su=128k,sw=3 /dev/fullstripe/vol0
        ");
    }

    #[test]
    fn a_mirror_has_nothing_to_fit() {
        assert_eq!(advice(&done(64 << 10, 64 << 10)), "");
    }
}

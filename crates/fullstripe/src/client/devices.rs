//! The commands that make a volume a block device of this machine, and remove the device.

use super::orders::{VolumeArgs, answered};
use super::{giving_up, volume_name};
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use exports::nvmet::address::{Address, connect_line};
use server::api::schema::{AttachDone, AttachRequest, Done};
use server::client::encode;
use server::nvmet::NvmetRequest;
use server::status::{DeviceKind, DeviceStatus};
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
    /// Also export the device to other machines by NVMe over TCP, from this address: tcp://IP[:PORT]. The kernel's NVMe target
    /// does it (modprobe nvmet-tcp), until the device is detached. The device is one of ublk. The volume may be attached already
    #[arg(long, value_name = "ADDRESS")]
    nvmet: Option<Address>,
    /// A host that may connect there, by its NQN (/etc/nvme/hostnqn on that machine); may be given several times
    #[arg(
        long,
        value_name = "NQN",
        requires = "nvmet",
        conflicts_with = "insecure"
    )]
    nvmet_host: Vec<String>,
    /// Let everybody who can reach the address read and write; NVMe over TCP itself proves nobody's identity
    #[arg(long, requires = "nvmet")]
    insecure: bool,
    #[command(flatten)]
    volume: VolumeArgs,
}

/// Which volume, and what of it.
#[derive(Args, Debug)]
pub struct DetachArgs {
    /// Only end its export by NVMe over TCP; the block device stays
    #[arg(long)]
    nvmet: bool,
    /// Give up a device whose server is gone and will not come back: what uses the device gets errors, and what was written to it
    /// and is not on the drives is lost. Needs no server
    #[arg(long, conflicts_with = "nvmet")]
    give_up: bool,
    /// Lose what waits on the device
    #[arg(long, requires = "give_up")]
    yes: bool,
    #[command(flatten)]
    volume: VolumeArgs,
}

impl AttachArgs {
    fn export(&self) -> Option<NvmetRequest> {
        let address = self.nvmet?;
        Some(NvmetRequest {
            address: address.to_string(),
            hosts: self.nvmet_host.clone(),
            any_host: self.insecure,
        })
    }
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
    let request = AttachRequest {
        kind: args.way,
        nvmet: args.export(),
    };
    let done: AttachDone = client.send_about_device(&path, &request)?;
    if reach.json {
        print_json(&done)?;
    } else {
        let (advice, connect) = (advice(&done), connect(&done.device));
        print_text(&format!("{}\n{advice}{connect}", done.text))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `detach`.
///
/// # Errors
/// See [`server::client::ClientError`] and [`giving_up::run`].
pub fn detach(args: &DetachArgs) -> Result<ExitCode> {
    let reach = &args.volume.reach;
    if args.give_up {
        return giving_up::run(reach, args.volume.volume.as_deref(), args.yes);
    }
    let client = reach.connect()?;
    let volume = volume_name(&client, args.volume.volume.as_deref())?;
    // A path of its own: a server that does not know it ends nothing.
    let what = if args.nvmet { "end-export" } else { "detach" };
    let path = format!("/v1/volumes/{}/{what}", encode(&volume));
    let done: Done = client.send_about_device(&path, &())?;
    answered(reach, &done)
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

/// How other machines connect, if the device is exported to them.
fn connect(device: &DeviceStatus) -> String {
    let Some(export) = &device.nvmet else {
        return String::new();
    };
    let Ok(address) = export.address.parse() else {
        return String::new();
    };
    let line = connect_line(&address, &export.nqn);
    let who = match &export.hosts[..] {
        [] => "every host that can reach this address may connect",
        [_] => "the host that you have named may connect",
        _ => "the hosts that you have named may connect",
    };
    format!("{who}:\n  {line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::nvmet::NvmetStatus;

    fn done(chunk_bytes: u32, row_bytes: u64) -> AttachDone {
        AttachDone {
            text: String::new(),
            device: DeviceStatus {
                kind: DeviceKind::Ublk,
                path: "/dev/fullstripe/vol0".to_owned(),
                node: "/dev/ublkb0".to_owned(),
                nvmet: None,
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
    fn a_host_is_told_how_to_connect() {
        let mut device = done(0, 0).device;
        assert_eq!(connect(&device), "");
        let mut export = NvmetStatus {
            address: "tcp://10.0.0.5:4420".to_owned(),
            nqn: "nqn.x".to_owned(),
            hosts: Vec::new(),
            any_host: true,
        };
        device.nvmet = Some(export.clone());
        insta::assert_snapshot!(connect(&device), @r"
        every host that can reach this address may connect:
          nvme connect -t tcp -a 10.0.0.5 -s 4420 -n nqn.x
        ");
        export.hosts = vec!["nqn.host".to_owned()];
        device.nvmet = Some(export);
        insta::assert_snapshot!(connect(&device), @r"
        the host that you have named may connect:
          nvme connect -t tcp -a 10.0.0.5 -s 4420 -n nqn.x
        ");
    }

    #[test]
    fn a_mirror_has_nothing_to_fit() {
        assert_eq!(advice(&done(64 << 10, 64 << 10)), "");
    }
}

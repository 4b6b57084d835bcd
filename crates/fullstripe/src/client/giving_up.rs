//! `detach --give-up`: ends a block device whose server is gone. No server takes part.

use super::Reach;
use anyhow::{Context, Result, anyhow, bail};
use container::refusal::refused;
use exports::giving_up::give_up;
use exports::names::{Given, given};
use server::api::schema::Done;
use server::api::socket_path::usual_sockets;
use server::client::Client;
use server::status::Status;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Gives up the device of the volume called `name`, or of the only one that has a device.
///
/// # Errors
/// There is no such device, or the kernel refuses. A device that is served, and a missing `--yes`, are refusals.
pub fn run(reach: &Reach, name: Option<&str>, yes: bool) -> Result<ExitCode> {
    let mut devices = given()?;
    devices.retain(Given::is_there);
    let device = choose(&devices, name)?;
    let (volume, node) = (&device.volume, device.node.display());
    let sockets = usual_sockets().into_iter().chain(reach.socket.clone());
    for socket in sockets.collect::<Vec<PathBuf>>() {
        if serves(&socket, &device.node)? {
            return Err(refused(format!(
                "volume {volume} is served as {node}: `fullstripe detach {volume}` removes it, without --give-up"
            )));
        }
    }
    if !yes {
        return Err(refused(format!(
            "this would give up {node} of volume {volume}: whatever uses it gets errors, and what was written to it and is not on the \
             drives is lost; repeat it with --yes"
        )));
    }
    give_up(device)?;
    let text = format!(
        "{node} of volume {volume} is given up; what has it open gets errors, and a file system on it can be unmounted"
    );
    reach.print(&Done { text, member: None })?;
    Ok(ExitCode::SUCCESS)
}

fn choose<'a>(devices: &'a [Given], name: Option<&str>) -> Result<&'a Given> {
    let is_meant =
        |device: &&Given| name.is_none_or(|name| device.volume == name || device.uuid == name);
    let meant: Vec<&Given> = devices.iter().filter(is_meant).collect();
    match (&meant[..], name) {
        ([device], _) => Ok(device),
        ([], None) => bail!("no server has left a block device on this machine"),
        ([], Some(name)) => bail!("no server has left a block device of volume {name}"),
        (several, _) => {
            let all = several.iter().map(|device| {
                let Given { volume, uuid, node } = device;
                format!("{volume} ({}, {uuid})", node.display())
            });
            let all: Vec<String> = all.collect();
            bail!(
                "several volumes have block devices, name one by its UUID: {}",
                all.join(", ")
            )
        }
    }
}

/// Whether the server at `socket`, if there is one, has this device.
///
/// # Errors
/// It may be there, and does not say.
fn serves(socket: &Path, node: &Path) -> Result<bool> {
    let nobody = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    if UnixStream::connect(socket).is_err_and(|error| nobody.contains(&error.kind())) {
        return Ok(false);
    }
    let cannot = || {
        anyhow!(
            "the server at {} does not say whether it serves {}",
            socket.display(),
            node.display()
        )
    };
    let client = Client::connect(Some(socket)).with_context(cannot)?;
    let status: Status = client.get("/v1/status").with_context(cannot)?;
    let mut devices = status
        .volumes
        .iter()
        .filter_map(|volume| volume.device.as_ref());
    Ok(devices.any(|device| Path::new(&device.node) == node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(node: &str, volume: &str, uuid: &str) -> Given {
        Given {
            node: node.into(),
            volume: volume.to_owned(),
            uuid: uuid.to_owned(),
        }
    }

    #[test]
    fn a_volume_is_named_unless_there_is_only_one() {
        let [one, other] = [
            device("/dev/nbd0", "vol0", "1:1:1:1"),
            device("/dev/ublkb0", "vol0", "2:2:2:2"),
        ];
        let both = [one.clone(), other];
        let error =
            |devices: &[Given], name| choose(devices, name).map(drop).unwrap_err().to_string();
        assert_eq!(choose(&both[..1], None).unwrap(), &one);
        assert_eq!(choose(&both[..1], Some("vol0")).unwrap(), &one);
        assert_eq!(choose(&both, Some("1:1:1:1")).unwrap(), &one);
        insta::assert_snapshot!(error(&[], None), @"no server has left a block device on this machine");
        insta::assert_snapshot!(error(&both, Some("vol1")), @"no server has left a block device of volume vol1");
        insta::assert_snapshot!(error(&both, Some("vol0")), @"several volumes have block devices, name one by its UUID: vol0 (/dev/nbd0, 1:1:1:1), vol0 (/dev/ublkb0, 2:2:2:2)");
    }

    #[test]
    fn a_socket_that_a_killed_server_left_serves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("api.sock");
        assert!(!serves(&socket, Path::new("/dev/nbd0")).unwrap());
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        assert!(!serves(&socket, Path::new("/dev/nbd0")).unwrap());
        // Whether there is one behind a socket that cannot be asked is not known.
        std::fs::remove_file(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &socket).unwrap();
        let error = serves(&socket, Path::new("/dev/nbd0")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("does not say whether it serves /dev/nbd0")
        );
    }
}

//! Claiming the socket's path: one process answers on it, and a dead process's leftover is in
//! nobody's way.
//!
//! A socket file outlives its process, so its presence says nothing; only a refused connection says
//! that it is a leftover. Between the look and the removal another process could claim the path, so
//! both happen under a lock of the folder, which vanishes with its holder and leaves no file
//! behind.

use super::socket_path::SocketPath;
use anyhow::{Context, Result, bail};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A path on which this process listens. Dropping it removes the socket's file.
#[derive(Debug)]
pub struct ClaimedSocket {
    path: PathBuf,
    /// Device and inode, to recognise our own file.
    file: (u64, u64),
}

impl ClaimedSocket {
    /// Listens on `socket` with mode 0600.
    ///
    /// # Errors
    /// Somebody answers on the path, something else than a socket lies there, or the system
    /// refuses.
    pub fn claim(socket: &SocketPath) -> Result<(ClaimedSocket, UnixListener)> {
        socket.prepare_folder()?;
        let path = socket.path.as_path();
        let shown = path.display();
        let address = SocketAddrUnix::new(path).map_err(|_| {
            anyhow::anyhow!("{shown} cannot be a socket: a path of at most 107 bytes is needed")
        })?;
        let _lock = lock_folder(path)?;
        clear(path)?;
        let listener = listen(&address).with_context(|| format!("cannot listen on {shown}"))?;
        let metadata = std::fs::symlink_metadata(path)
            .with_context(|| format!("cannot look at the socket {shown}"))?;
        let claimed = ClaimedSocket {
            path: path.to_owned(),
            file: (metadata.dev(), metadata.ino()),
        };
        Ok((claimed, listener))
    }
}

impl Drop for ClaimedSocket {
    fn drop(&mut self) {
        let _lock = lock_folder(&self.path);
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn lock_folder(path: &Path) -> Result<OwnedFd> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        rustix::fs::flock(&folder, FlockOperation::LockExclusive)?;
        Ok::<OwnedFd, Errno>(folder)
    };
    open().with_context(|| format!("cannot use the socket's folder {}", folder.display()))
}

/// Removes what a dead process left behind.
fn clear(path: &Path) -> Result<()> {
    let shown = path.display();
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot look at {shown}")),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        bail!("{shown} exists and is not a socket; name another path with --socket");
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!(
            "another process answers on {shown}; `fullstripe stop` ends it, --socket names another path"
        ),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove the leftover {shown}"))
        }
        Err(error) => Err(error).with_context(|| format!("cannot tell whether {shown} is in use")),
    }
}

fn listen(address: &SocketAddrUnix) -> Result<UnixListener, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux makes the file with the mode of the unbound socket: there is no moment in which others
    // could connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn at(path: PathBuf) -> SocketPath {
        SocketPath {
            path,
            is_default: false,
        }
    }

    #[test]
    fn the_socket_is_private_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        let (claimed, listener) = ClaimedSocket::claim(&at(path.clone())).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = ClaimedSocket::claim(&at(path.clone()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("another process answers on"), "{error}");
        drop((claimed, listener));
        assert!(!path.exists());
    }

    #[test]
    fn a_leftover_is_replaced_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (claimed, _listener) = ClaimedSocket::claim(&at(path.clone())).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        drop(claimed);
        let error = ClaimedSocket::claim(&at(path.clone()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }

    #[test]
    fn an_impossible_path_is_one_sentence() {
        let long = at(PathBuf::from(format!("/tmp/{}", "x".repeat(200))));
        let error = ClaimedSocket::claim(&long).unwrap_err().to_string();
        assert!(error.contains("at most 107 bytes"), "{error}");
        let nowhere = at(PathBuf::from("/nonexistent-folder/api.sock"));
        let error = ClaimedSocket::claim(&nowhere).unwrap_err().to_string();
        assert!(
            error.contains("cannot use the socket's folder /nonexistent-folder"),
            "{error}"
        );
    }
}

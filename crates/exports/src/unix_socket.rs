//! Claims the path of a Unix socket, for the API or for NBD: only one process answers on it, and a socket file that a
//! dead process left is removed.
//!
//! A socket file outlives its process, so its presence says nothing; only a refused connection proves that it is a
//! leftover. Another process could claim the path between this check and the removal, so both happen under a lock of
//! the folder. The lock ends with its process and leaves no file behind.

use crate::killed::why_not_ended;
use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// A killed process may answer on its socket for at most this long.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// A process that closes connections without a word does so within this time. A process that stays silent for longer
/// waits for the client to speak, or is busy.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);
/// Another process's check of a path in the same folder takes less than this.
const LOCKED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A path on which this process listens. Dropping it removes the socket's file.
#[derive(Debug)]
pub struct ClaimedSocket {
    path: PathBuf,
    /// Device and inode, to recognise this process's own file.
    file: (u64, u64),
}

impl ClaimedSocket {
    /// Listens on `path` with mode 0600. `option` is the command-line option that names another path, for error texts.
    ///
    /// # Errors
    /// If another process answers on the path, if the path exists and is not a socket, or if the system refuses.
    pub fn claim(path: &Path, option: &str) -> Result<(ClaimedSocket, UnixListener)> {
        ClaimedSocket::claim_within(path, option, LOCKED_WITHIN)
    }

    fn claim_within(
        path: &Path,
        option: &str,
        patience: Duration,
    ) -> Result<(ClaimedSocket, UnixListener)> {
        let shown = path.display();
        let address = SocketAddrUnix::new(path).map_err(|_| {
            anyhow!("{shown} cannot be a socket: a path of at most 107 bytes is needed")
        })?;
        let _lock = lock_folder(path, patience)?;
        clear(path, option)?;
        let listener = listen(&address).with_context(|| format!("cannot listen on {shown}"))?;
        let metadata = std::fs::symlink_metadata(path)
            .with_context(|| format!("cannot look at the socket {shown}"))?;
        let claimed = ClaimedSocket {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            file: (metadata.dev(), metadata.ino()),
        };
        Ok((claimed, listener))
    }

    /// Goes on with a socket that another process has claimed and left ([`ClaimedSocket::leave`]), whose file had this device
    /// and inode. `None` if the path leads to another file by now.
    #[must_use]
    pub fn adopt(path: &Path, file: (u64, u64)) -> Option<ClaimedSocket> {
        let metadata = std::fs::symlink_metadata(path).ok()?;
        ((metadata.dev(), metadata.ino()) == file).then(|| ClaimedSocket {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            file,
        })
    }

    /// Device and inode of the socket's file.
    #[must_use]
    pub fn file(&self) -> (u64, u64) {
        self.file
    }

    /// Leaves the file to the next process.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    /// Lets the members of this group connect, too: the file's group becomes `group`, its mode 0660. Until now the file
    /// was its owner's alone, so nobody has connected whom this keeps out.
    ///
    /// # Errors
    /// The file is not the one that was claimed any more, or the system refuses.
    pub fn admit_group(&self, group: u32) -> Result<()> {
        let shown = self.path.display();
        let what = || format!("cannot let group {group} use the socket {shown}");
        // In a folder of other users, the path could be made to lead to another file. The descriptor cannot.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.path, flags, Mode::empty()).with_context(what)?;
        let stat = rustix::fs::fstat(&file).with_context(what)?;
        if (stat.st_dev, stat.st_ino) != self.file {
            bail!(
                "{shown} is not the socket that this process has made; put the socket into a folder of your own"
            );
        }
        let group = Gid::from_raw(group);
        rustix::fs::chownat(&file, "", None, Some(group), AtFlags::EMPTY_PATH)
            .with_context(what)?;
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
        rustix::fs::chmod(descriptor, mode).with_context(what)
    }

    /// The absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ClaimedSocket {
    fn drop(&mut self) {
        // Without the lock the file stays as a leftover, which does no harm.
        let Ok(_lock) = lock_folder(&self.path, LOCKED_WITHIN) else {
            return;
        };
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Locks the folder of `path`. Any process that can read a folder like `/tmp` can keep it locked for ever, so this
/// waits for at most `patience`.
fn lock_folder(path: &Path, patience: Duration) -> Result<OwnedFd> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let shown = folder.display();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let what = || format!("cannot use the socket's folder {shown}");
    let lock = match rustix::fs::open(folder, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            bail!("the socket's folder {shown} does not exist; make it, or name another")
        }
        other => other.with_context(what)?,
    };
    let give_up = Instant::now() + patience;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => {
                std::thread::sleep(LOOK_AGAIN_AFTER);
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => bail!(
                "another process keeps the socket's folder {shown} locked; put the socket into another folder"
            ),
            Err(error) => return Err(error).with_context(what),
        }
    }
}

/// Removes a socket file that a dead process left behind.
fn clear(path: &Path, option: &str) -> Result<()> {
    let shown = path.display();
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot look at {shown}")),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        bail!("{shown} exists and is not a socket; name another path with {option}");
    }
    let answers =
        somebody_answers(path).with_context(|| format!("cannot tell whether {shown} is in use"))?;
    if answers {
        if let Some(why) = owner(path).and_then(why_not_ended) {
            bail!("{shown} cannot be used: {why}");
        }
        bail!("another process answers on {shown}; stop it, or name another path with {option}");
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the leftover {shown}"))
        }
        _ => Ok(()),
    }
}

/// Whether a process answers on a socket. The socket of a killed process may accept connections until the kernel has
/// released the process's rings, and then closes them without a word.
fn somebody_answers(path: &Path) -> std::io::Result<bool> {
    let give_up = Instant::now() + GONE_WITHIN;
    loop {
        let mut stream = match connect(path) {
            Ok(stream) => stream,
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(false),
            // A process listens, and its queue of connections is full.
            Err(Errno::AGAIN) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        stream.set_read_timeout(Some(CLOSES_WITHIN))?;
        let is_ended = match stream.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        if !is_ended || Instant::now() >= give_up {
            return Ok(true);
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// The process that listens on a socket.
#[must_use]
pub fn owner(path: &Path) -> Option<i32> {
    let stream = connect(path).ok()?;
    let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
    Some(credentials.pid.as_raw_nonzero().get())
}

/// Connects without waiting for room in the listener's queue.
fn connect(path: &Path) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(UnixStream::from(socket))
}

fn listen(address: &SocketAddrUnix) -> Result<UnixListener, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the socket file the mode of the unbound socket, so there is no moment in which other users could
    // connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::inotify;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    fn claim(path: &Path) -> Result<(ClaimedSocket, UnixListener)> {
        ClaimedSocket::claim(path, "--socket")
    }

    fn refusal(path: &Path) -> String {
        claim(path).unwrap_err().to_string()
    }

    #[test]
    fn the_socket_is_private_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        let (claimed, listener) = claim(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = refusal(&path);
        assert!(error.contains("another process answers on"), "{error}");
        drop((claimed, listener));
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_left_is_adopted_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        let (claimed, listener) = claim(&path).unwrap();
        let file = claimed.file();
        claimed.leave();
        assert!(ClaimedSocket::adopt(&path, (file.0, file.1 + 1)).is_none());
        let adopted = ClaimedSocket::adopt(&path, file).unwrap();
        assert_eq!(adopted.path(), path);
        UnixStream::connect(&path).unwrap();
        drop((adopted, listener));
        assert!(ClaimedSocket::adopt(&path, file).is_none());
    }

    #[test]
    fn a_group_is_let_in_only_through_the_claimed_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        let (claimed, _listener) = claim(&path).unwrap();
        // Everybody may give a file to his own group.
        let group = rustix::process::getegid().as_raw();
        claimed.admit_group(group).unwrap();
        let file = path.metadata().unwrap();
        assert_eq!((file.mode() & 0o777, file.gid()), (0o660, group));
        let other = folder.path().join("other.sock");
        let (_other, _listener) = claim(&other).unwrap();
        std::fs::remove_file(&path).unwrap();
        for lead in [std::os::unix::fs::symlink, std::fs::hard_link] {
            lead(&other, &path).unwrap();
            let error = claimed.admit_group(group).unwrap_err().to_string();
            assert!(
                error.contains("is not the socket that this process has made"),
                "{error}"
            );
            assert_eq!(other.metadata().unwrap().mode() & 0o777, 0o600);
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// The socket's mode is right from the beginning: nothing changes it after the file has been made.
    #[test]
    fn the_socket_is_private_from_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        let wanted = inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB;
        inotify::add_watch(&watch, folder.path(), wanted).unwrap();
        let path = folder.path().join("nbd.sock");
        let _claimed = claim(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&watch, &mut buffer);
        let made = reader.next().unwrap();
        assert!(made.events().contains(inotify::ReadFlags::CREATE));
        let after = reader.next().err();
        assert_eq!(
            after,
            Some(Errno::AGAIN),
            "the file was changed after it was made"
        );
    }

    /// Of two processes that find the same stale socket, the second must not remove the socket that the first has made.
    #[test]
    fn a_leftover_is_removed_under_a_lock_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        drop(UnixListener::bind(&path).unwrap());
        let lock = lock_folder(&path, Duration::ZERO).unwrap();
        let error = ClaimedSocket::claim_within(&path, "--nbd", Duration::ZERO).unwrap_err();
        assert!(
            error.to_string().contains("keeps the socket's folder"),
            "{error}"
        );
        assert!(path.exists());
        drop(lock);
        let _claimed = ClaimedSocket::claim_within(&path, "--nbd", Duration::ZERO).unwrap();
        // The first claim has released the lock, and a second claim meets a listener.
        let error = refusal(&path);
        assert!(error.contains("another process answers on"), "{error}");
    }

    #[test]
    fn a_leftover_is_replaced_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (claimed, _listener) = claim(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        drop(claimed);
        let error = refusal(&path);
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }

    #[test]
    fn an_impossible_path_is_one_sentence() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
        let error = refusal(&long);
        assert!(error.contains("at most 107 bytes"), "{error}");
        let error = refusal(Path::new("/nonexistent-folder/api.sock"));
        assert!(
            error.contains(
                "the socket's folder /nonexistent-folder does not exist; make it, or name"
            ),
            "{error}"
        );
    }

    /// Listens at a path for `for_ms` and passes each connection to `with`.
    fn answers(path: &Path, for_ms: u64, with: fn(UnixStream)) -> std::thread::JoinHandle<()> {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let end = Instant::now() + Duration::from_millis(for_ms);
        std::thread::spawn(move || {
            while Instant::now() < end {
                if let Ok((stream, _)) = listener.accept() {
                    with(stream);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    }

    #[test]
    fn the_socket_of_a_process_that_is_going_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd");
        let going = answers(&path, 300, drop);
        let (_claimed, mine) = claim(&path).unwrap();
        going.join().unwrap();
        let _ours = UnixStream::connect(&path).unwrap();
        assert!(mine.accept().is_ok());
    }

    #[test]
    fn who_greets_or_says_nothing_keeps_its_socket() {
        let greet: fn(UnixStream) = |mut stream| drop(stream.write_all(b"NBDMAGIC"));
        let say_nothing: fn(UnixStream) = |stream| {
            std::thread::sleep(2 * CLOSES_WITHIN);
            drop(stream);
        };
        for with in [greet, say_nothing] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("nbd");
            let other = answers(&path, 200, with);
            let error = refusal(&path);
            assert!(error.contains("another process answers"), "{error}");
            other.join().unwrap();
        }
    }

    /// A stopped process does not even accept connections.
    #[test]
    fn who_has_no_room_for_connections_keeps_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        let error = refusal(&path);
        assert!(error.contains("another process answers"), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn the_process_that_listens_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(owner(&path), None);
        let _listener = UnixListener::bind(&path).unwrap();
        assert_eq!(owner(&path), Some(std::process::id().cast_signed()));
    }
}

//! Where the socket of a serving process is: one rule, for servers and clients.
//!
//! In this order: `--socket PATH`; the environment variable `FULLSTRIPE_SOCKET`; for root
//! `/run/fullstripe/api.sock`; `$XDG_RUNTIME_DIR/fullstripe/api.sock`; and if there is no such
//! folder, `/tmp/fullstripe-UID/api.sock`. The folder of a default path must belong to its user alone,
//! and both server and client check that, because in `/tmp` anybody can make a folder of any name.
//!
//! An array of the settings file has a folder of its own, `/run/fullstripe/arrays/NAME`, because a machine may have several. A client
//! that is told no socket finds it there if only one such array is served, and its own default socket does not exist. A user who
//! has no server finds root's servers in this way, as far as root's group for readers lets him in ([`super::access`]).

use anyhow::{Context, Result, bail};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Name of the environment variable.
pub const VARIABLE: &str = "FULLSTRIPE_SOCKET";
/// Root's folder.
const FOLDER_OF_ROOT: &str = "/run/fullstripe";
/// Below it, the folders of the arrays of the settings file.
const ARRAYS: &str = "arrays";
/// The name of a socket.
const SOCKET: &str = "api.sock";

/// A socket's path, and whether it was chosen explicitly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath {
    /// The path.
    pub path: PathBuf,
    /// The path is a default, so its folder is this program's to make and to check.
    pub is_default: bool,
}

/// What the rule depends on.
#[derive(Clone, Debug, Default)]
struct Surroundings {
    variable: Option<OsString>,
    runtime_folder: Option<OsString>,
    user: u32,
}

impl SocketPath {
    /// Applies the rule in the module's documentation; `given` is the value of `--socket`.
    #[must_use]
    pub fn choose(given: Option<&Path>) -> SocketPath {
        let surroundings = Surroundings {
            variable: std::env::var_os(VARIABLE),
            runtime_folder: std::env::var_os("XDG_RUNTIME_DIR"),
            user: rustix::process::geteuid().as_raw(),
        };
        choose_in(given, &surroundings)
    }

    /// The socket of an array of the settings file, which has a folder of its own.
    #[must_use]
    pub fn of_array(name: &str) -> SocketPath {
        SocketPath {
            path: folder_of_arrays().join(name).join(SOCKET),
            is_default: false,
        }
    }

    /// Where a client finds a server: as [`SocketPath::choose`]; but if nothing serves at the user's default place, at the
    /// socket of the only server of root that the user may connect to.
    ///
    /// # Errors
    /// There are several such servers.
    pub fn find(given: Option<&Path>) -> Result<SocketPath> {
        let chosen = SocketPath::choose(given);
        match chosen.is_default && !chosen.path.exists() {
            true => Ok(only_server(Path::new(FOLDER_OF_ROOT))?.unwrap_or(chosen)),
            false => Ok(chosen),
        }
    }

    /// Makes the folder of a default path if it does not exist, and checks that nobody else can put
    /// anything into it. The folder of an explicitly chosen path is not touched.
    ///
    /// # Errors
    /// The folder cannot be made, or other users own it or have access to it.
    pub fn prepare_folder(&self) -> Result<()> {
        let Some(folder) = self.own_folder() else {
            return Ok(());
        };
        // Each socket in root's folder has its own mode; systemd makes this folder with the same one.
        let mode = match folder == Path::new(FOLDER_OF_ROOT) {
            true => Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
            false => Mode::RWXU,
        };
        match rustix::fs::mkdir(folder, mode) {
            Ok(()) | Err(Errno::EXIST) => self.check_folder(),
            Err(error) => Err(error).with_context(|| {
                format!(
                    "cannot make the folder {}; name a socket with --socket",
                    folder.display()
                )
            }),
        }
    }

    /// Checks that the folder of a default path belongs to its user alone. A folder that does not exist passes
    /// the check.
    ///
    /// # Errors
    /// Other users own the folder or have access to it.
    pub fn check_folder(&self) -> Result<()> {
        let Some(folder) = self.own_folder() else {
            return Ok(());
        };
        let Ok(stat) = rustix::fs::lstat(folder) else {
            return Ok(());
        };
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let closed = !Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        if !is_folder || stat.st_uid != rustix::process::geteuid().as_raw() || !closed {
            bail!(
                "{} is not a folder that only you can write to; remove it, or name a socket with --socket",
                folder.display()
            );
        }
        Ok(())
    }

    fn own_folder(&self) -> Option<&Path> {
        self.path.parent().filter(|_| self.is_default)
    }
}

/// The sockets of servers at the places that need not be named: the default one, and those of the arrays of the settings
/// file. A socket of a process that was killed stays as a file.
#[must_use]
pub fn usual_sockets() -> Vec<PathBuf> {
    let default = SocketPath::choose(None).path;
    let mut all = sockets_in(&folder_of_arrays());
    all.extend(default.exists().then_some(default));
    all
}

fn folder_of_arrays() -> PathBuf {
    Path::new(FOLDER_OF_ROOT).join(ARRAYS)
}

fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = entries.map(|entry| entry.path().join(SOCKET));
    sockets.filter(|path| path.exists()).collect()
}

/// The socket of the only server of root, whose folder is `folder`, to which this user may connect. A socket of a process that
/// was killed stays as a file.
fn only_server(folder: &Path) -> Result<Option<SocketPath>> {
    let mut there = sockets_in(&folder.join(ARRAYS));
    there.push(folder.join(SOCKET));
    there.retain(|path| UnixStream::connect(path).is_ok());
    there.sort();
    match &there[..] {
        [] => Ok(None),
        [path] => Ok(Some(SocketPath {
            path: path.clone(),
            is_default: false,
        })),
        several => {
            let names: Vec<String> = several
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            bail!(
                "several arrays are served; name one with --socket: {}",
                names.join(", ")
            )
        }
    }
}

fn choose_in(given: Option<&Path>, surroundings: &Surroundings) -> SocketPath {
    let non_empty = |text: &OsString| !text.is_empty();
    let chosen = given.map(Path::to_owned).or_else(|| {
        let variable = surroundings.variable.clone().filter(non_empty);
        variable.map(PathBuf::from)
    });
    if let Some(path) = chosen {
        return SocketPath {
            path,
            is_default: false,
        };
    }
    let runtime_folder = surroundings.runtime_folder.clone().filter(non_empty);
    let folder = match runtime_folder {
        _ if surroundings.user == 0 => PathBuf::from(FOLDER_OF_ROOT),
        Some(folder) => Path::new(&folder).join("fullstripe"),
        None => PathBuf::from(format!("/tmp/fullstripe-{}", surroundings.user)),
    };
    SocketPath {
        path: folder.join(SOCKET),
        is_default: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_flag_comes_before_the_environment_and_that_before_the_defaults() {
        let mut here = Surroundings {
            variable: Some("/env.sock".into()),
            runtime_folder: Some("/run/user/7".into()),
            user: 7,
        };
        let path = |given, here: &Surroundings| choose_in(given, here).path;
        assert_eq!(
            path(Some(Path::new("/flag.sock")), &here),
            Path::new("/flag.sock")
        );
        assert_eq!(path(None, &here), Path::new("/env.sock"));
        assert!(!choose_in(None, &here).is_default);
        here.variable = Some(OsString::new());
        assert_eq!(
            path(None, &here),
            Path::new("/run/user/7/fullstripe/api.sock")
        );
        assert!(choose_in(None, &here).is_default);
        here.user = 0;
        assert_eq!(path(None, &here), Path::new("/run/fullstripe/api.sock"));
        here.runtime_folder = None;
        here.user = 7;
        assert_eq!(path(None, &here), Path::new("/tmp/fullstripe-7/api.sock"));
    }

    #[test]
    fn the_only_array_is_found_and_of_several_none_is_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let arrays = folder.path().join(ARRAYS);
        let only = || only_server(folder.path());
        assert_eq!(only().unwrap(), None);
        for name in ["data", "killed", "logs"] {
            std::fs::create_dir_all(arrays.join(name)).unwrap();
        }
        let [data, logs] = ["data", "logs"].map(|name| arrays.join(name).join(SOCKET));
        std::fs::write(arrays.join("killed").join(SOCKET), "").unwrap();
        let by_hand = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        assert_eq!(only().unwrap().unwrap().path, folder.path().join(SOCKET));
        drop(by_hand);
        let _data = UnixListener::bind(&data).unwrap();
        assert_eq!(only().unwrap().unwrap().path, data);
        let _logs = UnixListener::bind(&logs).unwrap();
        let error = only().unwrap_err().to_string();
        let (data, logs) = (data.display(), logs.display());
        assert_eq!(
            error,
            format!("several arrays are served; name one with --socket: {data}, {logs}")
        );
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fullstripe/api.sock");
        let own = SocketPath {
            path: path.clone(),
            is_default: true,
        };
        own.prepare_folder().unwrap();
        own.prepare_folder().unwrap();
        let made = path.parent().unwrap();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(made, PermissionsExt::from_mode(0o770)).unwrap();
        let error = own.check_folder().unwrap_err().to_string();
        assert!(
            error.contains("is not a folder that only you can write to"),
            "{error}"
        );
        let chosen = SocketPath {
            path,
            is_default: false,
        };
        chosen.check_folder().unwrap();
    }
}

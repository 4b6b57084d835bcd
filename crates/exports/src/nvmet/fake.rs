//! A configfs in an ordinary folder, which behaves as the kernel's: it fills the folders that are made, refuses to remove what is
//! used, looks the target of a link up, and keeps two ports from the same address.

use super::tree::Calls;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The kernel's target.
pub struct Fake {
    root: PathBuf,
    /// What the kernel says when a port begins to listen.
    pub listening: Cell<Option<Errno>>,
    /// What the kernel says to every change.
    pub refusal: Cell<Option<Errno>>,
}

fn error(errno: Errno) -> io::Error {
    errno.into()
}

impl Fake {
    /// A target that has just been loaded, in the empty folder `configfs`.
    pub fn new(configfs: &Path) -> Fake {
        let root = configfs.join("nvmet");
        for folder in ["hosts", "subsystems", "ports"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        Fake {
            root,
            listening: Cell::new(None),
            refusal: Cell::new(None),
        }
    }

    fn below(&self, path: &Path) -> Vec<String> {
        let below = path.strip_prefix(&self.root).expect("it is in configfs");
        let names = below.components().map(|one| match one {
            Component::Normal(name) => name.to_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        });
        names.collect()
    }

    /// The links in the whole tree: where they are and what they lead to.
    fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        fn collect(folder: &Path, links: &mut Vec<(PathBuf, PathBuf)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match std::fs::read_link(&path) {
                    Ok(target) => links.push((path, target)),
                    Err(_) if path.is_dir() => collect(&path, links),
                    Err(_) => {}
                }
            }
        }
        let mut links = Vec::new();
        collect(&self.root, &mut links);
        links
    }

    fn is_listening(&self, port: &Path) -> bool {
        let offered = std::fs::read_dir(port.join("subsystems")).unwrap();
        offered.count() > 0
    }

    fn listen(&self, port: &Path) -> io::Result<()> {
        if let Some(errno) = self.listening.get() {
            return Err(error(errno));
        }
        let address = |port: &Path| {
            let parts = ["addr_trtype", "addr_traddr", "addr_trsvcid"];
            parts.map(|part| std::fs::read_to_string(port.join(part)).unwrap())
        };
        let own = address(port);
        if own[0].trim() != "tcp" {
            return Err(error(Errno::INVAL));
        }
        for other in std::fs::read_dir(self.root.join("ports")).unwrap() {
            let other = other.unwrap().path();
            if other != port && self.is_listening(&other) && address(&other) == own {
                return Err(error(Errno::ADDRINUSE));
            }
        }
        Ok(())
    }

    fn refused(&self) -> io::Result<()> {
        self.refusal.get().map_or(Ok(()), |errno| Err(error(errno)))
    }
}

impl Calls for Fake {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.refused()?;
        let below = self.below(path);
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        let (files, folders): (&[(&str, &str)], &[&str]) = match below[..] {
            ["hosts", _] => (&[("dhchap_key", "")], &[]),
            ["subsystems", _] => (
                &[
                    ("attr_allow_any_host", "0"),
                    ("attr_serial", "8d3e4f"),
                    ("attr_model", "Linux"),
                ],
                &["allowed_hosts", "namespaces"],
            ),
            ["subsystems", _, "namespaces", _] => (
                &[
                    ("device_path", "(null)"),
                    ("device_uuid", "0"),
                    ("enable", "0"),
                ],
                &[],
            ),
            ["ports", _] => (
                &[
                    ("addr_trtype", ""),
                    ("addr_adrfam", ""),
                    ("addr_traddr", ""),
                    ("addr_trsvcid", ""),
                ],
                &["subsystems", "referrals"],
            ),
            _ => return Err(error(Errno::PERM)),
        };
        std::fs::create_dir(path)?;
        for (name, text) in files {
            std::fs::write(path.join(name), format!("{text}\n"))?;
        }
        folders
            .iter()
            .try_for_each(|name| std::fs::create_dir(path.join(name)))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.refused()?;
        if self.links().iter().any(|(_, target)| target == path) {
            return Err(error(Errno::BUSY));
        }
        for group in ["allowed_hosts", "namespaces", "subsystems"] {
            let made = std::fs::read_dir(path.join(group)).into_iter().flatten();
            if made.count() > 0 {
                return Err(error(Errno::NOTEMPTY));
            }
        }
        std::fs::remove_dir_all(path)
    }

    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.refused()?;
        assert!(target.is_absolute() && target.is_dir(), "{target:?}");
        let below = self.below(path);
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        match below[..] {
            ["subsystems", _, "allowed_hosts", _] => {}
            ["ports", number, "subsystems", _] => {
                let port = self.root.join("ports").join(number);
                if !self.is_listening(&port) {
                    self.listen(&port)?;
                }
            }
            _ => return Err(error(Errno::PERM)),
        }
        std::os::unix::fs::symlink(target, path)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.refused()?;
        assert!(path.is_symlink(), "{path:?} is no link");
        std::fs::remove_file(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.refused()?;
        if !path.is_file() {
            return Err(error(Errno::NOENT));
        }
        let folder = path.parent().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("addr_") && self.is_listening(folder) {
            return Err(error(Errno::ACCESS));
        }
        let read = |name| self.read(&folder.join(name));
        if name.starts_with("device_") && read("enable")? == "1" {
            return Err(error(Errno::BUSY));
        }
        if name == "enable" && text == "1" && !Path::new(&read("device_path")?).exists() {
            return Err(error(Errno::NOENT));
        }
        std::fs::write(path, format!("{text}\n"))
    }
}

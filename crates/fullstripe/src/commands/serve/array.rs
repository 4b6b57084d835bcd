//! `serve --array NAME`: an array of the settings file, as systemd starts it at boot.
//!
//! Its drives are found by the records on them, as they appear ([`container::gather`]). While members are missing, systemd is
//! told that the start is over, so that one array whose drives do not come holds up nothing else. What is to be mounted from
//! the array still waits, for its block device.

use super::notify::Notifier;
use anyhow::{Context, Result};
use container::gather::{Gathering, Here, LOOK_EVERY, Step};
use exports::export::Bind;
use exports::nbd::service::NbdExport;
use exports::ublk::service::{AtStart, UblkExport};
use metadata::imsm::start::StartOptions;
use server::api::socket_path::SocketPath;
use server::status::DeviceKind;
use server::{Hearer, ServeOptions, Server};
use settings::{ArraySettings, Attach, Settings};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An array of the settings file.
pub(super) struct Array {
    name: String,
    settings: ArraySettings,
}

/// What the command line says about its start.
pub(super) struct Start {
    /// Where the API listens, if not at the array's usual place.
    pub socket: Option<PathBuf>,
    /// What is accepted. Members that are missing are accepted after a while, even if this does not say so.
    pub accepted: StartOptions,
    /// Nothing is written to the drives.
    pub read_only: bool,
}

impl Array {
    /// Reads the settings of the array called `name` from the file `place`.
    ///
    /// # Errors
    /// The file has a mistake, or no such array.
    pub fn read(place: &Path, name: &str) -> Result<Array> {
        let settings = Settings::read(place)?.array(name)?.clone();
        let name = name.to_owned();
        Ok(Array { name, settings })
    }

    /// Waits until the array can be started, and returns how.
    ///
    /// # Errors
    /// The machine's devices cannot be listed; the socket's folder cannot be made.
    pub fn wait(
        &self,
        start: Start,
        notifier: &Notifier,
        hearer: &dyn Hearer,
    ) -> Result<ServeOptions> {
        let (drives, degraded) = self.gather(start.accepted.degraded, notifier, hearer)?;
        let settings = &self.settings;
        let deadline = Duration::from_secs(settings.deadline_s);
        Ok(ServeOptions {
            drives,
            scratch: None,
            spares: settings.spares.clone(),
            exports: self.exports(deadline),
            socket: Some(match start.socket {
                Some(path) => path,
                None => self.socket()?,
            }),
            shards: settings.shards,
            payload_bytes: settings.memory_bytes,
            completion: settings.completion,
            start: StartOptions {
                degraded,
                ..start.accepted
            },
            read_only: start.read_only,
            auto_rebuild: settings.auto_rebuild,
            rate_bytes_per_s: settings.rate_bytes_per_s,
            member_deadline: deadline,
            on_event: settings.on_event.clone(),
            backup: None,
        })
    }

    /// Makes all volumes block devices, as the settings say.
    ///
    /// # Errors
    /// One sentence: which volume cannot be one, and why.
    pub fn attach(&self, server: &Server) -> Result<()> {
        let kind = match self.settings.attach {
            Attach::Off => return Ok(()),
            Attach::Auto => None,
            Attach::Ublk => Some(DeviceKind::Ublk),
            Attach::Nbd => Some(DeviceKind::Nbd),
        };
        server.attach_all(kind)
    }

    fn exports(&self, deadline: Duration) -> Vec<Bind> {
        let nbd = NbdExport::bind(self.settings.nbd.clone(), self.settings.listen, deadline);
        vec![nbd, UblkExport::bind(AtStart::LeftOver)]
    }

    /// The array's own socket.
    fn socket(&self) -> Result<PathBuf> {
        let path = SocketPath::of_array(&self.name).path;
        let folder = path.parent().expect("the socket is in a folder");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(path)
    }

    /// The drives, and whether members are missing that nobody marked failed.
    fn gather(
        &self,
        degraded: bool,
        notifier: &Notifier,
        hearer: &dyn Hearer,
    ) -> Result<(Vec<String>, bool)> {
        let patience = match degraded {
            true => Duration::ZERO,
            false => Duration::from_secs(self.settings.degraded_after_s),
        };
        let here = Here {
            uuid: self.settings.uuid.clone(),
        };
        let mut gathering = Gathering::new(patience);
        let mut said = None;
        loop {
            match gathering.step(&here, Instant::now)? {
                Step::Start { drives, degraded } => return Ok((drives, degraded)),
                Step::Wait(count) => {
                    if said != Some(count) {
                        said = Some(count);
                        let waits = waits(&self.name, count, patience);
                        hearer.say(&waits);
                        notifier.waits(&waits);
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

/// What is waited for, in words.
fn waits(name: &str, count: usize, patience: Duration) -> String {
    match count {
        0 => format!("array {name} waits for its drives: none is there"),
        _ => format!(
            "array {name} waits for its other drives: {} there; when no other has come for {} s, it starts without them",
            match count {
                1 => "one is".to_owned(),
                _ => format!("{count} are"),
            },
            patience.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_waits_for() {
        let patience = Duration::from_secs(30);
        assert_eq!(
            waits("data", 0, patience),
            "array data waits for its drives: none is there"
        );
        assert_eq!(
            waits("data", 1, patience),
            "array data waits for its other drives: one is there; when no other has come for 30 s, it starts without them"
        );
        assert!(waits("data", 2, patience).contains("2 are there"));
    }

    #[test]
    fn an_array_is_one_of_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("fullstripe.toml");
        let refused = |name| Array::read(&place, name).err().unwrap().to_string();
        assert!(refused("data").contains("no array \"data\""));
        std::fs::write(
            &place,
            "[array.logs]\nuuid = \"3aaa0122:29827cfa:5331ad66:ca767371\"\nattach = \"off\"\n",
        )
        .unwrap();
        assert!(refused("data").contains("name one of these: logs"));
        let array = Array::read(&place, "logs").unwrap();
        assert_eq!(array.settings.attach, Attach::Off);
    }
}

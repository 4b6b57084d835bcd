//! The table `[alerts]`: whom the machine tells when something is wrong with one of its arrays.
//!
//! ```toml
//! [alerts]
//! mail = ["root"]
//! webhook_file = "/etc/fullstripe/webhook"
//! ```
//!
//! An address of a web server may be a secret: whoever knows it can send requests too. So it may be in a file of its own,
//! which nobody but its owner may read. Such a file is read when alerts are about to be sent ([`AlertSettings::ways`]); the
//! settings are correct without it.

use ::alerts::{Severity, Ways, web};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The keys of `[alerts]`, in the order in which they are shown.
pub const ALERT_KEYS: [&str; 9] = [
    "mail",
    "sendmail",
    "webhook",
    "webhook_file",
    "exec",
    "minimum",
    "ping",
    "ping_file",
    "ping_every_s",
];

/// Seconds between two pings.
pub(crate) const PING_EVERY_S: RangeInclusive<u64> = 10..=86_400;
/// The longest content of a file with an address.
const URL_BYTES_MAX: u64 = 4096;

/// Whom the machine tells of what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertSettings {
    /// Mail addresses.
    pub mail: Vec<String>,
    /// The program that takes mail, if not the usual one.
    pub sendmail: Option<PathBuf>,
    /// The address that alerts are posted to.
    pub webhook: Option<String>,
    /// The file that contains this address. Not both are set.
    pub webhook_file: Option<PathBuf>,
    /// A command for `sh -c`.
    pub exec: Option<String>,
    /// The least severity of an event that becomes an alert.
    pub minimum: Severity,
    /// The address that is asked for regularly while an array is being served.
    pub ping: Option<String>,
    /// The file that contains this address. Not both are set.
    pub ping_file: Option<PathBuf>,
    /// Seconds between two such requests, 10 to 86400.
    pub ping_every_s: u64,
}

impl Default for AlertSettings {
    fn default() -> AlertSettings {
        AlertSettings {
            mail: Vec::new(),
            sendmail: None,
            webhook: None,
            webhook_file: None,
            exec: None,
            minimum: Severity::Warning,
            ping: None,
            ping_file: None,
            ping_every_s: 60,
        }
    }
}

impl AlertSettings {
    /// Whether no way is given in which an alert or a ping could be sent.
    #[must_use]
    pub fn tells_nobody(&self) -> bool {
        let webs = [&self.webhook, &self.ping];
        let files = [&self.webhook_file, &self.ping_file];
        self.mail.is_empty()
            && self.exec.is_none()
            && webs.into_iter().all(Option::is_none)
            && files.into_iter().all(Option::is_none)
    }

    /// Addresses in the settings file `file` that may be secrets although others may read it, a sentence each.
    #[must_use]
    pub fn open_secrets(&self, file: &Path) -> Vec<String> {
        const OTHERS_READ: u32 = 0o044;
        let Some(mode) = file.metadata().ok().map(|facts| facts.mode()) else {
            return Vec::new();
        };
        let keys = [("webhook", &self.webhook), ("ping", &self.ping)];
        let open = keys.into_iter().filter(|(_, address)| {
            let is_secret = address
                .as_ref()
                .is_some_and(|address| may_be_secret(address));
            is_secret && mode & OTHERS_READ != 0
        });
        open.map(|(key, _)| {
            format!(
                "alerts.{key} has a path or a query, which may be a secret, and others than its owner may read {} (its mode is {:04o}); \
                 write the address to a file of mode 0600 and name that by {key}_file",
                file.display(),
                mode & 0o7777
            )
        })
        .collect()
    }

    /// The ways in which alerts are sent. One whose file cannot be used is left out, and is the reason for one of the
    /// sentences that are returned beside.
    #[must_use]
    pub fn ways(&self) -> (Ways, Vec<anyhow::Error>) {
        let (webhook, mistake) = address(
            "webhook",
            self.webhook.as_ref(),
            self.webhook_file.as_deref(),
        );
        let ways = Ways {
            mail: self.mail.clone(),
            sendmail: self.sendmail.clone(),
            webhook,
            exec: self.exec.clone(),
        };
        (ways, mistake.into_iter().collect())
    }

    /// The address of the ping, if there is one.
    ///
    /// # Errors
    /// The file with it cannot be used.
    pub fn ping_address(&self) -> Result<Option<String>> {
        match address("ping", self.ping.as_ref(), self.ping_file.as_deref()) {
            (_, Some(mistake)) => Err(mistake),
            (found, None) => Ok(found),
        }
    }
}

/// Whether the address of a web server has more than the server.
fn may_be_secret(address: &str) -> bool {
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    let server_and_rest = rest.split_once(['/', '?', '#']);
    server_and_rest.is_some_and(|(server, more)| !more.is_empty() && !server.is_empty())
}

fn address(
    key: &str,
    given: Option<&String>,
    file: Option<&Path>,
) -> (Option<String>, Option<anyhow::Error>) {
    let Some(path) = file else {
        return (given.cloned(), None);
    };
    let read = read_address(path).with_context(|| format!("alerts.{key}_file is not used"));
    match read {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error)),
    }
}

/// Reads an address of a web server from a file that only its owner may read.
fn read_address(path: &Path) -> Result<String> {
    let shown = path.display();
    let cannot = || format!("cannot read {shown}");
    let file = File::open(path).with_context(cannot)?;
    let facts = file.metadata().with_context(cannot)?;
    if !facts.is_file() {
        bail!("{shown} is no file; write the address to a file");
    }
    if facts.mode() & 0o077 != 0 {
        bail!(
            "others than its owner may use {shown}, which contains a secret (its mode is {:04o}); `chmod 600 {shown}`",
            facts.permissions().mode() & 0o7777
        );
    }
    let mut text = String::new();
    file.take(URL_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(cannot)?;
    let address = text.trim();
    // The error must not contain the text.
    web::check_url(address)
        .map_err(|instead| anyhow::anyhow!("{shown} contains no address; {instead}"))?;
    Ok(address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_secret_is_read_if_others_may_not_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhook");
        let settings = AlertSettings {
            mail: vec!["root".to_owned()],
            webhook_file: Some(path.clone()),
            ping_file: Some(path.clone()),
            ..AlertSettings::default()
        };
        let refused = || {
            let (ways, mistakes) = settings.ways();
            assert_eq!(ways.all(), [::alerts::Way::Mail]);
            assert!(settings.ping_address().is_err());
            format!("{:#}", mistakes[0])
        };
        assert!(refused().contains("cannot read"), "{}", refused());
        std::fs::write(&path, "http://u:secret@x.y/token\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(
            refused().contains("(its mode is 0640); `chmod 600 "),
            "{}",
            refused()
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (ways, mistakes) = settings.ways();
        assert!(mistakes.is_empty());
        assert_eq!(ways.webhook.as_deref(), Some("http://u:secret@x.y/token"));
        assert_eq!(settings.ping_address().unwrap(), ways.webhook);
        std::fs::write(&path, "secret").unwrap();
        assert!(refused().contains("contains no address; give an address like"));
        assert!(!refused().contains("secret\""), "{}", refused());
    }
}

//! The settings file of the machine, [`PLACE`]: which arrays fullstripe serves, and how.
//!
//! ```toml
//! [array.fast]
//! uuid = "3aaa0122:29827cfa:5331ad66:ca767371"
//! shards = 2
//! ```
//!
//! Each array has a block of its own, named by the operator. A block says which container it is about and what `serve`
//! is to do with it; every key except `uuid` has a default. Where an option of `fullstripe serve` means the same, its
//! default is the same. A table `[alerts]` says whom the machine tells when something is wrong ([`AlertSettings`]). An array
//! that is not in this file is none of fullstripe's business at boot: it is left to Linux md.
//!
//! [`reader`] turns the text into [`Settings`] and finds every mistake, with one sentence that names file, line and
//! key. A mistake is an error to who checks or changes the file; who starts arrays uses what is [`sound`]. [`edit`] adds and removes a block and keeps every other byte. [`show`] prints the value of each key.

// `println!` and `eprintln!` panic when nobody reads the output, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod alerts;
pub mod edit;
#[doc(hidden)]
pub mod exercise;
mod reader;
pub mod show;
pub mod sound;

pub use alerts::{ALERT_KEYS, AlertSettings};

use anyhow::{Context, Result, bail};
use drives::completion::CompletionMode;
use exports::nbd::service::Address;
use exports::nvmet::address::Address as NvmetAddress;
use sound::Sound;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Where the settings of a machine are.
pub const PLACE: &str = "/etc/fullstripe/fullstripe.toml";
/// A longer file is not one of settings: a block for each array of a large machine takes some KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest name of an array. With it the name of a systemd unit, which has at most 255 characters, stays far from its
/// limit.
const NAME_LENGTH_MAX: usize = 32;
/// How many data threads an array may have; as `serve --shards`.
const SHARDS: RangeInclusive<u64> = 1..=16;
/// Seconds until a member that does not answer is failed; as `serve --deadline`.
pub const DEADLINE_S: RangeInclusive<u64> = 1..=3600;
/// Seconds from one scrub to the next where nothing else was set or ordered: a month, so that errors on drives are found
/// before a second drive fails.
pub const SCRUB_EVERY_S: u64 = 30 * DAY_S;
/// The longest time between two scrubs: ten years, as for `scrub --every`.
const SCRUB_EVERY_MAX_S: u64 = 3650 * DAY_S;
const DAY_S: u64 = 86_400;
/// Seconds until an array that lacks members is started without them.
const DEGRADED_AFTER_S: RangeInclusive<u64> = 0..=3600;

/// The keys of a block `[array.NAME]`, in the order in which they are shown.
pub const KEYS: [&str; 20] = [
    "uuid",
    "attach",
    "nbd",
    "tls",
    "insecure",
    "vhost_user",
    "nvmet",
    "nvmet_hosts",
    "nvmet_insecure",
    "spares",
    "shards",
    "memory",
    "completion",
    "rate",
    "scrub_every",
    "deadline_s",
    "auto_rebuild",
    "same_bay",
    "on_event",
    "degraded_after_s",
];

/// What the settings file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The arrays by their names in the file.
    pub arrays: BTreeMap<String, ArraySettings>,
    /// Whom the machine tells when something is wrong with one of them.
    pub alerts: AlertSettings,
}

/// How one array is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArraySettings {
    /// The container's UUID as `metadata::imsm::Uuid` prints it: four words of eight lower-case hexadecimal digits,
    /// joined by `:`.
    pub uuid: String,
    /// Which volumes become block devices of this machine when the array is started.
    pub attach: Attach,
    /// Where NBD clients connect; the usual socket if empty.
    pub nbd: Vec<Address>,
    /// The folder with the certificates by which clients of TCP addresses are known.
    pub tls: Option<PathBuf>,
    /// Everybody who can reach a TCP address may read and write.
    pub insecure: bool,
    /// The folder of sockets for virtual machines, if they may use the volumes: an absolute path.
    pub vhost_user: Option<PathBuf>,
    /// Where other machines connect by NVMe over TCP, if the volumes' block devices are exported to them. Then either hosts are
    /// named, or every host may connect.
    pub nvmet: Option<NvmetAddress>,
    /// The NQNs of the hosts that may connect there.
    pub nvmet_hosts: Vec<String>,
    /// Every host that can reach the address may connect there.
    pub nvmet_insecure: bool,
    /// Specifications of spare drives, as `serve --spare` takes them. Each one can be parsed.
    pub spares: Vec<String>,
    /// Number of data threads, 1 to 16.
    pub shards: u8,
    /// Memory for the data of requests.
    pub memory_bytes: u64,
    /// How data threads learn of completed I/O.
    pub completion: CompletionMode,
    /// Limit of background work on each member; 0 is unlimited. If absent, the limit ordered last applies.
    pub rate_bytes_per_s: Option<u64>,
    /// How often its volumes are scrubbed without an order. If absent, the order given last applies, and
    /// [`SCRUB_EVERY_S`] where there was none.
    pub scrub_every: Option<ScrubPeriod>,
    /// A member that does not answer for this long is failed: 1 to 3600 s.
    pub deadline_s: u64,
    /// Spares replace failed members without an order.
    pub auto_rebuild: bool,
    /// What is done with an empty drive that is put where a drive was that failed or was removed.
    pub same_bay: SameBay,
    /// The event hook: run by `sh -c` for every event.
    pub on_event: Option<String>,
    /// How long after the last member appeared an array that lacks members nobody marked failed is started without
    /// them: 0 to 3600 s.
    pub degraded_after_s: u64,
}

impl ArraySettings {
    /// The settings of an array for which only the UUID of its container is given.
    #[must_use]
    pub fn with_defaults(uuid: impl Into<String>) -> ArraySettings {
        ArraySettings {
            uuid: uuid.into(),
            attach: Attach::Auto,
            nbd: Vec::new(),
            tls: None,
            insecure: false,
            vhost_user: None,
            nvmet: None,
            nvmet_hosts: Vec::new(),
            nvmet_insecure: false,
            spares: Vec::new(),
            shards: 1,
            memory_bytes: 128 << 20,
            completion: CompletionMode::Interrupt,
            rate_bytes_per_s: None,
            scrub_every: None,
            deadline_s: 30,
            auto_rebuild: true,
            same_bay: SameBay::Ask,
            on_event: None,
            degraded_after_s: 30,
        }
    }
}

/// How often volumes are scrubbed without an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubPeriod {
    /// So many seconds after the end of each scrub: 1 to ten years.
    Seconds(u64),
    /// Never.
    Off,
}

impl fmt::Display for ScrubPeriod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScrubPeriod::Seconds(seconds) => out.write_str(&words::typed_duration(*seconds)),
            ScrubPeriod::Off => out.write_str("off"),
        }
    }
}

/// What is done with an empty drive that is put where a drive of the array was that failed or was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SameBay {
    /// An event tells which command adds it.
    Ask,
    /// It becomes a spare without an order.
    Adopt,
}

impl SameBay {
    /// Every choice.
    pub const ALL: [SameBay; 2] = [SameBay::Ask, SameBay::Adopt];
}

impl fmt::Display for SameBay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            SameBay::Ask => "ask",
            SameBay::Adopt => "adopt",
        })
    }
}

/// Which volumes become block devices of this machine when an array is started, and by which interface of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attach {
    /// Each volume, by ublk where the kernel has it, else by the kernel's NBD client.
    Auto,
    /// Each volume, by ublk.
    Ublk,
    /// Each volume, by the kernel's NBD client.
    Nbd,
    /// None.
    Off,
}

impl Attach {
    /// Every choice.
    pub const ALL: [Attach; 4] = [Attach::Auto, Attach::Ublk, Attach::Nbd, Attach::Off];
}

impl fmt::Display for Attach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Attach::Auto => "auto",
            Attach::Ublk => "ublk",
            Attach::Nbd => "nbd",
            Attach::Off => "off",
        })
    }
}

impl Settings {
    /// Reads the file at `path`. A file that does not exist has no arrays.
    ///
    /// # Errors
    /// The file cannot be read, is longer than 1 MiB, or has a mistake: see [`Settings::parse`].
    pub fn read(path: &Path) -> Result<Settings> {
        Sound::read(path)?.without_mistake()
    }

    /// Reads `text`, the content of the file called `shown_name` in errors.
    ///
    /// # Errors
    /// One sentence: file, line, key, what is wrong with it, and what to write instead.
    pub fn parse(text: &str, shown_name: &str) -> Result<Settings> {
        Sound::parse(text, shown_name)?.without_mistake()
    }

    /// The settings of the array called `name`.
    ///
    /// # Errors
    /// There is none; the error lists the names that there are.
    pub fn array(&self, name: &str) -> Result<&ArraySettings> {
        if let Some(found) = self.arrays.get(name) {
            return Ok(found);
        }
        let names: Vec<&str> = self.arrays.keys().map(String::as_str).collect();
        match names.is_empty() {
            true => bail!(
                "the settings have no array \"{name}\", nor any other; `fullstripe enable {name} DRIVE...` adds it"
            ),
            false => bail!(
                "the settings have no array \"{name}\"; name one of these: {}",
                words::and(&names)
            ),
        }
    }

    /// The name of the array whose container has this UUID.
    #[must_use]
    pub fn name_of(&self, uuid: &str) -> Option<&str> {
        let mut arrays = self.arrays.iter();
        let found = arrays.find(|(_, array)| array.uuid.eq_ignore_ascii_case(uuid));
        found.map(|(name, _)| name.as_str())
    }
}

/// The text of the settings file at `path`; `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, is longer than 1 MiB, or is not UTF-8.
pub fn text_of(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("cannot open {shown}"))?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {shown}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{shown} is longer than 1 MiB, which no settings are; put the right file there");
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        anyhow::anyhow!("{shown}:{line}: this line is not UTF-8 text; write it again in UTF-8")
    })
}

/// Checks the name of an array, which becomes the instance name of a systemd unit and a file name: 1 to 32 letters,
/// digits, `_`, `.` and `-`, beginning with neither `-` nor `.`.
///
/// # Errors
/// The rule that the name breaks, as the rest of a sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let begins_well = !name.starts_with(['-', '.']);
    if (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.chars().all(is_allowed) && begins_well {
        return Ok(());
    }
    Err(format!(
        "\"{}\" cannot be the name of an array; give 1 to {NAME_LENGTH_MAX} letters, digits, '_', '.' and '-', \
         beginning with neither '-' nor '.'",
        reader::shortened_name(name)
    ))
}

#[cfg(test)]
mod tests;

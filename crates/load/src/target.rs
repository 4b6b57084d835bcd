//! What is measured: a block device, a file, memory, or a modelled drive, in the words of a member.
//!
//! A load that writes needs the target for itself, and destroys what is on it, so the user has to name it twice. A load that only reads
//! also takes a target that something else uses, and says so beside its figures. Areas that were never written are answered
//! without their medium, so blocks are sampled before reads are believed.

use super::environment::{identity, link_bytes_per_s};
use super::requests::Requests;
use super::run::DEPTH_MAX;
use anyhow::{Context, Result, ensure};
use container::busy;
use container::foreign::{Ends, in_words};
use container::occupied::held;
use container::open::for_change;
use container::probe::parse_spec;
use container::refusal::refused;
use drives::drive::{Access, Drive, IoPath, OpenError};
use drives::holders::holders;
use drives::spec::{MemberSpec, Target as Place};
use lab::workload::{Api, Completion};
use machine::files::Files;
use repeatable::random::Stream;
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use words::exact_size;

/// Fewest bytes of a target that is written: on less, nothing could be recognised as a member of an array.
const WRITTEN_BYTES_MIN: u64 = 8 << 20;
/// Blocks that are looked at before reads, and how long each is.
const SAMPLES: u64 = 200;
const SAMPLE_BYTES: u64 = 4096;
/// Share of sampled blocks that may hold only zeros: data has some such blocks, too.
const ZEROS_MAX_PERCENT: u64 = 5;

/// An opened target.
pub struct Target {
    /// As the user names it.
    pub name: String,
    pub(crate) drive: Arc<Drive>,
    /// What makes all figures doubtful, as sentences without their full stops.
    pub marks: Vec<String>,
}

impl Target {
    /// Opens `name` for loads that write, if `writes`. `destroyed` is the name that the user has given of what may be
    /// destroyed.
    ///
    /// # Errors
    ///
    /// There is no such target, something else uses it, or it would be written without the user's word.
    pub fn open(name: &str, writes: bool, destroyed: Option<&str>) -> Result<Target> {
        let spec = parse_spec(name)?;
        let mut marks = Vec::new();
        let drive = match (&spec.target, writes) {
            (Place::Path(path), true) => to_destroy(name, &path.display().to_string(), destroyed)?,
            (Place::Path(path), false) => {
                let (found, user) = to_read(&spec)?;
                let mut users = holders(path);
                users.extend(user);
                if !users.is_empty() {
                    let users = users.join(", ");
                    marks.push(format!(
                        "{name} is used by {users} meanwhile, which disturbs what is measured"
                    ));
                }
                found
            }
            _ => busy::open(&spec, Access::Exclusive)?,
        };
        if drive.fd().is_some() && !drive.direct() && drive.notes().is_empty() {
            marks.push(format!(
                "the file system of {name} has no direct I/O: these are figures of its cache"
            ));
        }
        marks.extend(drive.notes().iter().cloned());
        Ok(Target {
            name: name.to_owned(),
            drive: Arc::new(drive),
            marks,
        })
    }

    /// The open block device or file, for fio.
    ///
    /// # Errors
    ///
    /// The target is something that only this program knows.
    pub(crate) fn for_fio(&self) -> Result<BorrowedFd<'_>> {
        let fd = self.drive.fd();
        let plain = MemberSpec::plain(Place::Path(self.name.clone().into()));
        let is_plain = parse_spec(&self.name)? == plain;
        fd.filter(|_| is_plain).with_context(|| {
            format!(
                "fio knows block devices and files only, and {} is another target; leave out --fio",
                self.name
            )
        })
    }

    /// What tells it from another one that has its name later: the serial number or world-wide name of a drive, the number and birth
    /// of a file. `None` for memory, and if the kernel does not say.
    pub(crate) fn identity(&self) -> Option<String> {
        let device = self.drive.block_device();
        if device.is_some() {
            return identity(&Files::below("/"), device);
        }
        let found = statx(
            self.drive.fd()?,
            "",
            AtFlags::EMPTY_PATH,
            StatxFlags::INO | StatxFlags::BTIME,
        );
        // The number of its file system may change at a boot.
        let found = found.ok()?;
        Some(format!("{} of {}", found.stx_ino, found.stx_btime.tv_sec))
    }

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.drive.size_bytes()
    }

    /// What its link lets pass in one direction; `None` if it has none that is known.
    #[must_use]
    pub fn link_bytes_per_s(&self) -> Option<f64> {
        link_bytes_per_s(&Files::below("/"), self.drive.block_device())
    }

    /// Bytes that loads use. The last sector of a file is left out: while a file serves as a drive it is never written, because that
    /// would hide that somebody has cut the file short.
    pub(crate) fn span_bytes(&self) -> u64 {
        let is_file = self.drive.fd().is_some() && self.drive.block_device().is_none();
        self.drive.size_bytes() - u64::from(self.drive.sector_bytes()) * u64::from(is_file)
    }

    /// Checks that a load fits the target.
    ///
    /// # Errors
    ///
    /// Its requests are not whole sectors or do not fit, there is no memory for them, or our generator, which is to run it if `is_own`,
    /// does not submit as it asks.
    pub(crate) fn check(&self, requests: Requests<'_>, is_own: bool) -> Result<()> {
        requests.generator(self.span_bytes(), 0)?;
        requests.check_length()?;
        if is_own {
            let load = requests.load;
            ensure!(
                requests.depth() <= DEPTH_MAX,
                "wants {} requests outstanding for each thread, and there are at most {DEPTH_MAX}; use more threads",
                requests.depth()
            );
            let is_usual = load.api.is_none_or(|api| api == Api::Async)
                && load.completion.is_none_or(|by| by == Completion::Interrupt);
            ensure!(
                is_usual,
                "asks for another api or completion, and requests are submitted through io_uring and completed by interrupt; leave these keys out"
            );
            enough_memory(requests)?;
        }
        requests.check_sectors(&self.name, u64::from(self.drive.sector_bytes()))
    }

    /// Looks whether the target's areas were written: if not, adds a mark.
    ///
    /// # Errors
    ///
    /// The target cannot be read.
    pub fn sample(&mut self, seed: u64) -> Result<()> {
        let blocks = self.span_bytes() / SAMPLE_BYTES;
        if self.drive.fd().is_none() || blocks == 0 {
            return Ok(());
        }
        let mut stream = Stream::new(seed, "samples", 0);
        let mut zeros = 0;
        for _ in 0..SAMPLES {
            let offset_bytes = stream.below(blocks) * SAMPLE_BYTES;
            let block = self.drive.read_at(offset_bytes, SAMPLE_BYTES as usize);
            let block = block.with_context(|| format!("cannot look at {}", self.name))?;
            zeros += u64::from(block.iter().all(|byte| *byte == 0));
        }
        if zeros * 100 > SAMPLES * ZEROS_MAX_PERCENT {
            self.marks.push(format!(
                "{zeros} of {SAMPLES} blocks of {} hold only zeros: areas that were never written are answered without their medium, so write all \
                 of it before reads are measured",
                self.name
            ));
        }
        Ok(())
    }
}

/// Opens a target that is for this program alone, and holds nothing that another program would look for.
fn to_destroy(name: &str, path: &str, destroyed: Option<&str>) -> Result<Drive> {
    let size_bytes = busy::open(&parse_spec(name)?, Access::ReadOnly)?.size_bytes();
    ensure!(
        size_bytes >= WRITTEN_BYTES_MIN,
        "{name} has {}, and loads that write need at least {}",
        exact_size(size_bytes),
        exact_size(WRITTEN_BYTES_MIN)
    );
    let mut found = for_change(&[name.to_owned()])?;
    let probed = found.remove(0);
    let held = held(&probed, &Ends::read(&probed)?);
    if !held.is_empty() {
        return Err(refused(format!(
            "{name} holds {}, which these loads would destroy; if nothing of it is needed, clear it (wipefs --all --backup {path})",
            in_words(&held)
        )));
    }
    match destroyed {
        Some(destroyed) if destroyed == name || destroyed == path => Ok(probed.drive),
        Some(other) => Err(refused(format!(
            "these loads write to {path}, and \"{other}\" was named as what may be destroyed; name {path}"
        ))),
        None => Err(refused(format!(
            "these loads write to {name}, so what is on it is lost; say that it may be, with --destroy-data {path}"
        ))),
    }
}

/// Opens a target that others may use too, and says who holds it, if somebody does.
fn to_read(spec: &MemberSpec) -> Result<(Drive, Option<String>)> {
    match busy::open(spec, Access::ExclusiveReadOnly) {
        Err(OpenError::InUse { by, name }) => {
            let drive = busy::open(spec, Access::ReadOnly)?;
            ensure!(
                drive.io_path() != IoPath::Helpers,
                "{name} is in use by {by}, and its file system offers no direct I/O; release it first"
            );
            Ok((drive, Some(by)))
        }
        other => Ok((other?, None)),
    }
}

/// Largest request: the largest block of the memory for requests.
const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Memory of a thread besides its requests: its ring and world, and histograms.
const THREAD_BYTES: u64 = 16 << 20;
/// Share of the available memory that a load may take.
const MEMORY_MAX_PERCENT: u64 = 80;

fn enough_memory(requests: Requests<'_>) -> Result<()> {
    let (load, bytes) = (requests.load, requests.longest_bytes());
    ensure!(
        bytes <= REQUEST_BYTES_MAX,
        "has requests of {}, and the largest is {}",
        exact_size(bytes.into()),
        exact_size(REQUEST_BYTES_MAX.into())
    );
    let of_requests = load.total_depth() * u64::from(bytes.next_power_of_two().max(4096));
    let needed = of_requests + u64::from(load.threads) * THREAD_BYTES;
    let Some(available) = available_memory_bytes() else {
        return Ok(());
    };
    ensure!(
        needed <= available / 100 * MEMORY_MAX_PERCENT,
        "needs about {} MiB of memory, and {} MiB are available; use fewer threads, a smaller qd or smaller requests",
        needed >> 20,
        available >> 20
    );
    Ok(())
}

/// What the kernel says is available; `None` if it does not say.
fn available_memory_bytes() -> Option<u64> {
    let info = Files::below("/").text("/proc/meminfo")?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

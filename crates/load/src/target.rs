//! What is measured: a block device, a file, memory, or a modelled drive, in the words of a member.
//!
//! A load that writes needs the target for itself, and destroys what is on it, so the user has to name it twice. A load that only reads
//! also takes a target that something else uses, and says so beside its figures. Areas that were never written are answered
//! without their medium, so blocks are sampled before reads are believed.

use anyhow::{Context, Result, ensure};
use container::busy;
use container::foreign::{Ends, in_words};
use container::occupied::held;
use container::open::for_change;
use container::probe::parse_spec;
use container::refusal::refused;
use drives::drive::{Access, Drive, OpenError};
use drives::holders::holders;
use drives::spec::{MemberSpec, Target as Place};
use lab::workload::Workload;
use repeatable::random::Stream;
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
            (Place::Path(_), true) => to_destroy(name, destroyed)?,
            (Place::Path(path), false) => {
                let found = to_read(&spec)?;
                let users = holders(path);
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
        if drive.fd().is_some() && !drive.direct() {
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

    /// The path of a block device or file, for fio.
    ///
    /// # Errors
    ///
    /// The target is something that only this program knows.
    pub(crate) fn path(&self) -> Result<&str> {
        ensure!(
            parse_spec(&self.name)? == MemberSpec::plain(Place::Path(self.name.clone().into())),
            "fio knows block devices and files only, and {} is another target; leave out --fio",
            self.name
        );
        Ok(&self.name)
    }

    /// Bytes that loads use. The last sector of a file is left out: while a file serves as a drive it is never written, because that
    /// would hide that somebody has cut the file short.
    pub(crate) fn span_bytes(&self) -> u64 {
        let is_file = self.drive.fd().is_some() && self.drive.block_device().is_none();
        self.drive.size_bytes() - u64::from(self.drive.sector_bytes()) * u64::from(is_file)
    }

    /// Checks that `load` fits the target.
    ///
    /// # Errors
    ///
    /// Its requests are not whole sectors.
    pub fn check(&self, load: &Workload) -> Result<()> {
        let sector_bytes = u64::from(self.drive.sector_bytes());
        for (what, size) in [("requests", load.bs), ("an alignment", load.align)] {
            let bytes = size.map_or(sector_bytes, |size| u64::from(size.bytes()));
            ensure!(
                bytes.is_multiple_of(sector_bytes),
                "has {what} of {bytes} bytes, and {} has sectors of {sector_bytes}; use a multiple",
                self.name
            );
        }
        Ok(())
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
fn to_destroy(name: &str, destroyed: Option<&str>) -> Result<Drive> {
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
            "{name} holds {}, which these loads would destroy; if nothing of it is needed, clear it (wipefs --all --backup {name})",
            in_words(&held)
        )));
    }
    match destroyed {
        Some(destroyed) if destroyed == name => Ok(probed.drive),
        Some(other) => Err(refused(format!(
            "these loads write to {name}, and \"{other}\" may be destroyed; name the same in both places"
        ))),
        None => Err(refused(format!(
            "these loads write to {name}, so what is on it is lost; say that it may be, with --destroy-data {name}"
        ))),
    }
}

/// Opens a target that others may use too.
fn to_read(spec: &MemberSpec) -> Result<Drive> {
    match busy::open(spec, Access::ExclusiveReadOnly) {
        Err(OpenError::InUse { .. }) => Ok(busy::open(spec, Access::ReadOnly)?),
        other => Ok(other?),
    }
}

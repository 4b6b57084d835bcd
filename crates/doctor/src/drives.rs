//! What drives contain, and who uses them. The only check that opens drives, read-only.

use super::finding::Finding;
use super::health;
use anyhow::Result;
use container::busy::{socket_of_server, unlisted_users};
use container::machine::container_of;
use container::probe::{parse_spec, probe, seen_twice};
use container::root_drive::{self, Tie};
use drives::drive::{Access, Drive, OpenError};
use drives::holders::{Holder, users};
use drives::nvme::{self, Controller, Health};
use rustix::fs::{Access as Permission, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::Path;
use words::{count, quoted_for_shell, size};

/// What was found in a drive's metadata region.
#[derive(Clone, Debug)]
pub enum Content {
    /// No IMSM metadata.
    Nothing,
    /// Part of an array.
    Array {
        /// Names of its volumes.
        volumes: Vec<String>,
        /// How many drives its record lists.
        drives: usize,
    },
    /// A spare.
    Spare,
    /// Metadata that cannot be used, and why.
    Damaged(String),
}

/// What was found out about a drive that could be opened.
#[derive(Clone, Debug)]
pub struct Looked {
    /// Capacity.
    pub size_bytes: u64,
    /// Whether I/O to it can bypass the page cache.
    pub is_direct: bool,
    /// Whether this user may write to it.
    pub is_writable: bool,
    /// Its serial number, as the metadata store it.
    pub serial: String,
    /// A checksum of its record, if it has one: every drive of an array carries the same record.
    pub record_checksum: Option<u32>,
    /// The UUID of the container that its record belongs to; a spare's record names none.
    pub container: Option<String>,
    /// Who uses it.
    pub holders: Vec<Holder>,
    /// How it belongs to the root file system of this machine, if it does.
    pub root: Option<Tie>,
    /// The content of its metadata region.
    pub content: Content,
    /// The health that an NVMe drive reports, if this user may query it.
    pub health: Option<Health>,
    /// What the drive's controller reports about itself.
    pub controller: Option<Controller>,
}

/// Why a drive could not be examined.
#[derive(Clone, Debug)]
pub enum LookError {
    /// This user may not read it.
    NotAllowed,
    /// Anything else, as one sentence.
    Other(String),
}

/// Examines one drive; tests replace it by a table.
pub type Look<'look> = &'look dyn Fn(&str) -> Result<Looked, LookError>;

/// The findings, and the drives that carry IMSM metadata.
pub struct DrivesFindings {
    /// In the order of the drives.
    pub findings: Vec<Finding>,
    /// The drives that are part of an array, and spares.
    pub imsm: Vec<ImsmDrive>,
}

/// A drive that is part of an array, or a spare.
#[derive(Clone, Debug)]
pub struct ImsmDrive {
    /// As findings call it.
    pub name: String,
    /// The UUID of its container; `None` for a spare.
    pub container: Option<String>,
    /// Whether it belongs to the root file system of this machine.
    pub is_of_root: bool,
}

/// Examines `specs`. A drive that the user named must be free for `serve`; if another drive is in use, that is only
/// reported.
pub fn check(specs: &[String], are_named: bool, look: Look) -> DrivesFindings {
    let mut outcome = DrivesFindings {
        findings: Vec::new(),
        imsm: Vec::new(),
    };
    let mut not_allowed = Vec::new();
    let mut seen: Vec<(&str, Looked)> = Vec::new();
    for spec in specs {
        let about = short_name(spec, are_named);
        match look(spec) {
            Ok(looked) => {
                if matches!(looked.content, Content::Array { .. } | Content::Spare) {
                    outcome.imsm.push(ImsmDrive {
                        name: about.to_owned(),
                        container: looked.container.clone(),
                        is_of_root: looked.root.is_some(),
                    });
                }
                outcome.findings.push(content(about, &looked));
                let state = looked.health.as_ref();
                outcome
                    .findings
                    .extend(state.map(|state| health::finding(about, state)));
                let controller = looked.controller.as_ref();
                let about_itself = |it| health::nature(about, it, looked.health.as_ref());
                outcome.findings.extend(controller.map(about_itself));
                outcome.findings.extend(usable(about, &looked, are_named));
                let twin = seen.iter().find(|(_, other)| is_twin(other, &looked));
                let twin = twin.map(|(other, _)| seen_as_well(about, other, &looked, are_named));
                outcome.findings.extend(twin);
                seen.push((about, looked));
            }
            Err(LookError::NotAllowed) if !are_named => not_allowed.push(about),
            Err(LookError::NotAllowed) => outcome.findings.push(
                Finding::problem(about, "this user may not open it")
                    .advise("run as root, or give the user the right to read and write it"),
            ),
            Err(LookError::Other(sentence)) if are_named => {
                outcome
                    .findings
                    .push(Finding::problem(about, without_name(about, &sentence)));
            }
            Err(LookError::Other(sentence)) => {
                outcome
                    .findings
                    .push(Finding::note(about, without_name(spec, &sentence)));
            }
        }
    }
    if !not_allowed.is_empty() {
        outcome.findings.push(
            Finding::note(
                "metadata",
                format!("this user may not look at {}", not_allowed.join(", ")),
            )
            .advise(
                "run doctor as root, in a container with access to devices, to see what lies there",
            ),
        );
    }
    outcome
}

/// Detected devices are called by their device names; drives that the user named, by the specification without options.
fn short_name(spec: &str, is_named: bool) -> &str {
    if is_named {
        spec.split(',').next().unwrap_or(spec)
    } else {
        spec.strip_prefix("/dev/").unwrap_or(spec)
    }
}

/// Removes the drive's name from the start of a sentence, because each line begins with it already.
fn without_name<'text>(name: &str, sentence: &'text str) -> &'text str {
    let rest = sentence.strip_prefix(name).unwrap_or(sentence);
    rest.trim_start_matches([':', ' '])
}

fn content(about: &str, looked: &Looked) -> Finding {
    match &looked.content {
        Content::Nothing => Finding::ok(
            about,
            format!("{}, no IMSM metadata", size(looked.size_bytes)),
        ),
        Content::Array { volumes, drives } => for_mdadm(
            about,
            format!(
                "{}, in an IMSM array of {} with {} {}",
                size(looked.size_bytes),
                count(*drives, "drive"),
                if volumes.len() == 1 {
                    "volume"
                } else {
                    "volumes"
                },
                volumes.join(", ")
            ),
        ),
        Content::Spare => for_mdadm(about, format!("{}, an IMSM spare", size(looked.size_bytes))),
        Content::Damaged(reason) => {
            Finding::warning(about, format!("damaged IMSM metadata: {reason}")).advise(
                "fullstripe examine shows it; the array's other drives may have good copies",
            )
        }
    }
}

/// A finding for a drive of an array. If the drive is a loop device, it says what mdadm needs to recognise the drive as
/// a member: the record lists drives by serial number, and a loop device has none.
fn for_mdadm(about: &str, what: String) -> Finding {
    let found = Finding::ok(about, what);
    let name = about.rsplit('/').next().unwrap_or(about);
    if name.starts_with("loop") {
        found.advise("mdadm finds it with IMSM_DEVNAME_AS_SERIAL=1 in its environment")
    } else {
        found
    }
}

/// Whether two names seem to mean one drive: the serial number and the record are the same.
fn is_twin(first: &Looked, second: &Looked) -> bool {
    first.record_checksum.is_some()
        && (&first.serial, first.record_checksum) == (&second.serial, second.record_checksum)
}

/// `serve` refuses both if both are named.
fn seen_as_well(about: &str, other: &str, looked: &Looked, are_named: bool) -> Finding {
    let sentence = seen_twice((other, about), &looked.serial);
    let (what, advice) = sentence.split_once("; ").unwrap_or((&sentence, ""));
    let finding = match are_named {
        true => Finding::problem(about, what),
        false => Finding::warning(about, what),
    };
    finding.advise(advice)
}

fn usable(about: &str, looked: &Looked, is_named: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !looked.holders.is_empty() {
        findings.push(in_use(about, looked, is_named));
    } else if is_named && !looked.is_writable {
        findings.push(
            Finding::problem(about, "this user may not write to it")
                .advise("run as root, or give the user the right to write to it"),
        );
    }
    if !looked.is_direct {
        findings.push(
            Finding::note(
                about,
                "its file system does no direct I/O; the page cache is used",
            )
            .advise("ext4 and XFS do direct I/O"),
        );
    }
    findings
}

/// What to do about a drive that somebody uses. If it carries our metadata, it belongs to an array that cannot be served.
fn in_use(about: &str, looked: &Looked, is_named: bool) -> Finding {
    let names = looked.holders.iter().map(|one| one.who.as_str());
    let what = format!("in use by {}", names.collect::<Vec<_>>().join(", "));
    let is_ours = matches!(looked.content, Content::Array { .. } | Content::Spare);
    let releases: Vec<&str> = looked
        .holders
        .iter()
        .map(|one| one.release.as_str())
        .collect();
    let releases = releases.join(", ");
    if let Some(tie) = &looked.root {
        return of_root(about, &what, tie, is_named);
    }
    match (is_named, is_ours) {
        (true, _) => Finding::problem(about, what).advise(format!("release it first: {releases}")),
        (false, true) => Finding::warning(about, what).advise(format!(
            "fullstripe can serve its array when it is released: {releases}"
        )),
        (false, false) => Finding::ok(about, what),
    }
}

/// A drive that belongs to the root file system cannot be released, and is as it should be unless an array is to have it.
fn of_root(about: &str, what: &str, tie: &Tie, is_named: bool) -> Finding {
    let what = format!("{what}; {}", tie.clause("it"));
    if is_named {
        Finding::problem(about, what).advise("name other drives: no process can serve this one")
    } else {
        Finding::ok(about, what)
    }
}

/// Opens and examines the drive `spec`. For a drive that the user named, it is checked whether it can be opened
/// exclusively; other drives are not disturbed even for a moment.
pub fn look(spec: &str, is_named: bool) -> Result<Looked, LookError> {
    let probed = parse_spec(spec)
        .and_then(|spec| probe(spec, Access::ReadOnly))
        .map_err(sort_error)?;
    let path = probed.path();
    let mut holders = path.map(users).unwrap_or_default();
    if let Some(path) = path
        && is_named
        && holders.is_empty()
        && is_held(&probed.drive, path)
    {
        holders.push(unlisted(path, &probed.drive));
    }
    let permission = Permission::READ_OK | Permission::WRITE_OK;
    let device = probed
        .drive
        .fd()
        .filter(|_| probed.drive.block_device().is_some());
    Ok(Looked {
        health: device.and_then(|fd| nvme::health(fd).ok()),
        controller: device.and_then(|fd| nvme::identify(fd).ok()),
        size_bytes: probed.drive.size_bytes(),
        is_direct: probed.drive.direct(),
        is_writable: path.is_none_or(|path| rustix::fs::access(path, permission).is_ok()),
        holders,
        container: container_of(&probed).map(|uuid| uuid.to_string()),
        root: path.and_then(root_drive::tie),
        serial: probed.serial.to_string(),
        record_checksum: match &probed.found {
            Ok(Some(found)) => found.print.crc,
            _ => None,
        },
        content: match &probed.found {
            Ok(None) => Content::Nothing,
            Ok(Some(found)) if found.mpb.volumes.is_empty() => Content::Spare,
            Ok(Some(found)) => Content::Array {
                volumes: found
                    .mpb
                    .volumes
                    .iter()
                    .map(|one| one.name.to_string())
                    .collect(),
                drives: found.mpb.disks.len(),
            },
            Err(error) => Content::Damaged(error.to_string()),
        },
    })
}

/// The user of a drive that is held although the kernel lists no user.
fn unlisted(path: &Path, drive: &Drive) -> Holder {
    let found = unlisted_users(path, Some(drive)).join(", ");
    if found.is_empty() {
        return Holder::new("another process", "`fuser` as root shows which");
    }
    if found.starts_with("ZFS") {
        return Holder::new(found, "`zpool export` its pool");
    }
    let socket = socket_of_server(path).map_or(String::new(), |socket| {
        format!(" --socket {}", quoted_for_shell(&socket.to_string_lossy()))
    });
    let release = format!("end the process; `fullstripe stop{socket}` ends a server");
    Holder::new(found, release)
}

/// Whether another process has opened the drive as `serve` does. The device is opened for reading, because closing a
/// device that was opened for writing triggers udev rules.
fn is_held(drive: &Drive, path: &Path) -> bool {
    if drive.block_device().is_some() {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        matches!(
            rustix::fs::open(path, flags, Mode::empty()),
            Err(Errno::BUSY)
        )
    } else {
        // The lock is released when the descriptor is closed.
        let operation = FlockOperation::NonBlockingLockShared;
        drive
            .fd()
            .is_some_and(|fd| rustix::fs::flock(fd, operation) == Err(Errno::WOULDBLOCK))
    }
}

fn sort_error(error: anyhow::Error) -> LookError {
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::System { error, .. }) if error.kind() == ErrorKind::PermissionDenied => {
            LookError::NotAllowed
        }
        _ => LookError::Other(format!("{error:#}")),
    }
}

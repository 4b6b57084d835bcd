//! Adding a drive to the running array.
//!
//! The drive is opened exclusively and examined; a drive that could hold somebody's data is refused. Then the
//! controller is asked whether it would take the drive, so that nothing is written to a drive that is refused. Only
//! then are empty write-hole logs written to it, if it is to hold any, the note whose spare it is ([`spare_note`]), and its spare
//! record. All are written *before*
//! the array knows the drive: a degraded array takes a spare at once and writes its own record to it, which a spare
//! record written later would destroy. Drives are added one at a time, so the number that the controller has agreed to
//! is still free when the drive joins. The drive can still be refused then in two cases: it is a returning drive whose
//! slot has been filled in the meantime, or the array is being stopped.

use super::errors::ApiError;
use super::names;
use super::schema::{Done, SpareRequest};
use super::state::{command, published};
use crate::runtime::{Shared, lock};
use crate::status::{MemberStatus, Status};
use container::Container;
use container::bitmap::{former, returning};
use container::foreign::{Ends, Finding, in_words};
use container::log::{initialise_all, logged_volumes};
use container::occupied;
use container::persist::Identity;
use container::probe::{Probed, parse_spec, probe};
use container::spare_note;
use container::write::write_record;
use drives::drive::{Access, OpenError};
use drives::holders::holders;
use drives::spec::{MemberSpec, Target};
use engine::control::message::Command;
use engine::limits::{CONTAINER_MEMBERS_MAX, METADATA_RESERVE_BYTES};
use engine::units::MemberId;
use metadata::imsm::build::NewDrive;
use metadata::imsm::log::LoggedVolume;
use metadata::imsm::{Mpb, SectorSize};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use words::size;

/// How long to retry an exclusive open: the data threads release a drive a moment after it was removed.
const RELEASE_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a drive must be to join the container, and whether there is room for it. Drives are added one
/// at a time.
#[derive(Debug)]
pub struct Spares {
    sector: SectorSize,
    needed_bytes: u64,
    /// The container's metadata at the start: which volumes there are, and where.
    mpb: Mpb,
    /// Volumes for whose write-hole log the drive must have room.
    logged: Vec<LoggedVolume>,
    /// Folder for the backup of a drive that is taken by force; by default the user's own folder.
    backups: Option<PathBuf>,
    /// Nothing may be written to any drive.
    read_only: bool,
    /// All drive numbers have been given out; a number is never used twice.
    full: Mutex<bool>,
}

/// Which drive may be added.
#[derive(Clone, Copy)]
enum Terms {
    /// What the request says.
    AsAsked,
    /// Only one that holds nothing but an older state of the container.
    OnlyFormer,
    /// Only one that holds nothing.
    OnlyEmpty,
}

impl Spares {
    /// The rules of `container`, which is about to be started; they stay the same while it runs.
    #[must_use]
    pub fn of(container: &Container, backups: Option<PathBuf>) -> Spares {
        let ends = container.record.volumes.iter().map(|volume| {
            let shape = &volume.geometry;
            shape.start_bytes + shape.component_bytes
        });
        let first = container.members.first();
        let sector = first.map_or(SectorSize::Bytes512, |member| member.sector);
        Spares {
            sector,
            mpb: container.persister.mpb().clone(),
            logged: logged_volumes(container.persister.mpb(), sector),
            needed_bytes: ends.max().unwrap_or(0) + METADATA_RESERVE_BYTES,
            backups,
            read_only: container
                .record
                .volumes
                .iter()
                .all(|volume| volume.read_only),
            full: Mutex::new(false),
        }
    }

    /// The container's metadata at the start.
    #[must_use]
    pub fn record_at_start(&self) -> &Mpb {
        &self.mpb
    }

    /// Adds the drive of `request` to the array as a spare; a degraded volume may take it at once.
    /// Blocks.
    ///
    /// # Errors
    /// 400 when the specification names no drive, 409 when the drive cannot or should not be used.
    pub fn add(&self, shared: &Shared, request: &SpareRequest) -> Result<Done, ApiError> {
        self.add_on(Terms::AsAsked, shared, request)
    }

    /// Adds a drive that was a member, if all that it holds is an older state of the container. That state is overwritten where
    /// no bitmap marks what the drive lacks. Blocks.
    ///
    /// # Errors
    /// As [`Spares::add`], and 409 for any other drive.
    pub fn take_back(&self, shared: &Shared, drive: &str) -> Result<Done, ApiError> {
        let request = SpareRequest {
            drive: drive.to_owned(),
            force: false,
        };
        self.add_on(Terms::OnlyFormer, shared, &request)
    }

    /// Adds a drive on which nothing is found, not even the record of a spare. Blocks.
    ///
    /// # Errors
    /// As [`Spares::add`], and 409 for a drive that holds anything.
    pub fn add_empty(&self, shared: &Shared, drive: &str) -> Result<Done, ApiError> {
        let request = SpareRequest {
            drive: drive.to_owned(),
            force: false,
        };
        self.add_on(Terms::OnlyEmpty, shared, &request)
    }

    fn add_on(
        &self,
        terms: Terms,
        shared: &Shared,
        request: &SpareRequest,
    ) -> Result<Done, ApiError> {
        let status = published(shared);
        let folder = std::env::current_dir().unwrap_or_default();
        let spec = parse_spec(&names::as_called_here(&request.drive, &status, &folder))
            .map_err(|error| ApiError::bad_input(format!("{error:#}")))?;
        if self.read_only {
            return Err(ApiError::conflict(format!(
                "{} is not added: the array is only read, and a spare has to be written to",
                request.drive
            )));
        }
        let mut full = lock(&self.full);
        if *full {
            return Err(ApiError::conflict(format!(
                "this process has numbered {CONTAINER_MEMBERS_MAX} drives and can number no more; stop \
                 and serve the array again before adding another"
            )));
        }
        let own = of_same_path(&status, &spec);
        if let Some(own) = own.filter(|own| own.state != "failed") {
            return Err(is_in_array(&status, own));
        }
        let probed = open(spec).map_err(|error| match own {
            // It holds commands that it has not answered, so this process still has it open.
            Some(own) if error.protects_data => is_in_array(&status, own),
            _ => error,
        })?;
        self.check(&published(shared), &probed)?;
        // A drive of this array that lacks only what the bitmaps mark keeps its content.
        let returns = returning(&probed, &self.mpb).filter(|_| !request.force);
        let force = match terms {
            Terms::AsAsked => request.force,
            Terms::OnlyFormer => {
                self.refuse_other_than_former(&probed)?;
                returns.is_none()
            }
            Terms::OnlyEmpty => {
                refuse_content(&probed)?;
                false
            }
        };
        refuse_foreign(&probed, force || returns.is_some())?;
        let name = probed.drive.name().to_owned();
        let size_bytes = probed.drive.size_bytes();
        let question = Command::MayAddSpare {
            member: shared.next_member(),
            size_bytes,
            returns,
        };
        let refused = |why| ApiError::not_done(&format!("{name} is not added"), why);
        shared.command(question).map_err(refused)?;
        let destroyed = if force {
            self.make_free(&probed)?
        } else {
            None
        };
        initialise_all(&self.logged, &[&probed])
            .map_err(|error| ApiError::conflict(format!("{error:#}")))?;
        let mut notes = probed.drive.notes().to_vec();
        if returns.is_none() {
            // Before the record, without which the note does not count.
            let noted = spare_note::write(&probed.drive, &self.mpb);
            notes.extend(noted.err().map(|error| {
                format!(
                    "name it in `spares`, because it cannot say itself whose spare it is: {error:#}"
                )
            }));
            mark_as_spare(&probed)?;
        }
        let volatile_cache = probed.drive.volatile_cache();
        let (kind, discards) = (probed.drive.kind(), probed.drive.discards());
        let identity = Identity::of(&probed);
        let member = shared.attach(probed.drive, identity);
        *full = usize::from(member.0) + 1 >= CONTAINER_MEMBERS_MAX;
        let order = Command::AddSpare {
            member,
            size_bytes,
            volatile_cache,
            kind,
            discards,
            returns,
        };
        if let Err(why) = command(shared, order) {
            shared.detach(member);
            let now = match (returns, self.logged.is_empty()) {
                (None, _) => "; its metadata says spare now",
                (Some(_), false) => "; the write-hole log on it is empty now",
                (Some(_), true) => "",
            };
            return Err(refused(why).map(|sentence| sentence + now));
        }
        Ok(Done {
            text: added(
                &shared.status(),
                &name,
                member,
                &[notes, destroyed.into_iter().collect()].concat(),
            ),
            member: Some(member.0),
        })
    }

    /// Whoever asked has looked at the drive before, but another one may have its path now.
    fn refuse_other_than_former(&self, probed: &Probed) -> Result<(), ApiError> {
        if former(probed, &self.mpb).is_some() {
            return Ok(());
        }
        let name = probed.drive.name();
        let sentence = format!("what {name} holds is not just an older state of the array");
        Err(ApiError::conflict(sentence).protecting_data())
    }

    /// Saves what the drive holds and clears the marks by which programs recognise it; returns what it was and where
    /// the copy is.
    fn make_free(&self, probed: &Probed) -> Result<Option<String>, ApiError> {
        let free = |drives: &[Probed]| -> anyhow::Result<Option<String>> {
            let found = occupied::occupied(drives)?;
            let Some(copy) = occupied::save("add-spare", drives, &found, self.backups.as_deref())?
            else {
                return Ok(None);
            };
            occupied::clear(drives, &found)?;
            let held = in_words(&found[0].1);
            Ok(Some(format!(
                "it held {held}, of which a backup is in {}",
                copy.display()
            )))
        };
        free(std::slice::from_ref(probed)).map_err(|error| ApiError::conflict(format!("{error:#}")))
    }

    /// Refuses a drive of other sectors than the array's, one that is too small, and one whose serial number the array has
    /// already.
    ///
    /// # Errors
    /// 409: what is wrong with it.
    pub fn check(&self, status: &Status, probed: &Probed) -> Result<(), ApiError> {
        let name = probed.drive.name();
        if probed.sector != self.sector {
            return Err(ApiError::conflict(format!(
                "{name} has sectors of {} bytes and the array's drives of {}; all must be the same",
                probed.sector.bytes(),
                self.sector.bytes()
            )));
        }
        if probed.drive.size_bytes() < self.needed_bytes {
            return Err(ApiError::conflict(format!(
                "{name} has {}, and a drive of this array needs {}",
                size(probed.drive.size_bytes()),
                size(self.needed_bytes)
            )));
        }
        check_serial(status, probed)
    }
}

/// The drive of this array that was opened by the same path. While a drive is open, the path can mean no other drive. A
/// failed drive is closed, so another drive may have its path; then only the serial number tells whether it is the same.
fn of_same_path<'a>(status: &'a Status, spec: &MemberSpec) -> Option<&'a MemberStatus> {
    let Target::Path(path) = &spec.target else {
        return None;
    };
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = whole(path);
    let is_same = |member: &&MemberStatus| whole(Path::new(&member.name)) == path;
    let present = status.members.iter().filter(|one| one.state != "removed");
    // A drive in use first: a failed drive may have had its path before.
    let mut same: Vec<&MemberStatus> = present.filter(is_same).collect();
    same.sort_by_key(|member| member.state == "failed");
    same.first().copied()
}

/// The refusal of a drive that this array has already; later checks would only report it as in use.
fn is_in_array(status: &Status, own: &MemberStatus) -> ApiError {
    let place = match names::places(status, own)[..] {
        [] => own.state.clone(),
        ref places => format!("{}, {}", places.join(", "), own.state),
    };
    let todo = match own.state.as_str() {
        "failed" => format!("; `fullstripe remove {}` first, to add it anew", own.name),
        _ => String::new(),
    };
    let sentence = format!("{} is in this array already ({place}){todo}", own.name);
    ApiError::conflict(sentence).protecting_data()
}

fn check_serial(status: &Status, probed: &Probed) -> Result<(), ApiError> {
    let serial = probed.serial.to_string();
    let same = |member: &&MemberStatus| member.serial == serial && member.state != "removed";
    let Some(twin) = status.members.iter().find(same) else {
        return Ok(());
    };
    let name = probed.drive.name();
    if twin.state == "failed" && twin.name == name {
        return Err(is_in_array(status, twin));
    }
    Err(ApiError::conflict(if twin.state == "failed" {
        format!(
            "{name} has the serial number {serial} of the failed drive {}; `fullstripe remove {serial}` first",
            twin.name
        )
    } else {
        format!(
            "{name} and {} have the same serial number {serial}; give {name} another with ,serial=NAME",
            twin.name
        )
    }))
}

/// The sentence about the new drive, which a degraded volume may have taken already.
fn added(status: &Status, name: &str, member: MemberId, notes: &[String]) -> String {
    let taken = status.volumes.iter().find_map(|volume| {
        let slot = volume
            .slots
            .iter()
            .position(|slot| slot.member == Some(member.0))?;
        Some(format!(
            "volume {} rebuilds slot {slot} onto it",
            volume.name
        ))
    });
    let first = match taken {
        Some(taken) => format!("{name} is added, and {taken}"),
        None => format!("{name} is a spare now"),
    };
    let sentences: Vec<String> = std::iter::once(first)
        .chain(notes.iter().cloned())
        .collect();
    sentences.join("; ")
}

/// Opens and reads the drive; a name that means no drive is bad input, any other error a conflict.
pub(super) fn open(spec: MemberSpec) -> Result<Probed, ApiError> {
    let deadline = Instant::now() + RELEASE_WITHIN;
    let is_busy =
        |error: &anyhow::Error| matches!(error.downcast_ref(), Some(OpenError::InUse { .. }));
    let mut result = probe(spec.clone(), Access::Exclusive);
    while result.as_ref().is_err_and(is_busy) && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
        result = probe(spec.clone(), Access::Exclusive);
    }
    result.map_err(|error| {
        let sentence = format!("{error:#}");
        match error.downcast_ref() {
            Some(
                OpenError::Missing { .. }
                | OpenError::WrongKind { .. }
                | OpenError::OwnSector { .. }
                | OpenError::Profile { .. }
                | OpenError::LargerThanModel { .. },
            ) => ApiError::bad_input(sentence),
            Some(OpenError::InUse { .. }) => ApiError::conflict(sentence).protecting_data(),
            _ => ApiError::conflict(sentence),
        }
    })
}

/// Refuses a drive that is in use.
///
/// # Errors
/// One sentence that says by whom.
pub fn refuse_users(probed: &Probed) -> Result<(), ApiError> {
    let users = probed.path().map(holders).unwrap_or_default();
    if users.is_empty() {
        return Ok(());
    }
    let (name, users) = (probed.drive.name(), users.join(", "));
    let sentence = format!("{name} is in use by {users}; release it first");
    Err(ApiError::conflict(sentence).protecting_data())
}

/// Refuses a drive on which anything is found, also the record of a spare.
///
/// # Errors
/// One sentence that says what was found, and which command takes the drive; or the drive cannot be read.
pub fn refuse_content(probed: &Probed) -> Result<(), ApiError> {
    let held = held(probed)?;
    if held.is_empty() {
        return Ok(());
    }
    let (name, held) = (probed.drive.name(), in_words(&held));
    let sentence =
        format!("it holds {held}; `fullstripe add-spare {name} --force` takes it all the same");
    Err(ApiError::conflict(sentence).protecting_data())
}

fn held(probed: &Probed) -> Result<Vec<Finding>, ApiError> {
    let ends = Ends::read(probed).map_err(|error| ApiError::conflict(format!("{error:#}")))?;
    Ok(occupied::held(probed, &ends))
}

/// Refuses a drive that is in use, and without `force` one that holds known structures.
///
/// # Errors
/// One sentence that says what was found on the drive.
pub fn refuse_foreign(probed: &Probed, force: bool) -> Result<(), ApiError> {
    refuse_users(probed)?;
    if force {
        return Ok(());
    }
    let name = probed.drive.name();
    let held = held(probed)?;
    let is_spare = matches!(&probed.found, Ok(Some(found)) if found.mpb.is_spare());
    if held.len() == usize::from(is_spare) {
        return Ok(());
    }
    let held = in_words(&held);
    let sentence = format!("{name} holds {held}; --force takes it all the same");
    Err(ApiError::conflict(sentence).protecting_data())
}

fn mark_as_spare(probed: &Probed) -> Result<(), ApiError> {
    let drive = NewDrive {
        serial: probed.serial,
        total_sectors: probed.placement.total_sectors(),
    };
    Mpb::spare(&drive, probed.sector)
        .map_err(anyhow::Error::from)
        .and_then(|record| write_record(&record, &[probed]))
        .map_err(|error| ApiError::conflict(format!("{error:#}")))
}

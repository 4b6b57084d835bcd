//! Cutting a request into plans as the engine does.
//!
//! Reads, and writes without redundancy, become plans of up to 2 MiB that need no lock. A chunk that no
//! drive can deliver is computed by a plan of its own. Other writes are cut at *bands*, the part of a row
//! that is locked and planned together; pieces of a RAID 5 band that touch share one plan, because they
//! share parity. A test keeps this equal to what the engine submits.

use engine::layout::{Geometry, Level, Location};
use engine::limits::READ_PLAN_BYTES_MAX;
use engine::plan::{
    NotEnoughMembers, PIECES_MAX, Piece, Plan, Range, RowView, Step, StepKind, mirror, parity,
};
use engine::units::{Buffer, Slot, SlotSet};

/// Most ranges remembered as skipped while pieces are joined.
const SKIPPED_MAX: usize = 16;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Write or read.
    pub is_write: bool,
    /// First byte in the volume.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

/// The state of the array's slots.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Slots without a serving drive.
    pub lost: SlotSet,
    /// Unfinished background work.
    pub background: Background,
    /// Whether parity updates are logged in the write-hole log.
    pub logged: bool,
}

/// Unfinished background work; the first `done_bytes` of each member's data are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Background {
    /// None.
    None,
    /// Redundancy is not established everywhere.
    Sync {
        /// Bytes of each member up to which redundancy is established.
        done_bytes: u64,
    },
    /// A new drive is being filled.
    Rebuild {
        /// Slot of the new drive.
        slot: Slot,
        /// Bytes of the new drive up to which it is current.
        done_bytes: u64,
    },
}

/// One plan, and the kind and row of its work.
#[derive(Debug)]
pub struct Work {
    /// The row, unless the plan spans several.
    pub row: Option<u64>,
    /// What kind of work.
    pub kind: WorkKind,
    /// The steps.
    pub plan: Plan,
}

/// Kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// Each chunk is read from or written to the drive that holds it.
    Direct,
    /// A chunk is computed from the others.
    Reconstruct {
        /// The slot that cannot be read.
        slot: Slot,
    },
    /// All copies are written.
    Mirror,
    /// Data and parity are written.
    Parity {
        /// Slots whose chunks the request overwrites, wholly or partly.
        covered: SlotSet,
        /// Whether parity is established here.
        in_sync: bool,
    },
}

/// A piece of a request inside one chunk and one band.
#[derive(Clone, Copy)]
struct Part {
    place: Location,
    length: u32,
    buffer: Buffer,
}

impl State {
    /// All slots work, and no background work is left.
    #[must_use]
    pub fn healthy() -> State {
        State {
            lost: SlotSet(0),
            background: Background::None,
            logged: false,
        }
    }

    /// Which slots may be read and written in the band at `place`.
    fn view(&self, shape: &Geometry, place: Location) -> RowView {
        let mut view = RowView::healthy(shape.members);
        view.logged = self.logged;
        for slot in self.lost.iter() {
            view = view.without(slot);
        }
        let band_bytes = shape.band_bytes();
        let low = place.in_chunk_bytes & !(band_bytes - 1);
        let band_end = place.row * u64::from(shape.chunk_bytes) + u64::from(low + band_bytes);
        match self.background {
            Background::None => {}
            Background::Sync { done_bytes } => view.in_sync = band_end <= done_bytes,
            Background::Rebuild { slot, done_bytes } if band_end > done_bytes => {
                view = view.without(slot);
            }
            Background::Rebuild { .. } => {}
        }
        view
    }
}

/// The plans of a request, in the order in which they are made.
///
/// # Errors
/// The drives that are left do not suffice.
pub fn plans(shape: &Geometry, state: &State, asked: Asked) -> Result<Vec<Work>, NotEnoughMembers> {
    let present = SlotSet(SlotSet::all(shape.members).0 & !state.lost.0);
    if !shape.survives(present) {
        return Err(NotEnoughMembers);
    }
    if asked.is_write && shape.level != Level::Raid0 {
        writes(shape, state, asked)
    } else {
        direct(shape, state, asked)
    }
}

/// Cuts a request at the borders of chunks and of units, which are bands or whole chunks.
fn parts(shape: &Geometry, asked: Asked, unit_bytes: u32) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut done = 0;
    while done < asked.length_bytes {
        let place = shape.locate(asked.offset_bytes + done);
        let left = unit_bytes - (place.in_chunk_bytes & (unit_bytes - 1));
        let length = (asked.length_bytes - done).min(u64::from(left)) as u32;
        parts.push(Part {
            place,
            length,
            buffer: Buffer(done),
        });
        done += u64::from(length);
    }
    parts
}

fn direct(shape: &Geometry, state: &State, asked: Asked) -> Result<Vec<Work>, NotEnoughMembers> {
    let unit_bytes = if state.background == Background::None {
        shape.chunk_bytes
    } else {
        shape.band_bytes()
    };
    let kind = if asked.is_write {
        StepKind::Write { fua: false }
    } else {
        StepKind::Read
    };
    let steps_max = 2 * usize::from(shape.members);
    let (mut works, mut plan, mut bytes) = (Vec::new(), Plan::default(), 0);
    let mut in_flight = vec![0usize; usize::from(shape.members)];
    for part in parts(shape, asked, unit_bytes) {
        if bytes >= READ_PLAN_BYTES_MAX || plan.steps().len() >= steps_max {
            finish(&mut works, &mut plan, &mut in_flight);
            bytes = 0;
        }
        let place = part.place;
        let slot = if asked.is_write {
            Some(Slot(place.data_index))
        } else {
            read_slot(shape, &state.view(shape, place), place, &in_flight)
        };
        match slot {
            Some(slot) => {
                let at = shape.member_offset_bytes(place.row, place.in_chunk_bytes);
                let step = Step::member(kind, 0, slot, at, u64::from(part.length));
                plan.transfer(step, part.buffer);
            }
            None => reconstruct(&mut works, shape, state, part)?,
        }
        bytes += u64::from(part.length);
    }
    finish(&mut works, &mut plan, &mut in_flight);
    Ok(works)
}

/// Adds a finished direct plan to `works`, and counts its steps as in flight.
fn finish(works: &mut Vec<Work>, plan: &mut Plan, in_flight: &mut [usize]) {
    let plan = std::mem::take(plan);
    if plan.steps().is_empty() {
        return;
    }
    for step in plan.steps() {
        in_flight[usize::from(step.slot.0)] += 1;
    }
    works.push(Work {
        row: None,
        kind: WorkKind::Direct,
        plan,
    });
}

/// The slot from which an otherwise idle array reads: the mirror with the fewest commands in flight; mirrors with equal
/// numbers take turns by row.
fn read_slot(
    shape: &Geometry,
    view: &RowView,
    place: Location,
    in_flight: &[usize],
) -> Option<Slot> {
    let holders = shape.data_slots(place.row, place.data_index);
    let slots = SlotSet(holders.0 & view.readable.0);
    let count = slots.count();
    if count <= 1 || !view.in_sync {
        return slots.iter().next();
    }
    let turn = place.row as u32 % count;
    (0u32..)
        .zip(slots.iter())
        .min_by_key(|&(order, slot)| {
            (
                in_flight[usize::from(slot.0)],
                (order + count - turn) % count,
            )
        })
        .map(|(_, slot)| slot)
}

/// Plans that compute a chunk which no slot can deliver, band by band.
fn reconstruct(
    works: &mut Vec<Work>,
    shape: &Geometry,
    state: &State,
    part: Part,
) -> Result<(), NotEnoughMembers> {
    let band_bytes = shape.band_bytes();
    let Some(slot) = shape
        .data_slots(part.place.row, part.place.data_index)
        .iter()
        .next()
    else {
        return Err(NotEnoughMembers);
    };
    let mut done = 0;
    while done < part.length {
        let low = part.place.in_chunk_bytes + done;
        let length = (band_bytes - (low & (band_bytes - 1))).min(part.length - done);
        let range = Range {
            row: part.place.row,
            low_bytes: low,
            high_bytes: low + length,
        };
        let place = Location {
            in_chunk_bytes: low,
            ..part.place
        };
        let view = state.view(shape, place);
        let mut plan = Plan::default();
        let target = part.buffer.at(done);
        parity::parity_reconstruct(&mut plan, shape, slot, range, &view, target)?;
        works.push(Work {
            row: Some(part.place.row),
            kind: WorkKind::Reconstruct { slot },
            plan,
        });
        done += length;
    }
    Ok(())
}

fn writes(shape: &Geometry, state: &State, asked: Asked) -> Result<Vec<Work>, NotEnoughMembers> {
    let band_bytes = shape.band_bytes();
    let mut bands: Vec<((u64, u32), Vec<Part>)> = Vec::new();
    for part in parts(shape, asked, band_bytes) {
        let band = (part.place.row, part.place.in_chunk_bytes / band_bytes);
        match bands.iter_mut().find(|(key, _)| *key == band) {
            Some((_, parts)) => parts.push(part),
            None => bands.push((band, vec![part])),
        }
    }
    let mut works = Vec::new();
    for (_, mut waiting) in bands {
        while !waiting.is_empty() {
            let chosen = if shape.level == Level::Raid5 {
                take_joined(&mut waiting)
            } else {
                vec![waiting.remove(0)]
            };
            match write(shape, state, &chosen) {
                // Pieces that cannot be logged together get a plan each.
                Err(NotEnoughMembers) if state.logged && chosen.len() > 1 => {
                    for alone in &chosen {
                        works.push(write(shape, state, std::slice::from_ref(alone))?);
                    }
                }
                planned => works.push(planned?),
            }
        }
    }
    Ok(works)
}

/// Takes the first piece, and all further pieces that touch those already taken.
fn take_joined(waiting: &mut Vec<Part>) -> Vec<Part> {
    let range = |part: &Part| {
        let low = part.place.in_chunk_bytes;
        (low, low + part.length)
    };
    let first = waiting.remove(0);
    let (mut low, mut high) = range(&first);
    let mut chosen = vec![first];
    let mut skipped: Vec<(u32, u32)> = Vec::new();
    let mut at = 0;
    while at < waiting.len() && chosen.len() < PIECES_MAX {
        let (from, to) = range(&waiting[at]);
        let joined = (low.min(from), high.max(to));
        let in_the_way =
            |&(other_low, other_high): &(u32, u32)| other_low < joined.1 && joined.0 < other_high;
        if from <= high && to >= low && !skipped.iter().any(in_the_way) {
            (low, high) = joined;
            chosen.push(waiting.remove(at));
        } else if skipped.len() == SKIPPED_MAX {
            break;
        } else {
            skipped.push((from, to));
            at += 1;
        }
    }
    chosen
}

fn write(shape: &Geometry, state: &State, parts: &[Part]) -> Result<Work, NotEnoughMembers> {
    let place = parts[0].place;
    let view = state.view(shape, place);
    let pieces: Vec<Piece> = parts
        .iter()
        .map(|part| Piece {
            data_index: part.place.data_index,
            low_bytes: part.place.in_chunk_bytes,
            high_bytes: part.place.in_chunk_bytes + part.length,
            buffer: part.buffer,
        })
        .collect();
    let mut plan = Plan::default();
    let kind = if shape.level == Level::Raid5 {
        parity::parity_write(&mut plan, shape, place.row, &pieces, &view, false)?;
        let covered = pieces.iter().fold(SlotSet(0), |set, piece| {
            SlotSet(set.0 | shape.data_slots(place.row, piece.data_index).0)
        });
        WorkKind::Parity {
            covered,
            in_sync: view.in_sync,
        }
    } else {
        mirror::mirror_write(&mut plan, shape, place.row, &pieces[0], &view, false)?;
        WorkKind::Mirror
    };
    Ok(Work {
        row: Some(place.row),
        kind,
        plan,
    })
}

//! A volume in some trouble, beside a naive copy of what clients wrote to it.
//!
//! The naive volume is one array of bytes. What each slot ought to hold follows from it byte by byte;
//! [`Scene::verify`] (in `outcome`) compares, wherever the state of the volume promises anything.

use super::model::{Allowed, Model, Order, TAIL_BYTES};
use crate::layout::{Geometry, Level, Location};
use crate::plan::mirror::{mirror_write, zero_chunk, zero_row};
use crate::plan::parity::parity_write;
use crate::plan::{Piece, Plan, Range, RowView, StepKind};
use crate::units::{Buffer, Slot, SlotSet};
use std::collections::HashSet;

/// The grain of the scene's bookkeeping and of all its ranges.
pub const BLOCK: u32 = 512;

/// What is wrong with the volume. Rows from `mark` on are in the state named, those before it are whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    None,
    Lost {
        slot: Slot,
    },
    Rebuilding {
        slot: Slot,
        mark: u64,
        receives_writes: bool,
    },
    Unsynced {
        mark: u64,
        lost: Option<Slot>,
    },
    Shadowed {
        slot: Slot,
        mark: u64,
    },
}

/// A volume, its naive copy, and what is known about its redundancy.
pub struct Scene {
    pub shape: Geometry,
    pub trouble: Trouble,
    pub(super) model: Model,
    pub(super) original: Model,
    pub(super) naive: Vec<u8>,
    /// Blocks (row, slot, number in the chunk) written since the start, parity included.
    pub(super) written: HashSet<(u64, u8, u32)>,
    noise: u64,
    pub(super) plan: Plan,
}

impl Scene {
    /// A volume full of noise, consistent where `trouble` promises it.
    pub fn new(shape: Geometry, trouble: Trouble, seed: u64) -> Scene {
        let size = (shape.start_bytes + shape.component_bytes + TAIL_BYTES) as usize;
        let mut noise = seed;
        let members: Vec<Vec<u8>> = (0..shape.members)
            .map(|_| random(&mut noise, size))
            .collect();
        let shadows = (0..shape.members)
            .map(|_| random(&mut noise, size))
            .collect();
        let naive = random(&mut noise, shape.size_bytes as usize);
        let model = Model {
            members,
            shadows,
            memory: Vec::new(),
        };
        let (original, written) = (model.clone(), HashSet::new());
        let plan = Plan::default();
        let mut scene = Scene {
            shape,
            trouble,
            model,
            original,
            naive,
            written,
            noise,
            plan,
        };
        for row in 0..shape.rows() {
            let view = scene.view(row);
            for slot in SlotSet::all(shape.members).iter() {
                let place = scene.place(row, 0, shape.row_height_bytes(row));
                let content = scene.expected(row, slot);
                if scene.promised(&view, row, slot) {
                    scene.model.members[usize::from(slot.0)][place.clone()]
                        .copy_from_slice(&content);
                }
                if view.shadowed.has(slot) {
                    scene.model.shadows[usize::from(slot.0)][place].copy_from_slice(&content);
                }
            }
        }
        scene.original = scene.model.clone();
        scene
    }

    /// What may be done in `row`.
    pub fn view(&self, row: u64) -> RowView {
        let mut view = RowView::healthy(self.shape.members);
        match self.trouble {
            Trouble::Lost { slot } => view = view.without(slot),
            Trouble::Rebuilding {
                slot,
                mark,
                receives_writes,
            } if row >= mark => {
                view = view.without(slot);
                if receives_writes {
                    view.writable = view.writable.with(slot);
                }
            }
            Trouble::Unsynced { mark, lost } if row >= mark => {
                view.in_sync = false;
                view = lost.map_or(view, |slot| view.without(slot));
                if matches!(self.shape.level, Level::Raid1 | Level::Raid10) {
                    let sets = 0..self.shape.data_members();
                    let readable = view.readable;
                    view.readable = sets.fold(SlotSet(0), |lowest, set| {
                        let copies = self.shape.data_slots(row, set).0 & readable.0;
                        SlotSet(lowest.0 | copies & copies.wrapping_neg())
                    });
                }
            }
            Trouble::Unsynced {
                lost: Some(slot), ..
            } => view = view.without(slot),
            Trouble::Shadowed { slot, mark } if row < mark => {
                view.shadowed = view.shadowed.with(slot);
            }
            _ => (),
        }
        view
    }

    /// Writes noise to `pieces` (data index, low, high) of a row, if the planner agrees.
    pub fn write(&mut self, row: u64, pieces: &[(u8, u32, u32)], scatter: bool, order: Order) {
        let view = self.view(row);
        let mut list = Vec::new();
        for &(data_index, low_bytes, high_bytes) in pieces {
            if scatter {
                self.model.memory.extend([0x5A; BLOCK as usize]);
            }
            let buffer = Buffer(self.model.memory.len() as u64);
            let payload = random(&mut self.noise, (high_bytes - low_bytes) as usize);
            self.model.memory.extend(payload);
            list.push(Piece {
                data_index,
                low_bytes,
                high_bytes,
                buffer,
            });
        }
        self.plan.clear();
        let result = if self.shape.level == Level::Raid5 {
            parity_write(&mut self.plan, &self.shape, row, &list, &view, scatter)
        } else {
            list.iter().try_for_each(|piece| {
                mirror_write(&mut self.plan, &self.shape, row, piece, &view, scatter)
            })
        };
        assert_eq!(
            result.is_err(),
            self.impossible(row, pieces),
            "{:?} {view:?}",
            self.trouble
        );
        if result.is_ok() {
            self.model
                .run(&mut self.plan, &self.shape, Allowed::by(&view), order);
            for piece in list {
                let from = piece.buffer.0 as usize;
                let length = (piece.high_bytes - piece.low_bytes) as usize;
                let payload = self.model.memory[from..from + length].to_vec();
                self.note(row, piece.data_index, piece.low_bytes, &payload);
            }
        }
        self.model.memory.clear();
    }

    /// Zeroes a range of one data chunk (refused on RAID 5) or, without `data_index`, of the whole row.
    pub fn zero(&mut self, range: Range, data_index: Option<u8>) {
        let Range {
            row,
            low_bytes,
            high_bytes,
        } = range;
        let view = self.view(row);
        let kind = StepKind::Zero {
            keep_allocated: false,
        };
        self.plan.clear();
        let indexes: Vec<u8> = match data_index {
            Some(index) => vec![index],
            None => (0..self.shape.data_members()).collect(),
        };
        let pieces: Vec<_> = indexes
            .iter()
            .map(|&index| (index, low_bytes, high_bytes))
            .collect();
        let mut impossible = self.impossible(row, &pieces);
        let result = match data_index {
            Some(index) => {
                impossible |= self.shape.level == Level::Raid5;
                zero_chunk(&mut self.plan, &self.shape, index, range, &view, kind)
            }
            None => zero_row(&mut self.plan, &self.shape, range, &view, kind),
        };
        assert_eq!(result.is_err(), impossible);
        if result.is_ok() {
            self.model.run(
                &mut self.plan,
                &self.shape,
                Allowed::by(&view),
                Order::Forward,
            );
            for index in indexes {
                self.note(
                    row,
                    index,
                    low_bytes,
                    &vec![0; range.length_bytes() as usize],
                );
            }
        }
    }

    /// Whether no plan could write these pieces readably and keep everything else, block by block.
    fn impossible(&self, row: u64, pieces: &[(u8, u32, u32)]) -> bool {
        let view = self.view(row);
        let sound = SlotSet(view.readable.0 & view.writable.0);
        let Some(parity) = self.shape.parity_slot(row) else {
            let holders = |index: u8| self.shape.data_slots(row, index).0;
            return pieces
                .iter()
                .any(|&(index, ..)| holders(index) & sound.0 == 0);
        };
        let data = SlotSet::all(self.shape.members).without(parity);
        view.writable.has(parity)
            && (0..self.shape.chunk_bytes)
                .step_by(BLOCK as usize)
                .any(|block| {
                    let covered = pieces
                        .iter()
                        .filter(|&&(_, low, high)| (low..high).contains(&block))
                        .fold(0, |set, &(index, ..)| {
                            set | self.shape.data_slots(row, index).0
                        });
                    let uncovered_readable = data.0 & !covered & !view.readable.0 == 0;
                    let covered_readable = (covered | 1 << parity.0) & !view.readable.0 == 0;
                    let parity_alone = covered & !view.writable.0 != 0 && !view.in_sync;
                    let no_way = !(uncovered_readable || covered_readable && view.in_sync);
                    covered != 0 && (parity_alone || no_way)
                })
    }

    /// Notes a write that has been acknowledged, in the naive copy.
    fn note(&mut self, row: u64, data_index: u8, low_bytes: u32, payload: &[u8]) {
        let from = self.shape.volume_offset_bytes(Location {
            row,
            data_index,
            in_chunk_bytes: low_bytes,
        }) as usize;
        self.naive[from..from + payload.len()].copy_from_slice(payload);
        let mut slots = self.shape.data_slots(row, data_index);
        slots = self
            .shape
            .parity_slot(row)
            .map_or(slots, |parity| slots.with(parity));
        for slot in slots.iter() {
            let high_bytes = low_bytes + payload.len() as u32;
            let blocks = low_bytes / BLOCK..high_bytes / BLOCK;
            self.written
                .extend(blocks.map(|block| (row, slot.0, block)));
        }
    }

    /// Where a range of a row lies on its members.
    pub(super) fn place(
        &self,
        row: u64,
        low_bytes: u32,
        high_bytes: u32,
    ) -> core::ops::Range<usize> {
        let start = self.shape.member_offset_bytes(row, 0) as usize;
        start + low_bytes as usize..start + high_bytes as usize
    }

    /// What a slot ought to hold in a row.
    pub(super) fn expected(&self, row: u64, slot: Slot) -> Vec<u8> {
        let height = self.shape.row_height_bytes(row) as usize;
        let chunk = |data_index| {
            let place = Location {
                row,
                data_index,
                in_chunk_bytes: 0,
            };
            &self.naive[self.shape.volume_offset_bytes(place) as usize..][..height]
        };
        if let Some(data_index) = self.shape.data_index(row, slot) {
            return chunk(data_index).to_vec();
        }
        let mut sum = vec![0; height];
        for data_index in 0..self.shape.data_members() {
            sum.iter_mut()
                .zip(chunk(data_index))
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    }

    /// Whether the whole row is right on a slot, written or not.
    pub(super) fn promised(&self, view: &RowView, row: u64, slot: Slot) -> bool {
        let parity = self.shape.parity_slot(row) == Some(slot);
        view.readable.has(slot) && (view.in_sync || !parity)
    }
}

/// Noise that depends on nothing but `state` (SplitMix64).
fn random(state: &mut u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = *state;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend((word ^ word >> 31).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

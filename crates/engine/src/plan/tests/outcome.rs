//! What becomes of a [`Scene`]: every byte compared, damage repaired, trouble ended.

use super::model::{Allowed, Order};
use super::scene::{BLOCK, Scene, Trouble};
use crate::layout::Level;
use crate::plan::maintain::{check, rebuild, resync};
use crate::plan::mirror::mirror_repair;
use crate::plan::parity::{parity_reconstruct, parity_reconstruct_write_back};
use crate::plan::{NotEnoughMembers, Range, RowView};
use crate::units::{Buffer, Slot, SlotSet};

impl Scene {
    /// Compares every byte of every member with what it ought to be.
    pub fn verify(&mut self) {
        for row in 0..self.shape.rows() {
            let view = self.view(row);
            for slot in SlotSet::all(self.shape.members).iter() {
                self.verify_chunk(&view, row, slot);
                self.verify_computed(&view, row, slot);
            }
        }
        let start = self.shape.start_bytes as usize;
        let end = start + self.shape.component_bytes as usize;
        let pairs = self.model.members.iter().zip(&self.original.members);
        for (now, before) in pairs.chain(self.model.shadows.iter().zip(&self.original.shadows)) {
            assert_eq!(now[..start], before[..start]);
            assert_eq!(now[end..], before[end..]);
        }
    }

    fn verify_chunk(&self, view: &RowView, row: u64, slot: Slot) {
        let height = self.shape.row_height_bytes(row);
        let place = self.place(row, 0, height);
        let index = usize::from(slot.0);
        let (now, before) = (&self.model.members[index], &self.original.members[index]);
        let expected = self.expected(row, slot);
        if !view.writable.has(slot) {
            assert!(
                now[place.clone()] == before[place.clone()],
                "{slot:?} is lost and was touched"
            );
        } else if self.promised(view, row, slot) {
            assert!(
                now[place.clone()] == expected,
                "row {row} of {slot:?} is wrong"
            );
        } else {
            for block in 0..height / BLOCK {
                let bytes = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
                if self.written.contains(&(row, slot.0, block)) {
                    let found = &now[place.start + bytes.start..place.start + bytes.end];
                    assert!(
                        *found == expected[bytes],
                        "row {row} block {block} of {slot:?} is wrong"
                    );
                }
            }
        }
        let (now, before) = (&self.model.shadows[index], &self.original.shadows[index]);
        let right = if view.shadowed.has(slot) {
            &expected
        } else {
            &before[place.clone()]
        };
        assert!(
            now[place] == *right,
            "row {row} of the shadow of {slot:?} is wrong"
        );
    }

    /// Checks that the chunk can be computed from the others, unless that is impossible.
    fn verify_computed(&mut self, view: &RowView, row: u64, slot: Slot) {
        let height = self.shape.row_height_bytes(row);
        let range = Range {
            row,
            low_bytes: height / 4 / BLOCK * BLOCK,
            high_bytes: height,
        };
        let others = SlotSet::all(self.shape.members).without(slot);
        let is_parity = self.shape.parity_slot(row) == Some(slot);
        self.plan.clear();
        self.model.memory.resize(range.length_bytes() as usize, 0);
        let (result, possible) = if self.shape.level == Level::Raid5 {
            let target = Buffer(0);
            let possible = (view.in_sync || is_parity) && others.0 & !view.readable.0 == 0;
            let plan = &mut self.plan;
            (
                parity_reconstruct(plan, &self.shape, slot, range, view, target),
                possible,
            )
        } else {
            let index = self.shape.data_index(row, slot).expect("no parity");
            let copies = self.shape.data_slots(row, index).0 & others.0 & view.readable.0;
            // The chunk of a lost slot is only computed. One in service is also written, with what it holds already.
            let plan = &mut self.plan;
            (
                mirror_repair(plan, &self.shape, slot, range, view, Buffer(0)),
                copies != 0,
            )
        };
        assert_eq!(result.is_ok(), possible);
        if possible {
            // On a copy: a repair must not put right what this scene is about to find.
            let mut model = self.model.clone();
            model.run(
                &mut self.plan,
                &self.shape,
                Allowed::by(view),
                Order::Forward,
            );
            let expected = &self.expected(row, slot)[range.low_bytes as usize..];
            assert!(
                model.memory == expected,
                "row {row} of {slot:?} is computed wrongly"
            );
        }
        self.model.memory.clear();
    }

    /// Spoils a range that can be computed, has it repaired, and checks that it is as before.
    pub fn repair(&mut self, slot: Slot, range: Range) {
        let view = self.view(range.row);
        let place = self.place(range.row, range.low_bytes, range.high_bytes);
        if !view.writable.has(slot) || !self.promised(&view, range.row, slot) {
            return;
        }
        self.plan.clear();
        let target = Buffer(0);
        let (plan, shape) = (&mut self.plan, &self.shape);
        let result = if shape.level == Level::Raid5 {
            parity_reconstruct_write_back(plan, shape, slot, range, &view, (target, true))
        } else {
            mirror_repair(plan, shape, slot, range, &view, target)
        };
        if result.is_err() {
            return;
        }
        self.model.members[usize::from(slot.0)][place].fill(0xEE);
        self.model.memory.resize(range.length_bytes() as usize, 0);
        let mut allowed = Allowed::by(&view);
        allowed.reads = allowed.reads.without(slot);
        self.model
            .run(&mut self.plan, shape, allowed, Order::Backward);
        self.model.memory.clear();
        self.verify();
    }

    /// Ends the trouble by the plans made for it; false if none can.
    pub fn heal(&mut self) -> bool {
        for row in 0..self.shape.rows() {
            let height = self.shape.row_height_bytes(row);
            let middle = height / 2 / BLOCK * BLOCK;
            for (low_bytes, high_bytes) in [(0, middle), (middle, height)] {
                let range = Range {
                    row,
                    low_bytes,
                    high_bytes,
                };
                self.plan.clear();
                let view = self.view(row);
                let mut allowed = Allowed::by(&view);
                match self.heal_range(range, &view, &mut allowed) {
                    Ok(()) => self
                        .model
                        .run(&mut self.plan, &self.shape, allowed, Order::Forward),
                    Err(NotEnoughMembers) => return false,
                };
            }
        }
        if let Trouble::Shadowed { slot, .. } = self.trouble {
            self.trouble = Trouble::Shadowed {
                slot,
                mark: u64::MAX,
            };
        } else {
            self.trouble = Trouble::None;
        }
        true
    }

    fn heal_range(
        &mut self,
        range: Range,
        view: &RowView,
        allowed: &mut Allowed,
    ) -> Result<(), NotEnoughMembers> {
        let (plan, shape) = (&mut self.plan, &self.shape);
        match self.trouble {
            Trouble::None | Trouble::Unsynced { lost: None, .. } => {
                resync(plan, shape, range, view)
            }
            Trouble::Shadowed { slot, .. } => {
                allowed.writes = SlotSet(0);
                allowed.shadow_writes = SlotSet(0).with(slot);
                rebuild(plan, shape, range, slot, view, true)
            }
            Trouble::Lost { slot } | Trouble::Rebuilding { slot, .. } => {
                // A drive that can be read already needs no rebuild, but may be filled once more.
                allowed.reads = allowed.reads.without(slot);
                allowed.writes = SlotSet(0).with(slot);
                rebuild(plan, shape, range, slot, view, false)
            }
            Trouble::Unsynced { lost: Some(_), .. } => Err(NotEnoughMembers),
        }
    }

    /// Whether the volume's own check finds every row consistent.
    pub fn consistent(&mut self) -> bool {
        (0..self.shape.rows()).all(|row| {
            let range = Range {
                row,
                low_bytes: 0,
                high_bytes: self.shape.row_height_bytes(row),
            };
            let view = self.view(row);
            self.plan.clear();
            check(&mut self.plan, &self.shape, range, &view).expect("nothing is lost");
            let nothing = Allowed {
                writes: SlotSet(0),
                ..Allowed::by(&view)
            };
            let equal = self
                .model
                .run(&mut self.plan, &self.shape, nothing, Order::Backward);
            assert_eq!(equal.is_empty(), !self.shape.redundant());
            equal.iter().all(|&equal| equal)
        })
    }

    /// Changes one byte on one member.
    pub fn spoil(&mut self, row: u64, slot: Slot, in_chunk_bytes: u32) {
        let offset = self.shape.member_offset_bytes(row, in_chunk_bytes) as usize;
        self.model.members[usize::from(slot.0)][offset] ^= 1;
    }
}

//! Checks the content of the drives after an ordered stop: mirrors are equal, parity is consistent, and the
//! metadata is clean and the same on all drives.

use super::{Failure, Run};
use crate::container::probe::probe;
use assembly::member::Member;
use engine::layout::{Geometry, Level};

impl Run<'_> {
    pub(super) fn judge_drives(&self) -> Result<(), Failure> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        let record = process.record().clone();
        for (volume, at) in record.volumes.iter().zip(0..) {
            if self.is_lenient(at) {
                continue;
            }
            let bays: Vec<usize> = {
                let machine = self.machine.borrow();
                let members = volume.slots.iter().filter_map(|slot| slot.member);
                members
                    .map(|member| machine.bays[member.0 as usize])
                    .collect()
            };
            self.judge_redundancy(at, &volume.geometry, &bays)?;
            self.judge_metadata(&bays)?;
        }
        Ok(())
    }

    fn judge_redundancy(&self, at: u8, shape: &Geometry, bays: &[usize]) -> Result<(), Failure> {
        if !shape.redundant() {
            return Ok(());
        }
        let machine = self.machine.borrow();
        let length = shape.component_bytes as usize;
        let contents: Vec<Vec<u8>> = bays
            .iter()
            .map(|&bay| {
                let mut bytes = vec![0; length];
                machine.drives[bay].inspect(shape.start_bytes, &mut bytes);
                bytes
            })
            .collect();
        let differs = |what: &str, offset: usize| {
            let text = format!("volume {at}: {what} at byte {offset} of the members");
            Err(Failure::Unsound(text))
        };
        if shape.level == Level::Raid5 {
            let mut sum = vec![0; length];
            for content in &contents {
                sum.iter_mut()
                    .zip(content)
                    .for_each(|(sum, byte)| *sum ^= byte);
            }
            return match sum.iter().position(|&byte| byte != 0) {
                Some(offset) => differs("parity does not match data", offset),
                None => Ok(()),
            };
        }
        let set = if shape.level == Level::Raid1 {
            contents.len()
        } else {
            2
        };
        for mirror in contents.chunks(set) {
            for copy in &mirror[1..] {
                if copy != &mirror[0] {
                    let pairs = copy.iter().zip(&mirror[0]);
                    let offset = pairs.take_while(|(a, b)| a == b).count();
                    return differs("copies differ", offset);
                }
            }
        }
        Ok(())
    }

    fn judge_metadata(&self, bays: &[usize]) -> Result<(), Failure> {
        let mut first = None;
        for &bay in bays {
            // Metadata that cannot be read and has not been overwritten since is not checked.
            let cannot_be_read = {
                let faults = &self.machine.borrow().drives[bay].faults;
                faults.has_bad_metadata && faults.has_bad_sectors()
            };
            if cannot_be_read {
                continue;
            }
            let unsound = |what: &str| Err(Failure::Unsound(format!("drive {bay}: {what}")));
            let found = probe(&self.machine, bay, self.history.topology.sector);
            let mpb = match found.as_ref().map(Member::found) {
                Some(Ok(Some(found))) => found.mpb.clone(),
                _ => return unsound("no valid metadata"),
            };
            if mpb.volumes.iter().any(|volume| volume.is_dirty()) {
                return unsound("the metadata says dirty");
            }
            if mpb.volumes.iter().any(|volume| volume.migration.is_some()) {
                return unsound("the metadata says that something is under way");
            }
            if first.get_or_insert_with(|| mpb.clone()) != &mpb {
                return unsound("the metadata differs from that of other drives");
            }
        }
        Ok(())
    }
}

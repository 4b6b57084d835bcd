//! The write-intent bitmap on the drives, and a watch on whether every write keeps its rules.

use super::{Disk, Shared};
use engine::control::record::{BitmapRecord, Record};
use engine::layout::{Geometry, Level};
use engine::plan::{Segment, StepKind};
use engine::units::Slot;
use engine::world::Io;
use std::ops::Range;

/// Counts what breaks the rules of the bitmap.
#[derive(Clone, Copy, Default)]
pub struct Watch {
    pub bits_at: u64,
    pub region_bytes: u64,
    /// Data writes whose region was not marked on some drive in service.
    pub unannounced: usize,
    /// Bits cleared while something in their region was not flushed.
    pub early: usize,
    /// Bits cleared.
    pub cleared: usize,
    /// Writes of the bitmap.
    pub writes: usize,
}

/// Gives a volume a bitmap, with these words set.
pub fn with_bitmap(mut record: Record, region_bytes: u64, marked: &[u64]) -> Record {
    let volume = &mut record.volumes[0];
    let shape = volume.geometry;
    volume.bitmap = Some(BitmapRecord {
        bits_offset_bytes: shape.start_bytes + shape.component_bytes + 12_288,
        region_bytes,
        marked: marked.into(),
        cleared_generation: 0,
    });
    record
}

/// The regions that bytes of a member are in.
pub fn regions(shape: &Geometry, region_bytes: u64, member: Range<u64>) -> Range<u64> {
    let (mut from, mut to) = (
        member.start - shape.start_bytes,
        member.end - shape.start_bytes,
    );
    if shape.level == Level::Raid10 {
        let chunk = u64::from(shape.chunk_bytes);
        from = from / chunk * shape.row_bytes();
        to = to.div_ceil(chunk) * shape.row_bytes();
    }
    from / region_bytes..to.div_ceil(region_bytes)
}

fn has(disk: &Disk, bits_at: u64, region: u64) -> bool {
    disk.bytes[(bits_at + region / 8) as usize] >> (region % 8) & 1 == 1
}

/// The regions that are marked on any of the drives.
pub fn union(disks: &[Disk], record: &Record) -> Vec<u64> {
    let volume = &record.volumes[0];
    let bitmap = volume.bitmap.as_ref().expect("it has a bitmap");
    let shape = &volume.geometry;
    let covered = if shape.level == Level::Raid10 {
        shape.size_bytes
    } else {
        shape.component_bytes
    };
    let count = covered.div_ceil(bitmap.region_bytes);
    let mut words = vec![0; count.div_ceil(64) as usize];
    for region in 0..count {
        if disks
            .iter()
            .any(|disk| has(disk, bitmap.bits_offset_bytes, region))
        {
            words[region as usize / 64] |= 1 << (region % 64);
        }
    }
    words
}

impl Shared {
    pub fn watch(&mut self, record: &Record) {
        let bitmap = record.volumes[0].bitmap.as_ref().expect("it has a bitmap");
        self.marks = Some(Watch {
            bits_at: bitmap.bits_offset_bytes,
            region_bytes: bitmap.region_bytes,
            ..Watch::default()
        });
    }

    /// Puts the same bits on all drives, as a start does.
    pub fn write_marks(&mut self, words: &[u64]) {
        let watch = self.marks.expect("it is watched");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for disk in &mut self.disks {
            disk.bytes[watch.bits_at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
    }

    pub(super) fn look_at_marks(&mut self, io: &Io, memory: &[Segment]) {
        let Some(mut watch) = self.marks else { return };
        let writes = !matches!(io.kind, StepKind::Read | StepKind::Flush);
        let extent = self.shape.start_bytes..self.shape.start_bytes + self.shape.component_bytes;
        let range = io.offset_bytes..io.offset_bytes + io.length_bytes;
        if writes && extent.contains(&range.start) {
            let regions = exact(&self.shape, watch.region_bytes, io.member.0, range.clone());
            let in_service = |disk: &&Disk| !disk.gone && !disk.hung && !disk.writes_fail;
            let marked = |region: u64| {
                let members = self.disks[..self.shape.members as usize].iter();
                members
                    .filter(in_service)
                    .all(|disk| has(disk, watch.bits_at, region))
            };
            watch.unannounced += usize::from(!regions.clone().all(marked));
        }
        if writes && range.start >= watch.bits_at {
            watch.writes += 1;
            self.look_at_bits(&mut watch, io, memory);
        }
        self.marks = Some(watch);
    }

    fn look_at_bits(&self, watch: &mut Watch, io: &Io, memory: &[Segment]) {
        let [segment] = memory else {
            panic!("a write of the bitmap has one piece of memory");
        };
        let new = &self.memory[segment.buffer.0 as usize..][..segment.length_bytes as usize];
        let old = &self.disks[io.member.0 as usize].bytes[io.offset_bytes as usize..][..new.len()];
        let first = (io.offset_bytes - watch.bits_at) * 8;
        for (at, (new, old)) in new.iter().zip(old).enumerate() {
            for bit in (0..8).filter(|bit| old & !new & 1 << bit != 0) {
                watch.cleared += 1;
                let region = first + at as u64 * 8 + bit;
                let extent = self.shape.start_bytes + self.shape.component_bytes;
                let touches = |&(from, to): &(u64, u64)| {
                    from < extent
                        && regions(&self.shape, watch.region_bytes, from..to).contains(&region)
                };
                let here = self.disks.iter().filter(|disk| !disk.gone);
                let mut unflushed = here.flat_map(|disk| &disk.unflushed);
                watch.early += usize::from(unflushed.any(touches));
            }
        }
    }
}

/// The regions of a write to a member: on RAID 10 those of the chunk that the member holds.
fn exact(shape: &Geometry, region_bytes: u64, member: u8, range: Range<u64>) -> Range<u64> {
    if shape.level != Level::Raid10 {
        return regions(shape, region_bytes, range);
    }
    let chunk = u64::from(shape.chunk_bytes);
    let row = (range.start - shape.start_bytes) / chunk;
    let index = shape
        .data_index(row, Slot(member))
        .expect("a mirror holds data");
    let from = row * shape.row_bytes()
        + u64::from(index) * chunk
        + (range.start - shape.start_bytes) % chunk;
    from / region_bytes..(from + range.end - range.start).div_ceil(region_bytes)
}

//! A drive's volatile write cache, stored as the old content that would undo its writes.
//!
//! The store holds the content that reads return. For every write since the last flush the cache remembers the
//! previous content, so that a power cut can bring back, sector by sector, any state since the last flush.

use super::store::{PAGE_BYTES, Page, SECTOR_BYTES, Store, pieces};
use crate::random::Stream;
use std::collections::BTreeMap;
use std::rc::Rc;

const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;

/// What a page held before a write changed some of its sectors.
struct Before {
    number: u64,
    sectors: u8,
    bytes: Option<Rc<Page>>,
}

/// How much of a volatile cache survives a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// All of it had reached the medium.
    All,
    /// None of it.
    Nothing,
    /// Any part of it, sector by sector.
    Some,
}

/// See the module's prose.
#[derive(Default)]
pub struct Cache {
    pages: BTreeMap<usize, Vec<Before>>,
    number: u64,
}

impl Cache {
    /// Notes a write that is about to change `store`.
    pub fn note(&mut self, store: &Store, offset_bytes: u64, length: usize) {
        self.number += 1;
        for (page, within, range) in pieces(offset_bytes, length) {
            let before = Before {
                number: self.number,
                sectors: sectors(within, range.len()),
                bytes: store.shared(page),
            };
            self.pages.entry(page).or_default().push(before);
        }
    }

    /// The number of the latest write; see [`Cache::flushed`].
    #[must_use]
    pub fn position(&self) -> u64 {
        self.number
    }

    /// Notes that all writes up to `position` are on the medium.
    pub fn flushed(&mut self, position: u64) {
        self.pages.retain(|_, before| {
            before.retain(|before| before.number > position);
            !before.is_empty()
        });
    }

    /// Notes that the last write to this range is on the medium.
    pub fn written_through(&mut self, offset_bytes: u64, length: usize) {
        for (page, within, range) in pieces(offset_bytes, length) {
            let through = sectors(within, range.len());
            if let Some(before) = self.pages.get_mut(&page) {
                before.iter_mut().for_each(|b| b.sectors &= !through);
                before.retain(|b| b.sectors != 0);
            }
        }
    }

    /// Loses power: brings `store` to a state that the medium may have, without tearing units of `grain_bytes`.
    /// Returns the first byte of every sector that changed by this, and the number of the oldest write to it that
    /// is lost.
    pub fn lose(
        &mut self,
        store: &mut Store,
        survival: Survival,
        grain_bytes: u64,
        random: &mut Stream,
    ) -> Vec<(u64, u64)> {
        let mut undone = Vec::new();
        let mut lot = 0;
        for (page, before) in std::mem::take(&mut self.pages) {
            for sector in 0..PAGE_SECTORS {
                let states: Vec<&Before> = before
                    .iter()
                    .filter(|before| before.sectors >> sector & 1 == 1)
                    .collect();
                let count = states.len() as u64;
                let kept = match survival {
                    Survival::All => count,
                    Survival::Nothing => 0,
                    Survival::Some => {
                        if (sector * SECTOR_BYTES).is_multiple_of(grain_bytes) {
                            lot = random.below(count + 1);
                        }
                        lot.min(count)
                    }
                };
                if let Some(state) = states.get(kept as usize) {
                    let range =
                        (sector * SECTOR_BYTES) as usize..((sector + 1) * SECTOR_BYTES) as usize;
                    let before = &store.bytes_of(page, state.bytes.as_ref())[range.clone()];
                    let held = &mut store.page_mut(page)[range];
                    if held != before {
                        let first = page as u64 * PAGE_BYTES + sector * SECTOR_BYTES;
                        undone.push((first, state.number));
                    }
                    held.copy_from_slice(before);
                }
            }
        }
        undone
    }
}

/// The sectors of a page that a range touches, as bits.
fn sectors(within: usize, length: usize) -> u8 {
    let first = within as u64 / SECTOR_BYTES;
    let end = (within + length) as u64;
    let last = end.div_ceil(SECTOR_BYTES);
    (((1u16 << last) - 1) & !((1u16 << first) - 1)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(store: &mut Store, cache: &mut Cache, at: u64, byte: u8, length: usize) {
        cache.note(store, at, length);
        store.write(at, &vec![byte; length]);
    }

    fn bytes(store: &Store) -> Vec<u8> {
        let mut sectors = vec![0; 16];
        for (sector, byte) in sectors.iter_mut().enumerate() {
            let mut whole = [0; 512];
            store.read(sector as u64 * 512, &mut whole);
            assert!(whole.iter().all(|&b| b == whole[0]));
            *byte = whole[0];
        }
        sectors
    }

    #[test]
    fn a_power_cut_leaves_any_state_since_the_flush_and_nothing_older() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let (mut store, mut cache) = (Store::new(8192, None), Cache::default());
            write(&mut store, &mut cache, 0, 1, 8192);
            let flushed = cache.position();
            write(&mut store, &mut cache, 512, 2, 1024);
            cache.flushed(flushed);
            write(&mut store, &mut cache, 1024, 3, 4096);
            // Sector 10 is written through.
            write(&mut store, &mut cache, 5120, 4, 512);
            cache.written_through(5120, 512);
            cache.lose(
                &mut store,
                Survival::Some,
                SECTOR_BYTES,
                &mut Stream::new(seed, "cut", 0),
            );
            let after = bytes(&store);
            assert!([1, 2].contains(&after[1]) && [1, 2, 3].contains(&after[2]));
            assert_eq!((after[0], after[10], after[11]), (1, 4, 1));
            assert!(after[3..10].iter().all(|byte| [1, 3].contains(byte)));
            seen.insert((after[1], after[2], after[3]));
        }
        assert_eq!(seen.len(), 12, "every combination of states occurs");
    }

    #[test]
    fn all_or_nothing() {
        for (survival, byte) in [(Survival::All, 3), (Survival::Nothing, 0)] {
            let (mut store, mut cache) = (Store::new(8192, None), Cache::default());
            write(&mut store, &mut cache, 0, 2, 8192);
            write(&mut store, &mut cache, 0, 3, 8192);
            cache.lose(
                &mut store,
                survival,
                SECTOR_BYTES,
                &mut Stream::new(1, "cut", 0),
            );
            assert_eq!(bytes(&store), [byte; 16]);
        }
    }
}

//! Bands that are held back: their writes wait for the rest of their row. See [`crate::shard::plans::hold`].

use crate::limits::VOLUMES_MAX;
use crate::order::ranges::BandKey;
use crate::units::Nanos;
use alloc::vec::Vec;

/// A band that is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBand {
    pub key: BandKey,
    /// Which stream it waits for.
    pub stream: usize,
    /// How many write plans of the volume have ended when all those have ended that the band waits for.
    pub until_ended: u32,
    /// When it waits no longer, whatever happens.
    pub until: Nanos,
    /// What it waits for has ended; it only gives the client a moment to send more.
    pub is_last_moment: bool,
}

/// Bands that can be held back at the same time; a stream holds those of its last row.
const HELD_MAX: usize = 32 * VOLUMES_MAX;

/// All bands that are held back, each once.
#[derive(Debug)]
pub(crate) struct HeldBands {
    bands: Vec<HeldBand>,
}

impl HeldBands {
    /// No band is held back.
    pub fn new() -> HeldBands {
        HeldBands {
            bands: Vec::with_capacity(HELD_MAX),
        }
    }

    /// Holds a band back. If it is held already, more of its row has come, and the new values replace the old ones. A
    /// band that is not held yet is refused (false) at its last moment, or when there are too many.
    pub fn hold(&mut self, band: HeldBand) -> bool {
        if let Some(held) = self.bands.iter_mut().find(|held| held.key == band.key) {
            *held = band;
            return true;
        }
        let has_room = !band.is_last_moment && self.bands.len() < HELD_MAX;
        if has_room {
            self.bands.push(band);
        }
        has_room
    }

    /// Takes out the bands of which `is_over` says so.
    #[inline]
    pub fn release(&mut self, mut is_over: impl FnMut(&mut HeldBand) -> bool) {
        let mut at = 0;
        while at < self.bands.len() {
            if is_over(&mut self.bands[at]) {
                self.bands.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// When the first band waits no longer.
    #[inline]
    pub fn first_end(&self) -> Option<Nanos> {
        self.bands.iter().map(|held| held.until).min()
    }

    /// Whether a band is held back.
    pub fn has(&self, key: BandKey) -> bool {
        self.bands.iter().any(|held| held.key == key)
    }

    /// How many bands there is memory for.
    pub fn room(&self) -> usize {
        self.bands.capacity()
    }

    /// Checks that no band is held back twice.
    ///
    /// # Panics
    /// A band is held back twice.
    pub fn check(&self) {
        for (at, held) in self.bands.iter().enumerate() {
            let mut before = self.bands[..at].iter();
            assert!(
                before.all(|other| other.key != held.key),
                "{held:?} is held back twice"
            );
        }
    }
}

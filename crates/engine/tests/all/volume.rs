//! The engine against a naive reference: every byte of a volume, all levels, 1 to 4 shards, with members
//! failing under load, rebuilt and scrubbed.

mod content;
mod life;
mod losing;
mod reconstructing;

use crate::memory::geometry;
use engine::layout::Level;
use engine::options::Options;
use engine::units::Nanos;

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

fn shapes() -> Vec<engine::layout::Geometry> {
    vec![
        geometry(Level::Raid0, 1, 64 << 10, 6),
        geometry(Level::Raid0, 3, 16 << 10, 20),
        geometry(Level::Raid1, 2, 64 << 10, 37),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid10, 6, 8 << 10, 30),
        geometry(Level::Raid5, 3, 4 << 10, 60),
        geometry(Level::Raid5, 4, 64 << 10, 12),
        geometry(Level::Raid5, 5, 16 << 10, 25),
        geometry(Level::Raid5, 3, 256 << 10, 4),
        geometry(Level::Raid5, 3, 1 << 20, 2),
    ]
}

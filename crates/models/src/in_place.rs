//! Writes to a medium that is overwritten in place and has no buffer in front of it, such as 3D XPoint: a write is done
//! when the medium has it. There is no burst credit, nothing is collected, and nothing is lost in a power cut.
//!
//! Reads and programs take turns on the units of the drive. A unit that changes from one to the other needs the
//! profile's `suspend_us` for it. All programs together share the program bandwidth.
//!
//! A program writes a map unit as a whole. If a write covers one only in part, its unit reads it first. A longer write
//! whose offset is not that of a map unit fills none of them with a page of the host's: each costs
//! `partial_write_factor` programs.

use crate::profile::Profile;
use crate::server::{Pace, Server};
use crate::units::{Piece, Units};
use alloc::vec::Vec;

/// The map unit of such a drive: a rule of profiles (`media.map_unit_kib`).
const MAP_UNIT_BYTES: u64 = 4096;

/// The write path of such a drive.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    programs: Server,
    pace: Pace,
    program_ns: u64,
    read_unit_ns: u64,
    turn_ns: u64,
    partial_per_mille: u64,
    /// By unit: whether its last work was a program.
    programmed_last: Vec<bool>,
}

/// A write that the medium will have.
pub(crate) struct Written {
    /// When it has it.
    pub done_ns: u64,
    /// Bytes that the units program for it.
    pub media_bytes: u64,
}

impl InPlace {
    /// The write path of a drive with this profile, if its profile has no buffer. A worn drive writes more slowly.
    pub(crate) fn of(profile: &Profile, is_worn: bool) -> Option<InPlace> {
        let bytes_per_s = if is_worn {
            profile
                .program_bytes_per_s
                .min(profile.worn_write_bytes_per_s)
        } else {
            profile.program_bytes_per_s
        };
        profile.is_in_place().then(|| InPlace {
            programs: Server::default(),
            pace: Pace::of_bytes_per_s(bytes_per_s.max(1)),
            program_ns: profile.program_ns,
            read_unit_ns: profile.read_unit_ns,
            turn_ns: profile.suspend_ns,
            partial_per_mille: profile.partial_write_per_mille,
            programmed_last: alloc::vec![false; profile.units],
        })
    }

    /// The time that a unit needs before a read, if its last work was a program.
    pub(crate) fn turn_to_read_ns(&mut self, unit: usize) -> u64 {
        let turns = core::mem::replace(&mut self.programmed_last[unit], false);
        if turns { self.turn_ns } else { 0 }
    }

    /// When the medium has the `whole` write. Its data begin to arrive at the first time, and the last of them are there at the
    /// second. `stretched_ns` is what the medium takes for work of some time.
    pub(crate) fn write(
        &mut self,
        whole: Piece,
        (from_ns, there_ns): (u64, u64),
        units: &mut Units,
        stretched_ns: &dyn Fn(u64) -> u64,
    ) -> Written {
        let is_aligned = whole.offset_bytes.is_multiple_of(MAP_UNIT_BYTES);
        let is_long = whole.length_bytes > MAP_UNIT_BYTES;
        let factor_per_mille = if is_aligned || !is_long {
            1000
        } else {
            self.partial_per_mille
        };
        let media_bytes = whole.touched_bytes(MAP_UNIT_BYTES) * factor_per_mille / 1000;
        let paced_ns = stretched_ns(self.pace.time_ns(media_bytes));
        // Programs begin while the rest of the data still arrive.
        let begin_ns = from_ns.max(there_ns.saturating_sub(paced_ns));
        let mut done_ns = there_ns.max(self.programs.serve(begin_ns, paced_ns));
        let mut arrived_bytes = 0;
        for piece in units.pieces(whole.offset_bytes, whole.length_bytes) {
            arrived_bytes += piece.length_bytes;
            let share = u128::from(there_ns - from_ns) * u128::from(arrived_bytes);
            let arrived_ns = from_ns + (share / u128::from(whole.length_bytes)) as u64;
            let touched_bytes = piece.touched_bytes(MAP_UNIT_BYTES);
            let programs = touched_bytes / MAP_UNIT_BYTES;
            let mut service_ns = self.program_ns * programs * factor_per_mille / 1000;
            if factor_per_mille == 1000 && touched_bytes != piece.length_bytes {
                service_ns += self.read_unit_ns;
            }
            let unit = units.unit_of(piece.offset_bytes);
            if !core::mem::replace(&mut self.programmed_last[unit], true) {
                service_ns += self.turn_ns;
            }
            done_ns = done_ns.max(units.serve(unit, arrived_ns, stretched_ns(service_ns)));
        }
        Written {
            done_ns,
            media_bytes,
        }
    }
}

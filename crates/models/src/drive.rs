//! One drive: commands in, completion times out.
//!
//! [`Drive::submit`] receives a command with the time at which the drive sees it, and returns at once when it will
//! complete. A promised time is never changed: a later command can delay work that no completion time depends on yet
//! (programs, collection), but nothing else.

use crate::calendar::Calendar;
use crate::drain::{Drain, DrainSettings};
use crate::in_place::InPlace;
use crate::port::{OwnPort, Port, Way};
use crate::profile::Profile;
use crate::read_ahead::ReadAhead;
use crate::refresh::Refresh;
use crate::server::{Pace, Server};
use crate::stalls::Stalls;
use crate::units::{Piece, Placement, Units};
use alloc::boxed::Box;
use repeatable::random::{Stream, mix};

/// What earlier writes have left in a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never written: places that have not been written since are unmapped.
    Fresh,
    /// Written once sequentially from start to end.
    Filled,
    /// Filled, then overwritten at random until its performance no longer changes.
    Steady,
    /// Steady, and past the rated endurance: its write rate is limited.
    Worn,
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes acknowledged data durable. It takes only a command's time, because the buffer survives a power cut.
    Flush,
    /// Deallocates a range. It takes only a command's time.
    Deallocate,
}

/// One NVMe command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its kind.
    pub operation: Operation,
    /// Offset, in bytes.
    pub offset_bytes: u64,
    /// Length, in bytes. A command longer than the drive's largest one counts as several.
    pub length_bytes: u64,
}

/// The completion of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When the host can see it.
    pub done_ns: u64,
    /// Whether this is a read of unwritten space, which did not touch flash: it is too fast to be representative.
    pub unmapped: bool,
}

/// What the drive has done: for conservation laws, utilisation and power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes to the host.
    pub read_bytes: u64,
    /// Bytes from the host.
    pub written_bytes: u64,
    /// Bytes that the flash units have read.
    pub media_read_bytes: u64,
    /// Bytes of writes as flash counts them: whole map units, with partial ones at their higher cost.
    pub media_write_bytes: u64,
}

/// Busy time of each station, in nanoseconds of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyTimes {
    /// The controller.
    pub controller_ns: u64,
    /// All units together, for reads.
    pub units_ns: u64,
    /// The data path between port and flash, both directions.
    pub path_ns: u64,
    /// The port towards the host.
    pub to_host_ns: u64,
    /// The port from the host.
    pub to_drive_ns: u64,
}

/// Number of regions for which a fresh drive remembers whether they were written.
const REGIONS: u64 = 4096;
/// Number of ends of writes that are remembered, to recognise sequential writes.
const WRITE_STREAMS: usize = 64;

/// A drive of some profile in some state.
#[derive(Clone, Debug)]
pub struct Drive {
    profile: Profile,
    now_ns: u64,
    controller: Server,
    units: Units,
    read_ahead: ReadAhead,
    drain: Drain,
    /// The write path instead of the drain, if there is no buffer.
    in_place: Option<InPlace>,
    refresh: Refresh,
    path: Calendar,
    port: OwnPort,
    path_pace: Pace,
    /// Of the drive's own link towards the host.
    link_pace: Pace,
    read_fixed_ns: u64,
    write_fixed_ns: u64,
    read_stalls: Stalls,
    write_stalls: Stalls,
    random: Stream,
    /// Regions written since the drive was fresh; `None` if everything counts as written.
    written: Option<Box<[u64; REGIONS as usize / 64]>>,
    write_ends: Box<[u64; WRITE_STREAMS]>,
    totals: Totals,
}

impl Drive {
    /// A drive behind this port. `seed` and `index` select its random numbers: drives of one array have different
    /// indices.
    #[must_use]
    pub fn new(profile: &Profile, state: State, port: Port, seed: u64, index: u64) -> Drive {
        let placement = match state {
            State::Fresh | State::Filled => Placement::Striped,
            State::Steady | State::Worn => Placement::Scattered,
        };
        let disordered = placement == Placement::Scattered;
        let [short_read, long_read] = profile.read_stalls;
        let [short_write, long_write] = profile.write_stalls;
        Drive {
            now_ns: 0,
            controller: Server::default(),
            units: Units::new(
                profile.units,
                if profile.collides {
                    placement
                } else {
                    Placement::Everywhere
                },
                [profile.stripe_bytes, profile.map_unit_bytes],
                profile.read_unit_ns,
                Pace::of_bytes_per_s(profile.unit_transfer_bytes_per_s),
                mix(seed ^ mix(index)),
            ),
            read_ahead: ReadAhead::new(profile.read_ahead_bytes, profile.stripe_bytes),
            drain: Drain::new(drain_settings(profile, state), disordered),
            in_place: InPlace::of(profile, state == State::Worn),
            refresh: Refresh::default(),
            path: Calendar::roomy(),
            port: OwnPort::new(port),
            path_pace: Pace::of_bytes_per_s(profile.path_bytes_per_s),
            link_pace: Pace::of_bytes_per_s(profile.port.to_host_bytes_per_s),
            read_fixed_ns: profile
                .read_latency_ns
                .saturating_sub(profile.staged_read_ns()),
            write_fixed_ns: profile
                .write_latency_ns
                .saturating_sub(profile.staged_write_ns()),
            read_stalls: Stalls::new(short_read, long_read),
            write_stalls: Stalls::new(short_write, long_write),
            random: Stream::new(seed, "drive model", index),
            written: (state == State::Fresh).then(|| Box::new([0; REGIONS as usize / 64])),
            write_ends: Box::new([u64::MAX; WRITE_STREAMS]),
            totals: Totals::default(),
            profile: profile.clone(),
        }
    }

    /// When a command completes that the drive sees at `now_ns`.
    ///
    /// Commands come in the order of time. A `now_ns` before that of an earlier command is replaced by the latter.
    pub fn submit(&mut self, command: Command, now_ns: u64) -> Completion {
        let mut port = core::mem::take(&mut self.port);
        let completion = self.submit_by(command, now_ns, &mut port);
        self.port = port;
        completion
    }

    /// As [`Drive::submit`], but the caller provides the way of the data; the drive's own port is not used.
    pub fn submit_by(&mut self, command: Command, now_ns: u64, way: &mut impl Way) -> Completion {
        self.now_ns = self.now_ns.max(now_ns);
        let largest = self.profile.command_max_bytes;
        let carries_data = matches!(command.operation, Operation::Read | Operation::Write);
        if !carries_data || command.length_bytes <= largest {
            return self.submit_one(command, way);
        }
        let mut completion = Completion {
            done_ns: 0,
            unmapped: true,
        };
        let mut at_bytes = 0;
        while at_bytes < command.length_bytes {
            let part = Command {
                offset_bytes: command.offset_bytes + at_bytes,
                length_bytes: largest.min(command.length_bytes - at_bytes),
                ..command
            };
            let part = self.submit_one(part, way);
            completion.done_ns = completion.done_ns.max(part.done_ns);
            completion.unmapped &= part.unmapped;
            at_bytes += largest;
        }
        completion
    }

    fn submit_one(&mut self, command: Command, way: &mut impl Way) -> Completion {
        let mut unmapped = false;
        let done_ns = match command.operation {
            Operation::Read => {
                unmapped = !self.is_written(command.offset_bytes);
                self.read(command.offset_bytes, command.length_bytes, unmapped, way)
            }
            Operation::Write => self.write(command.offset_bytes, command.length_bytes, way),
            Operation::Flush | Operation::Deallocate => {
                let service_ns = self.profile.controller_ns(0);
                let ready_ns = self.now_ns + self.write_fixed_ns;
                self.controller.serve(ready_ns, service_ns)
            }
        };
        Completion { done_ns, unmapped }
    }

    fn read(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
        unmapped: bool,
        way: &mut impl Way,
    ) -> u64 {
        self.totals.reads += 1;
        self.totals.read_bytes += length_bytes;
        // Half of the fixed time passes before the queues, half after them.
        let arrival_ns = self.now_ns + self.read_fixed_ns / 2;
        let service_ns = self.profile.controller_ns(length_bytes);
        let accepted_ns = self.controller.serve(arrival_ns, service_ns);
        let mut commands = 1;
        let mut done_ns = accepted_ns;
        for piece in self.units.pieces(offset_bytes, length_bytes) {
            let found_ns = if unmapped {
                accepted_ns
            } else {
                self.find(piece, accepted_ns)
            };
            let moved_ns = self.path_pace.time_ns(piece.length_bytes);
            let at_port_ns = self.path.reserve(self.now_ns, found_ns, moved_ns);
            // Nothing is kept on the way of a medium without buffer: data leave while the rest still comes.
            let leaves_ns = if self.in_place.is_some() {
                let overhead_bytes = commands * self.profile.port.command_overhead_bytes;
                let sent_ns = self.link_pace.time_ns(piece.length_bytes + overhead_bytes);
                at_port_ns - moved_ns.min(sent_ns)
            } else {
                at_port_ns
            };
            let out_ns = way.to_host_ns(self.now_ns, leaves_ns, piece.length_bytes, commands);
            commands = 0;
            done_ns = done_ns.max(out_ns);
        }
        if !unmapped {
            self.look_ahead(offset_bytes, length_bytes, accepted_ns);
        }
        done_ns + (self.read_fixed_ns - self.read_fixed_ns / 2)
    }

    /// When a piece has been read from flash, or was read ahead.
    fn find(&mut self, piece: Piece, ready_ns: u64) -> u64 {
        let stripe = piece.offset_bytes / self.profile.stripe_bytes;
        match self.read_ahead.ready_ns(stripe) {
            Some(ahead_ns) => ahead_ns.max(ready_ns),
            None => self.read_flash(piece, ready_ns),
        }
    }

    fn read_flash(&mut self, piece: Piece, ready_ns: u64) -> u64 {
        let media_bytes = piece.media_bytes();
        self.totals.media_read_bytes += media_bytes;
        let unit = self.units.unit_of(piece.offset_bytes);
        let mut service_ns = self.units.read_time_ns(media_bytes);
        service_ns += self.read_stalls.draw_ns(&mut self.random);
        if let Some(in_place) = &mut self.in_place {
            service_ns += in_place.turn_to_read_ns(unit);
        } else {
            if self.units.is_idle(unit, ready_ns) {
                service_ns += self.program_wait_ns();
            }
            self.drain.take(service_ns / self.units.count());
        }
        let service_ns = self.refresh.stretched_ns(service_ns, self.now_ns);
        self.units.serve(unit, ready_ns, service_ns)
    }

    /// The time that a read waits if its unit serves no other read: nothing, or for a program.
    fn program_wait_ns(&mut self) -> u64 {
        let busy_share = self.drain.busy_share(self.now_ns);
        if busy_share == 0 || self.random.draw() >> 16 >= busy_share {
            return 0;
        }
        if self.profile.suspends {
            self.profile.suspend_ns
        } else {
            // The rest of a program at a random moment.
            self.random.below(self.profile.program_ns)
        }
    }

    /// Reads what a recognised stream will request next, stripe by stripe.
    fn look_ahead(&mut self, offset_bytes: u64, length_bytes: u64, ready_ns: u64) {
        let range = self.read_ahead.follow(offset_bytes, length_bytes);
        if range.is_empty() {
            return;
        }
        let stripe_bytes = self.profile.stripe_bytes;
        // Each stripe is read ahead once: by the command whose range it begins in.
        let end = range
            .end
            .min(self.profile.capacity_bytes / stripe_bytes * stripe_bytes);
        for stripe in range.start.div_ceil(stripe_bytes)..end.div_ceil(stripe_bytes) {
            let piece = Piece {
                offset_bytes: stripe * stripe_bytes,
                length_bytes: stripe_bytes,
            };
            let there_ns = self.read_flash(piece, ready_ns);
            self.read_ahead.remember(stripe, there_ns);
        }
    }

    fn write(&mut self, offset_bytes: u64, length_bytes: u64, way: &mut impl Way) -> u64 {
        self.totals.writes += 1;
        self.totals.written_bytes += length_bytes;
        let arrival_ns = self.now_ns + self.write_fixed_ns;
        let service_ns = self.profile.controller_ns(length_bytes);
        let accepted_ns = self.controller.serve(arrival_ns, service_ns);
        let here_ns = way.to_drive_ns(self.now_ns, accepted_ns, length_bytes);
        let moved_ns = self.path_pace.time_ns(length_bytes);
        self.note_written(offset_bytes);
        let stall_ns = self.write_stalls.draw_ns(&mut self.random);
        if let Some(in_place) = &mut self.in_place {
            let whole = Piece {
                offset_bytes,
                length_bytes,
            };
            // Nothing is kept on the way: data pass the data path while they arrive.
            let begin_ns = accepted_ns.max(here_ns.saturating_sub(moved_ns));
            let there_ns = self.path.reserve(self.now_ns, begin_ns, moved_ns);
            let (units, refresh, now_ns) = (&mut self.units, self.refresh, self.now_ns);
            let stretched_ns = |service_ns| refresh.stretched_ns(service_ns, now_ns);
            let data_ns = (accepted_ns, there_ns.max(here_ns));
            let written = in_place.write(whole, data_ns, units, &stretched_ns);
            self.totals.media_write_bytes += written.media_bytes;
            return written.done_ns + stall_ns;
        }
        let ready_ns = self.path.reserve(self.now_ns, here_ns, moved_ns);
        let in_order = self.continues_a_stream(offset_bytes, length_bytes);
        let media_bytes = self.media_write_bytes(offset_bytes, length_bytes, in_order);
        self.totals.media_write_bytes += media_bytes;
        let buffered_ns = self.drain.admit(ready_ns, media_bytes, in_order);
        buffered_ns + stall_ns
    }

    /// Bytes of a write in flash. A map unit that it only partly covers has to be read and written again as a whole,
    /// unless the write continues another one: the buffer then holds the rest of the unit, or soon will.
    fn media_write_bytes(&self, offset_bytes: u64, length_bytes: u64, in_order: bool) -> u64 {
        if in_order {
            return length_bytes;
        }
        let whole = Piece {
            offset_bytes,
            length_bytes,
        };
        let map_unit_bytes = self.profile.map_unit_bytes;
        let filled_bytes = whole.filled_bytes(map_unit_bytes);
        let partial_bytes = whole.touched_bytes(map_unit_bytes) - filled_bytes;
        filled_bytes + partial_bytes * self.profile.partial_write_per_mille / 1000
    }

    /// Whether another write ended where this one begins. The end of this one is remembered.
    fn continues_a_stream(&mut self, offset_bytes: u64, length_bytes: u64) -> bool {
        let slot = |at: u64| mix(at) as usize % WRITE_STREAMS;
        let end_bytes = offset_bytes + length_bytes;
        let continues = self.write_ends[slot(offset_bytes)] == offset_bytes;
        self.write_ends[slot(end_bytes)] = end_bytes;
        continues
    }

    fn region(&self, offset_bytes: u64) -> usize {
        let region_bytes = self.profile.capacity_bytes.div_ceil(REGIONS).max(1);
        (offset_bytes / region_bytes).min(REGIONS - 1) as usize
    }

    fn is_written(&self, offset_bytes: u64) -> bool {
        let region = self.region(offset_bytes);
        match &self.written {
            Some(written) => written[region / 64] >> (region % 64) & 1 == 1,
            None => true,
        }
    }

    fn note_written(&mut self, offset_bytes: u64) {
        let region = self.region(offset_bytes);
        if let Some(written) = &mut self.written {
            written[region / 64] |= 1 << (region % 64);
        }
    }

    /// Has the drive refresh its medium from now on, as it does after power-on, if its profile says so.
    pub fn power_on(&mut self) {
        self.refresh = Refresh::after_power_on(&self.profile, self.now_ns);
    }

    /// Empties the clean pool and fills the pseudo-SLC cache before the first command, as a long load above the steady
    /// rate would. The drive starts at a random moment of its period of collection, because drives are independent of each other.
    pub fn spend_pool(&mut self) {
        let phase = self.random.draw() >> 16;
        self.drain.spend_pool(phase);
    }

    /// The same, but all drives are about to collect: for comparing short runs without the influence of chance.
    pub fn spend_pool_in_step(&mut self) {
        self.drain.spend_pool(0);
    }

    /// The profile that the drive was made from.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The totals of what it has done.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Its write path: buffer, pool and programs, as of the last command.
    #[must_use]
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// Busy time of each station so far, including work booked ahead.
    #[must_use]
    pub fn busy_times(&self) -> BusyTimes {
        BusyTimes {
            controller_ns: self.controller.busy_ns(),
            units_ns: self.units.busy_ns(),
            path_ns: self.path.busy_ns(),
            to_host_ns: self.port.to_host_busy_ns(),
            to_drive_ns: self.port.to_drive_busy_ns(),
        }
    }

    /// Energy used until `until_ns`, in nanojoules: idle power, and a fixed energy per byte read and programmed.
    pub fn energy_nj(&mut self, until_ns: u64) -> u64 {
        self.drain.pass(until_ns);
        // Milliwatts times nanoseconds are picojoules.
        let idle_pj = u128::from(self.profile.idle_mw) * u128::from(until_ns);
        let read_pj =
            u128::from(self.profile.read_pj_per_byte) * u128::from(self.totals.media_read_bytes);
        let programmed_bytes = match self.in_place {
            Some(_) => self.totals.media_write_bytes,
            None => self.drain.programmed_bytes(),
        };
        let program_pj =
            u128::from(self.profile.program_pj_per_byte) * u128::from(programmed_bytes);
        u64::try_from((idle_pj + read_pj + program_pj) / 1000).unwrap_or(u64::MAX)
    }
}

fn drain_settings(profile: &Profile, state: State) -> DrainSettings {
    DrainSettings {
        buffer_bytes: profile.buffer_bytes,
        program_bytes_per_s: profile.program_bytes_per_s,
        amplification_per_mille: profile.amplification_per_mille,
        pool_bytes: profile.pool_bytes,
        episode_bytes: profile.episode_bytes(),
        program_ns: profile.program_ns,
        capacity_bytes: profile.capacity_bytes,
        burst_bytes: match state {
            State::Fresh | State::Filled => profile.burst_bytes,
            // No flash is left for it.
            State::Steady | State::Worn => 0,
        },
        burst_bytes_per_s: profile.burst_bytes_per_s,
        host_bytes_per_s_max: (state == State::Worn).then_some(profile.worn_write_bytes_per_s),
    }
}

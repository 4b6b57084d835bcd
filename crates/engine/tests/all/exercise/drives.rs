//! What drives do: fail, hang, refuse with any errno, lose blocks, carry out a part, answer late, and recover from that.

use super::Exercise;
use super::script::Script;
use crate::memory::Disk;
use engine::control::message::Message;
use engine::control::record::Record;
use engine::plan::StepKind;
use engine::units::MemberId;

/// The errnos that mean something to the engine, and some that do not.
const ERRNOS: [i32; 14] = [5, 4, 11, 16, 28, 61, 84, 95, 105, 110, 122, 125, 6, 22];

fn any(_: StepKind) -> bool {
    true
}

fn reads(kind: StepKind) -> bool {
    kind == StepKind::Read
}

fn writes(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::Write { .. } | StepKind::Zero { .. } | StepKind::Discard
    )
}

fn flushes(kind: StepKind) -> bool {
    matches!(kind, StepKind::Flush | StepKind::Write { fua: true })
}

impl Exercise {
    fn a_member(&self, script: &mut Script) -> usize {
        script.below(self.array.shared.borrow().disks.len() as u64) as usize
    }

    pub(super) fn happen_to_drive(&mut self, script: &mut Script) {
        let member = self.a_member(script);
        let errno = if script.one_in(8) {
            i32::from(script.byte())
        } else {
            script.pick(&ERRNOS)
        };
        let mut shared = self.array.shared.borrow_mut();
        let disk = &mut shared.disks[member];
        let first_member = usize::from(self.first_members);
        match script.below(12) {
            0 => disk.gone = true,
            1 => (disk.hung, disk.deaf) = (true, script.one_in(2)),
            2 => disk.hung = false,
            3..=6 => {
                let kinds: [fn(StepKind) -> bool; 4] = [reads, writes, flushes, any];
                let count = script.pick(&[1, 2, 6, usize::MAX]);
                disk.refusal = Some((script.pick(&kinds), errno, count));
                disk.tears = script.one_in(2);
            }
            7 => disk.busy = script.below(6) as usize,
            8..=9 => {
                let from = script.below(disk.bytes.len() as u64 / 512) * 512;
                disk.bad
                    .push((from, from + script.pick(&[512, 4096, 65_536])));
            }
            10 => recover(disk),
            _ if member >= first_member => {}
            _ => {
                drop(shared);
                let member = MemberId(member as u8);
                let message = match script.below(3) {
                    0 => Message::CacheTurnedVolatile(member),
                    1 => Message::DiscardRefused(member),
                    _ if member.0.is_multiple_of(2) => {
                        Message::NotWritable([member].into_iter().collect())
                    }
                    _ => Message::AboutToFail([member].into_iter().collect()),
                };
                self.send(0, message);
            }
        }
    }

    /// Lets something happen to records on their way to the drives.
    pub(super) fn happen_to_records(&mut self, script: &mut Script) {
        let member = self.a_member(script);
        let is_durable = self.controller().is_durable();
        let mut shared = self.array.shared.borrow_mut();
        match script.below(6) {
            0 => shared.hold_persists = true,
            1 | 2 => {
                drop(shared);
                self.array.release_persists();
            }
            3 => shared.disks[member].refuses_records = Some(script.pick(&ERRNOS)),
            4 => shared.latency_ns = script.pick(&[0, 50_000, 5_000_000]),
            // A record that is on its way can be expressed for all members or for none.
            _ if !is_durable => {}
            _ => {
                let refuses: [fn(&Record, &Record) -> bool; 4] =
                    [|_, _| false, is_clean, names_failure, |_, _| true];
                shared.refuses = script.pick(&refuses);
            }
        }
    }

    /// From here on drives carry out every command.
    pub(super) fn heal_drives(&mut self) {
        {
            let mut shared = self.array.shared.borrow_mut();
            shared.disks.iter_mut().for_each(recover);
            shared.latency_ns = shared.latency_ns.min(50_000);
        }
        self.send(0, Message::NotWritable([].into_iter().collect()));
        self.array.release_persists();
    }

    /// Whether a drive still has a command of some shard, one that the shard has abandoned included.
    pub(super) fn is_waited_for(&self, member: MemberId) -> bool {
        let mut shards = self.array.shards.iter();
        shards.any(|shard| shard.world.waits_for(member))
    }
}

/// Blocks that are lost stay lost.
fn recover(disk: &mut Disk) {
    disk.hung = false;
    disk.gone = false;
    disk.busy = 0;
    disk.refusal = None;
    disk.tears = false;
    disk.refuses_records = None;
}

/// The metadata cannot say that a volume is clean again.
fn is_clean(before: &Record, now: &Record) -> bool {
    let mut volumes = before.volumes.iter().zip(&now.volumes);
    volumes.any(|(before, now)| before.dirty && !now.dirty)
}

/// The metadata cannot say that a drive is not active any more.
fn names_failure(before: &Record, now: &Record) -> bool {
    now.active().count() < before.active().count()
}

//! Making the record durable: one update at a time, and never on all members at once.
//!
//! An update goes to one half of the live members, and when it is durable there, to the rest. So at any instant
//! one half holds an intact record, old or new. The next update starts when the last one has reached every member
//! that is still alive. Drives that join are written before both halves: a drive that a record names but that
//! carries no record itself would count as missing.

use crate::control::record::Record;
use crate::units::{MemberId, MemberSet, Nanos};

#[derive(Debug)]
struct Update {
    version: u64,
    /// Members that are being written.
    waiting: MemberSet,
    /// Members that are written next, and those after them.
    then: [MemberSet; 2],
    /// The update is durable on some member.
    reached: bool,
    /// The metadata cannot express it.
    refused: bool,
    since: Nanos,
}

/// A record that the metadata cannot express.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The record before it, which the metadata could express.
    pub before: Record,
    /// The record that could not be expressed.
    pub refused: Record,
}

/// Versions of the record and how far they have come. See the module's prose.
#[derive(Debug)]
pub(crate) struct Updater {
    version: u64,
    durable: u64,
    completed: u64,
    snapshot: Record,
    /// The snapshot is durable on all live members.
    is_held: bool,
    /// The snapshot before the update under way, and whether all live members had it.
    before: Option<(Record, bool)>,
    update: Option<Update>,
    /// Members in service that failed before they received the latest record that others have.
    lacking: MemberSet,
    /// The last version that the metadata could not express. It is not tried again.
    refused: Option<u64>,
    refusal: Option<Refusal>,
}

impl Updater {
    pub fn new(record: Record) -> Updater {
        Updater {
            version: 0,
            durable: 0,
            completed: 0,
            snapshot: record,
            is_held: true,
            before: None,
            update: None,
            lacking: MemberSet::default(),
            refused: None,
            refusal: None,
        }
    }

    /// Notes that the record differs from what is durable.
    pub fn changed(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Whether all changes up to `version` are durable on every live member.
    pub fn has(&self, version: u64) -> bool {
        self.durable >= version
    }

    /// Counts all changes as durable, because nothing is written in this session.
    pub fn skip(&mut self) {
        self.durable = self.version;
    }

    pub fn is_durable(&self) -> bool {
        self.durable == self.version && self.update.is_none()
    }

    /// Updates that have become durable on every live member, one after the other, since the start.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    pub fn snapshot(&self) -> &Record {
        &self.snapshot
    }

    /// Members in service that failed before they received the latest record that others have. One more update
    /// would leave their record two generations behind.
    pub fn lacking(&self) -> MemberSet {
        self.lacking
    }

    /// Whether the metadata cannot express the latest version, so that it will never become durable.
    pub fn is_refused(&self) -> bool {
        self.refused == Some(self.version) && self.durable != self.version
    }

    /// A record that could not be expressed; each is returned once.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// To be called when changes that could not be expressed have been taken back. If `record` is what all live
    /// members have, nothing has to be written. Returns whether that is so.
    pub fn taken_back(&mut self, record: &Record) -> bool {
        let is_held = self.is_held && self.update.is_none() && *record == self.snapshot;
        if is_held {
            self.durable = self.version;
        }
        is_held
    }

    /// Starts the next update if one is wanted and none is under way. Returns the members to write first.
    pub fn run(&mut self, record: &mut Record, live: MemberSet, now: Nanos) -> Option<MemberSet> {
        let is_done = self.durable == self.version || self.is_refused();
        if self.update.is_some() || is_done || live.is_empty() {
            return None;
        }
        record.generation += 1;
        self.lacking.0 |= record.active().0 & !live.0;
        let known = self.snapshot.active();
        let before = core::mem::replace(&mut self.snapshot, record.clone());
        self.before = Some((before, core::mem::take(&mut self.is_held)));
        let joins = MemberSet(live.0 & !known.0);
        let others = MemberSet(live.0 & known.0);
        let half: MemberSet = others
            .iter()
            .take(others.count().div_ceil(2) as usize)
            .collect();
        let rest = MemberSet(others.0 & !half.0);
        let [waiting, then @ ..] = [joins, half, rest];
        self.update = Some(Update {
            version: self.version,
            waiting,
            then,
            reached: false,
            refused: false,
            since: now,
        });
        self.settle(now).or(Some(waiting))
    }

    /// Notes that the update is durable on a member. Returns the members to write next.
    pub fn answered(&mut self, member: MemberId, now: Nanos) -> Option<MemberSet> {
        let update = self.update.as_mut()?;
        update.reached |= update.waiting.has(member);
        update.waiting.remove(member);
        self.settle(now)
    }

    /// Notes that the record cannot be expressed for a member, and so for none. The update ends when no member
    /// that is being written is left to answer.
    pub fn not_expressible(&mut self, member: MemberId, now: Nanos) {
        if let Some(update) = self.update.as_mut().filter(|by| by.waiting.has(member)) {
            update.refused = true;
            update.then = [MemberSet(0); 2];
            update.waiting.remove(member);
            self.settle(now);
        }
    }

    /// Notes that a member will never answer and is not written any more. Returns the members to write next.
    pub fn lost(&mut self, member: MemberId, now: Nanos) -> Option<MemberSet> {
        let update = self.update.as_mut()?;
        if update.waiting.has(member) || update.then.iter().any(|set| set.has(member)) {
            self.lacking.insert(member);
        }
        update.then.iter_mut().for_each(|set| set.remove(member));
        update.waiting.remove(member);
        self.settle(now)
    }

    fn settle(&mut self, now: Nanos) -> Option<MemberSet> {
        let update = self.update.as_mut()?;
        if !update.waiting.is_empty() {
            return None;
        }
        while update.then.iter().any(|set| !set.is_empty()) {
            let [next, last] = update.then;
            update.waiting = next;
            update.then = [last, MemberSet(0)];
            update.since = now;
            if !next.is_empty() {
                return Some(next);
            }
        }
        if update.refused {
            self.refuse();
            return None;
        }
        // An update that reached no member is not durable, although no member is left to wait for.
        if update.reached {
            self.durable = update.version;
            self.is_held = true;
            self.completed += 1;
        }
        self.update = None;
        None
    }

    /// When the writes under way began. The caller may correct it.
    pub fn began(&mut self) -> Option<&mut Nanos> {
        self.update.as_mut().map(|update| &mut update.since)
    }

    /// Ends an update that could not be expressed. The snapshot becomes what it was before, so the next update
    /// starts from that.
    fn refuse(&mut self) {
        let update = self.update.take();
        let update = update.expect("an update is under way");
        let before = self.before.take();
        let (before, is_held) = before.expect("an update keeps the record before it");
        assert!(
            !update.reached,
            "a record is expressed for all members or for none"
        );
        let refused = core::mem::replace(&mut self.snapshot, before.clone());
        self.is_held = is_held;
        self.refused = Some(update.version);
        self.refusal = Some(Refusal { before, refused });
    }

    /// Members whose write of the record has been under way for longer than `deadline`.
    pub fn overdue(&self, now: Nanos, deadline: Nanos) -> MemberSet {
        match &self.update {
            Some(update) if now.since(update.since) > deadline => update.waiting,
            _ => MemberSet::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::record::{MemberRecord, MemberState};
    use alloc::vec::Vec;

    fn drive(state: MemberState) -> MemberRecord {
        MemberRecord {
            state,
            ..MemberRecord::ABSENT
        }
    }

    /// A record of five members.
    fn record() -> Record {
        Record {
            generation: 7,
            members: [MemberState::Active; 5].map(drive).into(),
            volumes: Vec::new(),
            bad_blocks: Default::default(),
        }
    }

    #[test]
    fn one_half_is_durable_before_the_rest_is_touched() {
        let mut updater = Updater::new(record());
        let mut record = record();
        let version = updater.changed();
        let first = updater
            .run(&mut record, MemberSet(0b1_1111), Nanos(0))
            .unwrap();
        assert_eq!(first, MemberSet(0b111));
        assert_eq!(record.generation, 8);
        assert_eq!(updater.answered(MemberId(0), Nanos(1)), None);
        assert_eq!(updater.answered(MemberId(2), Nanos(1)), None);
        assert_eq!(
            updater.answered(MemberId(1), Nanos(1)),
            Some(MemberSet(0b1_1000))
        );
        assert!(!updater.has(version));
        assert_eq!(updater.answered(MemberId(3), Nanos(1)), None);
        assert_eq!(updater.lost(MemberId(4), Nanos(1)), None);
        assert!(updater.has(version) && updater.is_durable());
    }

    #[test]
    fn a_change_during_an_update_needs_another_update() {
        let mut updater = Updater::new(record());
        let mut record = record();
        updater.changed();
        updater.run(&mut record, MemberSet(0b1), Nanos(0)).unwrap();
        let second = updater.changed();
        assert_eq!(
            updater.run(&mut record, MemberSet(0b1), Nanos(0)),
            None,
            "one at a time"
        );
        updater.answered(MemberId(0), Nanos(0));
        assert!(!updater.has(second) && !updater.is_durable());
        assert!(updater.run(&mut record, MemberSet(0b1), Nanos(0)).is_some());
        updater.answered(MemberId(0), Nanos(0));
        assert!(updater.has(second));
    }

    #[test]
    fn a_member_lost_while_it_waits_its_turn_is_left_out() {
        let mut updater = Updater::new(record());
        updater.changed();
        updater
            .run(&mut record(), MemberSet(0b11), Nanos(0))
            .unwrap();
        assert_eq!(updater.lost(MemberId(1), Nanos(0)), None);
        assert_eq!(updater.answered(MemberId(0), Nanos(0)), None);
        assert!(updater.is_durable());
    }

    #[test]
    fn what_no_member_has_is_not_durable() {
        let mut updater = Updater::new(record());
        let version = updater.changed();
        let mut record = record();
        updater.run(&mut record, MemberSet(0b1), Nanos(0)).unwrap();
        assert_eq!(updater.lost(MemberId(0), Nanos(0)), None);
        assert!(!updater.has(version) && !updater.is_durable());
        assert_eq!(updater.run(&mut record, MemberSet(0), Nanos(0)), None);
        assert!(
            updater
                .run(&mut record, MemberSet(0b10), Nanos(0))
                .is_some()
        );
        updater.answered(MemberId(1), Nanos(0));
        assert!(updater.has(version));
    }

    #[test]
    fn a_drive_that_joins_is_written_first() {
        let mut record = record();
        record.members.truncate(4);
        record.members.push(drive(MemberState::Spare));
        let mut updater = Updater::new(record.clone());
        record.members[0].state = MemberState::Absent;
        record.members[4].state = MemberState::Active;
        updater.changed();
        let live = record.active();
        let first = updater.run(&mut record, live, Nanos(0));
        assert_eq!(first, Some(MemberSet(0b1_0000)));
        let half = updater.answered(MemberId(4), Nanos(0));
        assert_eq!(half, Some(MemberSet(0b0110)));
        assert_eq!(updater.answered(MemberId(1), Nanos(0)), None);
        let rest = updater.answered(MemberId(2), Nanos(0));
        assert_eq!(rest, Some(MemberSet(0b1000)));
        assert_eq!(updater.answered(MemberId(3), Nanos(0)), None);
        assert!(updater.is_durable());
    }

    #[test]
    fn what_cannot_be_expressed_is_not_durable_and_not_tried_again() {
        let mut updater = Updater::new(record());
        let mut record = record();
        let version = updater.changed();
        record.members[4].state = MemberState::Failed;
        let live = MemberSet(0b1111);
        let first = updater.run(&mut record, live, Nanos(0)).unwrap();
        assert_eq!(first, MemberSet(0b11));
        updater.not_expressible(MemberId(3), Nanos(0));
        updater.not_expressible(MemberId(0), Nanos(0));
        assert!(!updater.is_refused(), "a member has not answered");
        // That member is lost before it answers.
        assert_eq!(updater.lost(MemberId(1), Nanos(0)), None);
        assert!(updater.is_refused() && !updater.has(version) && !updater.is_durable());
        let refusal = updater.take_refusal().unwrap();
        assert!(updater.take_refusal().is_none());
        assert_eq!(refusal.refused, record);
        assert_eq!(refusal.before.generation, 7);
        assert_eq!(updater.snapshot(), &refusal.before);
        record.generation = 7;
        assert_eq!(updater.run(&mut record, live, Nanos(1)), None);
        assert!(!updater.taken_back(&record) && updater.taken_back(&refusal.before));
        assert!(updater.is_durable());
        // The next change is tried, under the same generation.
        let next = updater.changed();
        updater.run(&mut record, live, Nanos(2)).unwrap();
        assert_eq!(record.generation, 8);
        for member in 0..4 {
            updater.answered(MemberId(member), Nanos(3));
        }
        assert!(updater.has(next));
    }

    #[test]
    fn silence_is_noticed() {
        let mut updater = Updater::new(record());
        updater.changed();
        updater
            .run(&mut record(), MemberSet(0b1), Nanos(5))
            .unwrap();
        assert!(updater.overdue(Nanos(14), Nanos(10)).is_empty());
        assert_eq!(updater.overdue(Nanos(16), Nanos(10)), MemberSet(0b1));
    }
}

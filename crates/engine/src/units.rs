//! Names for the small integers that cross module borders, so that a slot is never taken for a member.
//!
//! Offsets and lengths are plain `u64`/`u32` byte counts and say so in their names (`offset_bytes`,
//! `length_bytes`); what is counted in anything but bytes is named after its unit.

/// A point in time or a duration in nanoseconds on the world's own monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);
    /// One millisecond.
    pub const MILLISECOND: Nanos = Nanos(1_000_000);

    /// The point `duration` after `self`; stays at the end of time instead of wrapping.
    #[must_use]
    pub fn after(self, duration: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(duration.0))
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A drive that the container holds: index into the container's member table, spares included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct MemberId(pub u8);

/// A position in one volume's layout, `0..geometry.members`. A slot is served by at most one member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Slot(pub u8);

/// A volume of the container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct VolumeId(pub u8);

/// One core with one ring and one engine instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ShardId(pub u8);

/// Memory that belongs to the world, by an address only the world can turn into bytes.
///
/// Arithmetic inside one allocation is allowed ([`Buffer::at`]); the engine never looks at payload.
/// All buffers are stable: nobody else changes them between submission and completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Buffer(pub u64);

impl Buffer {
    /// The address `offset_bytes` further into the same allocation.
    #[must_use]
    #[inline]
    pub fn at(self, offset_bytes: u32) -> Buffer {
        Buffer(self.0 + u64::from(offset_bytes))
    }
}

/// A set of slots as a bit mask, bit `s` for slot `s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct SlotSet(pub u64);

impl SlotSet {
    /// The set of all slots below `count`.
    #[must_use]
    pub fn all(count: u8) -> SlotSet {
        if count >= 64 {
            SlotSet(u64::MAX)
        } else {
            SlotSet((1u64 << count) - 1)
        }
    }

    /// Whether `slot` is in the set.
    #[must_use]
    #[inline]
    pub fn has(self, slot: Slot) -> bool {
        self.0 >> slot.0 & 1 == 1
    }

    /// The set with `slot` added.
    #[must_use]
    #[inline]
    pub fn with(self, slot: Slot) -> SlotSet {
        SlotSet(self.0 | 1 << slot.0)
    }

    /// The set with `slot` left out.
    #[must_use]
    #[inline]
    pub fn without(self, slot: Slot) -> SlotSet {
        SlotSet(self.0 & !(1 << slot.0))
    }

    /// How many slots are in the set.
    #[must_use]
    #[inline]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The slots in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Slot> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            (rest != 0).then(|| {
                let slot = rest.trailing_zeros() as u8;
                rest &= rest - 1;
                Slot(slot)
            })
        })
    }
}

/// A set of members as a bit mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct MemberSet(pub u128);

impl MemberSet {
    /// Whether `member` is in the set.
    #[must_use]
    #[inline]
    pub fn has(self, member: MemberId) -> bool {
        self.0 >> member.0 & 1 == 1
    }

    /// Adds `member`.
    #[inline]
    pub fn insert(&mut self, member: MemberId) {
        self.0 |= 1 << member.0;
    }

    /// Takes `member` out.
    #[inline]
    pub fn remove(&mut self, member: MemberId) {
        self.0 &= !(1 << member.0);
    }

    /// Whether nothing is in the set.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `self` is in `other`.
    #[must_use]
    #[inline]
    pub fn within(self, other: MemberSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many members are in the set.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = MemberId> {
        (0..128)
            .filter(move |bit| self.0 >> bit & 1 == 1)
            .map(|bit| MemberId(bit as u8))
    }
}

impl FromIterator<MemberId> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberId>>(members: I) -> MemberSet {
        let mut set = MemberSet::default();
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

//! The commands of tags, and how a tag is named on the ring and in the engine.

use engine::units::Buffer;

/// Names a tag of one of the shard's queues: the queue's place in the shard, and the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagName {
    /// The queue's place.
    pub place: u16,
    /// The tag in the queue.
    pub tag: u16,
}

impl TagName {
    /// As the name of an operation of the ring, and of a request of the engine.
    #[inline]
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.place) << 16 | u64::from(self.tag)
    }

    /// Reverses [`TagName::number`].
    #[inline]
    #[must_use]
    pub fn of(number: u64) -> TagName {
        TagName {
            place: (number >> 16) as u16,
            tag: number as u16,
        }
    }
}

/// A command to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The tag.
    pub name: TagName,
    /// The answer to its request; `None` if it has had none yet.
    pub answer: Option<i32>,
    /// Where a write's data will lie, and where the data of the read that is answered lies.
    pub buffer: Buffer,
    /// The length of that memory.
    pub length_bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_number() {
        let name = TagName {
            place: 0xabcd,
            tag: 0x1234,
        };
        assert_eq!(TagName::of(name.number()), name);
        // An operation of a port has 56 bits, and a request's tag more.
        assert!(name.number() < 1 << 56);
    }
}

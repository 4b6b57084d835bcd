//! Identifiers that are passed to the ring and the engine, and come back with their answers.

/// Identifies a connection. The generation distinguishes it from earlier ones with the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionName {
    pub index: u16,
    pub generation: u32,
}

/// Identifies an operation that the port starts on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingOperation {
    /// Accept from the listener with this number.
    Accept(u16),
    Receive(ConnectionName),
    Send(ConnectionName),
    /// Close a socket; the completion is ignored.
    Close,
}

const KIND_SHIFT: u32 = 48;
const INDEX_SHIFT: u32 = 32;
const SLOT_SHIFT: u32 = 32;
const SLOT_MASK: u16 = 0xFFF;
const _: () = assert!(
    super::requests::REQUESTS_MAX <= SLOT_MASK as usize + 1,
    "a tag has room for each slot of a connection"
);
const CONNECTION_SHIFT: u32 = 44;
const ACCEPT: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;
const CLOSE: u64 = 4;

impl RingOperation {
    /// As a number of at most 56 bits, which the completion returns.
    #[inline]
    pub fn user_data(self) -> u64 {
        let named = |kind: u64, name: ConnectionName| {
            kind << KIND_SHIFT | u64::from(name.index) << INDEX_SHIFT | u64::from(name.generation)
        };
        match self {
            RingOperation::Accept(number) => ACCEPT << KIND_SHIFT | u64::from(number),
            RingOperation::Receive(name) => named(RECEIVE, name),
            RingOperation::Send(name) => named(SEND, name),
            RingOperation::Close => CLOSE << KIND_SHIFT,
        }
    }

    #[inline]
    pub fn from_user_data(user_data: u64) -> Option<RingOperation> {
        let name = ConnectionName {
            index: (user_data >> INDEX_SHIFT) as u16,
            generation: user_data as u32,
        };
        match user_data >> KIND_SHIFT {
            ACCEPT => Some(RingOperation::Accept(user_data as u16)),
            RECEIVE => Some(RingOperation::Receive(name)),
            SEND => Some(RingOperation::Send(name)),
            CLOSE => Some(RingOperation::Close),
            _ => None,
        }
    }
}

/// A request's tag in the engine, of at most [`crate::ports::TAG_BITS`] bits: connection, slot, and the slot's
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestTag(pub u64);

impl RequestTag {
    #[inline]
    pub fn new(connection: u16, slot: u16, generation: u32) -> RequestTag {
        RequestTag(
            u64::from(connection) << CONNECTION_SHIFT
                | u64::from(slot) << SLOT_SHIFT
                | u64::from(generation),
        )
    }

    #[inline]
    pub fn connection(self) -> u16 {
        (self.0 >> CONNECTION_SHIFT) as u16
    }

    #[inline]
    pub fn slot(self) -> u16 {
        (self.0 >> SLOT_SHIFT) as u16 & SLOT_MASK
    }

    #[inline]
    pub fn generation(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let name = ConnectionName {
            index: u16::MAX,
            generation: u32::MAX,
        };
        for operation in [
            RingOperation::Accept(u16::MAX),
            RingOperation::Receive(name),
            RingOperation::Send(name),
            RingOperation::Close,
        ] {
            let user_data = operation.user_data();
            assert!(user_data < 1 << 56);
            assert_eq!(RingOperation::from_user_data(user_data), Some(operation));
        }
        assert_eq!(RingOperation::from_user_data(0), None);
        let tag = RequestTag::new(65535, 127, u32::MAX - 1);
        assert!(tag.0 < 1 << crate::ports::TAG_BITS);
        assert_eq!(
            (tag.connection(), tag.slot(), tag.generation()),
            (65535, 127, u32::MAX - 1)
        );
    }
}

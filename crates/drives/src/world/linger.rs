//! Polls for messages for a moment before the shard sleeps.
//!
//! If drives are fast, another shard answers a forwarded piece within microseconds, while a wake-up by the kernel takes
//! as long as hundreds of such answers. So a shard that waits for such an answer, or that has just received a piece
//! from another shard, polls for a while even if the operator chose interrupts. How long is learnt: with slow drives
//! polling finds nothing, and the time shrinks until it no longer matters.

use engine::control::message::Message;
use engine::units::Nanos;

/// Polling longer than a sleep and a wake-up take would be worse than sleeping.
const PATIENCE_MAX: Nanos = Nanos(20_000);
/// The time after polling in vain: short compared with a sleep, but long enough for an answer that is about to come.
const PATIENCE_MIN: Nanos = Nanos(1_000);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Linger {
    /// Pieces of requests that other shards have not answered yet.
    owed: u32,
    /// Another shard has forwarded a piece since polling last found nothing.
    asked: bool,
    patience: Nanos,
}

impl Linger {
    pub fn new() -> Linger {
        Linger {
            owed: 0,
            asked: false,
            patience: PATIENCE_MAX,
        }
    }

    /// Notes a message to another shard.
    #[inline]
    pub fn sent(&mut self, message: &Message) {
        self.owed += u32::from(matches!(message, Message::Forward(_)));
    }

    /// Notes a message from another shard.
    #[inline]
    pub fn received(&mut self, message: &Message) {
        match message {
            Message::Forward(_) => self.asked = true,
            Message::ForwardDone { .. } => self.owed = self.owed.saturating_sub(1),
            _ => {}
        }
    }

    /// How long to poll before this sleep; `None` for not at all.
    pub fn patience(&self) -> Option<Nanos> {
        (self.owed > 0 || self.asked).then_some(self.patience)
    }

    /// Learns whether polling found something.
    pub fn learn(&mut self, found: bool) {
        if found {
            self.patience = PATIENCE_MAX;
        } else {
            self.patience = Nanos(self.patience.0 / 2).max(PATIENCE_MIN);
            self.asked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::control::message::Forward;
    use engine::request::Operation;
    use engine::units::{Buffer, ShardId, VolumeId};

    fn forward() -> Message {
        Message::Forward(Forward {
            from: ShardId(1),
            ticket: 0,
            operation: Operation::Write,
            fua: false,
            repairs: false,
            tried: None,
            volume: VolumeId(0),
            offset_bytes: 0,
            length_bytes: 4096,
            buffer: Buffer(0),
        })
    }

    #[test]
    fn only_who_has_to_do_with_others_looks() {
        let mut linger = Linger::new();
        assert_eq!(linger.patience(), None);
        linger.sent(&Message::WriteIntent(VolumeId(0)));
        linger.received(&Message::WriteIntent(VolumeId(0)));
        assert_eq!(linger.patience(), None);
        linger.sent(&forward());
        assert_eq!(linger.patience(), Some(PATIENCE_MAX));
        let result = Ok(());
        linger.received(&Message::ForwardDone { ticket: 0, result });
        assert_eq!(linger.patience(), None);
    }

    #[test]
    fn who_was_asked_looks_once_in_vain_and_then_sleeps() {
        let mut linger = Linger::new();
        linger.received(&forward());
        assert!(linger.patience().is_some());
        linger.learn(false);
        assert_eq!(linger.patience(), None);
    }

    #[test]
    fn looking_in_vain_becomes_short_and_success_makes_it_long_again() {
        let mut linger = Linger::new();
        linger.sent(&forward());
        for _ in 0..20 {
            linger.learn(false);
        }
        assert_eq!(linger.patience(), Some(PATIENCE_MIN));
        linger.learn(true);
        assert_eq!(linger.patience(), Some(PATIENCE_MAX));
    }
}

//! The other shards, and what this turn has for them.

use super::linger::Linger;
use crate::mailbox::{Mail, MailSender};
use engine::control::message::Message;
use engine::limits::REAP_MAX;
use engine::units::ShardId;
use std::collections::VecDeque;

/// Another shard, and the letters that leave at the end of the turn.
pub(super) struct Peer {
    mailbox: MailSender,
    pub letters: VecDeque<Mail>,
}

/// See the module's prose.
pub(super) struct Peers {
    pub all: Vec<Peer>,
    pub linger: Linger,
}

impl Peers {
    pub fn new(mailboxes: Vec<MailSender>) -> Peers {
        let peer = |mailbox| Peer {
            mailbox,
            letters: VecDeque::with_capacity(2 * REAP_MAX),
        };
        Peers {
            all: mailboxes.into_iter().map(peer).collect(),
            linger: Linger::new(),
        }
    }

    /// Puts a letter to the others of this turn.
    #[inline]
    pub fn send(&mut self, to: ShardId, message: Message) {
        self.linger.sent(&message);
        let peer = &mut self.all[usize::from(to.0)];
        peer.letters.push_back(Mail::Engine(message));
    }

    /// Delivers the letters of this turn.
    #[inline]
    pub fn deliver(&mut self) {
        for peer in &mut self.all {
            if !peer.letters.is_empty() {
                peer.mailbox.send_all(&mut peer.letters);
            }
        }
    }
}

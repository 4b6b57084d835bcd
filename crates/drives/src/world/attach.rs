//! Which drive serves which member.
//!
//! Every attachment keeps its own slot and its own entry in the ring's file table until its last I/O is answered. So
//! the rest of a partly done write can never reach the drive that replaced this one.
//!
//! A drive is shared by the attachments of all shards and by threads that check it, and its descriptor is closed with
//! the last of these. So after a detach ([`Mail::Detach`]) a drive without I/O in flight is closed at once, and a drive
//! that hangs when the kernel has answered. Until then the kernel keeps the node name of a drive that was pulled out.

use super::RingWorld;
use crate::drive::{Backing, Drive, IoPath};
use crate::mailbox::Mail;
use crate::memory::Ram;
use crate::port::Port;
use crate::ring::Ring;
use crate::transfer::Way;
use engine::control::message::Message;
use engine::units::{MemberId, ShardId};
use std::sync::Arc;

/// How I/O to a member is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Serving {
    /// Not attached.
    Absent,
    /// A null member without a pace.
    Null { size_bytes: u64 },
    /// Any other drive, by the index of its attachment.
    Drive(u16),
}

/// A drive in use.
#[derive(Debug)]
pub(super) struct Attachment {
    pub drive: Arc<Drive>,
    /// The member that the drive serves, or has served.
    pub member: MemberId,
    /// How I/O reaches the drive, for files and block devices.
    pub way: Option<Way>,
    /// I/O not answered yet, plus one while the file's size is to be checked.
    in_flight: u32,
    detached: bool,
    /// Whether answers count only after the file's size has been checked.
    guarded: bool,
    /// Whether there are answers that wait for that check.
    suspected: bool,
}

/// All drives of a world.
#[derive(Debug)]
pub(super) struct Attachments {
    /// One entry for every possible [`MemberId`], so that the look-up needs no bounds check.
    members: [Serving; 256],
    /// The attachment of every member, including null members that are served without it.
    index_of: [Option<u16>; 256],
    slots: Vec<Option<Attachment>>,
    /// Attachments with answers that wait for the check of the size.
    suspects: Vec<u16>,
    any_ram: bool,
}

impl Attachments {
    pub fn new() -> Attachments {
        Attachments {
            members: [Serving::Absent; 256],
            index_of: [None; 256],
            slots: Vec::with_capacity(256),
            suspects: Vec::with_capacity(256),
            any_ram: false,
        }
    }

    #[inline]
    pub fn serving(&self, member: MemberId) -> Serving {
        self.members[usize::from(member.0)]
    }

    /// The index of the member's attachment.
    pub fn index_of(&self, member: MemberId) -> Option<u16> {
        self.index_of[usize::from(member.0)]
    }

    /// An attachment that has I/O in flight or serves a member.
    #[inline]
    pub fn at(&self, index: u16) -> &Attachment {
        self.slots[usize::from(index)]
            .as_ref()
            .expect("an attachment stays while it serves or has I/O in flight")
    }

    /// Whether there is or was a RAM member.
    #[inline]
    pub fn any_ram(&self) -> bool {
        self.any_ram
    }

    /// The RAM member of an attachment in use.
    ///
    /// # Panics
    ///
    /// If it is not a RAM member.
    pub fn ram(&self, index: u16) -> &Ram {
        match self.at(index).drive.backing() {
            Backing::Ram(ram) => ram,
            other => panic!("attachment {index} is no RAM member but {other:?}"),
        }
    }

    pub fn attach(&mut self, member: MemberId, drive: Arc<Drive>, ring: &mut Ring) {
        self.detach(member, ring);
        let index = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
        self.any_ram |= matches!(drive.backing(), Backing::Ram(_));
        let plain_null = matches!(drive.backing(), Backing::Null) && drive.pace().is_none();
        self.members[usize::from(member.0)] = if plain_null {
            Serving::Null {
                size_bytes: drive.size_bytes(),
            }
        } else {
            Serving::Drive(index as u16)
        };
        self.index_of[usize::from(member.0)] = Some(index as u16);
        let way = drive.fd().map(|fd| match drive.io_path() {
            IoPath::Ring => Way::Ring(ring.open_file(fd)),
            IoPath::Inline => Way::Inline,
            IoPath::Helpers => Way::Helpers,
        });
        self.slots[index] = Some(Attachment {
            guarded: drive.is_guarded(),
            drive,
            member,
            way,
            in_flight: 0,
            detached: false,
            suspected: false,
        });
    }

    pub fn detach(&mut self, member: MemberId, ring: &mut Ring) {
        self.members[usize::from(member.0)] = Serving::Absent;
        if let Some(index) = self.index_of[usize::from(member.0)].take() {
            self.at_mut(index).detached = true;
            self.close_if_done(index, ring);
        }
    }

    /// Counts an I/O to the attachment that begins.
    #[inline]
    pub fn started(&mut self, index: u16) {
        self.at_mut(index).in_flight += 1;
    }

    /// Counts an I/O to the attachment that has been answered.
    #[inline]
    pub fn ended(&mut self, index: u16, ring: &mut Ring) {
        let attachment = self.at_mut(index);
        attachment.in_flight -= 1;
        if attachment.detached {
            self.close_if_done(index, ring);
        }
    }

    /// Takes a successful answer of the attachment. Returns true if it counts only after the check that the drive [is
    /// alive](Drive::is_alive); the attachment is kept until then.
    #[inline]
    pub fn suspect(&mut self, index: u16) -> bool {
        let attachment = self.at_mut(index);
        if attachment.guarded && !attachment.suspected {
            attachment.suspected = true;
            attachment.in_flight += 1;
            self.suspects.push(index);
            return true;
        }
        attachment.guarded
    }

    /// An attachment whose drive is to be checked. The caller must call [`Attachments::ended`] after the check.
    #[inline]
    pub fn next_suspect(&mut self) -> Option<u16> {
        let index = self.suspects.pop()?;
        self.at_mut(index).suspected = false;
        Some(index)
    }

    fn close_if_done(&mut self, index: u16, ring: &mut Ring) {
        let attachment = self.at_mut(index);
        if attachment.in_flight == 0 {
            if let Some(Way::Ring(file)) = attachment.way {
                ring.close_file(file);
            }
            self.slots[usize::from(index)] = None;
        }
    }

    #[inline]
    fn at_mut(&mut self, index: u16) -> &mut Attachment {
        self.slots[usize::from(index)]
            .as_mut()
            .expect("an attachment stays while it serves or has I/O in flight")
    }
}

impl<P: Port> RingWorld<P> {
    /// Serves `member` from `drive` from now on, instead of its previous drive.
    pub fn attach(&mut self, member: MemberId, drive: Arc<Drive>) {
        self.finish_ram();
        self.attachments.attach(member, drive, &mut self.ring);
    }

    /// Reports once to the controller that a member cannot discard.
    #[cold]
    pub(super) fn discard_refused(&mut self, attachment: u16) {
        let attachment = self.attachments.at(attachment);
        if attachment.drive.refuse_discards() {
            let message = Message::DiscardRefused(attachment.member);
            self.mailbox.post(ShardId(0), Mail::Engine(message));
        }
    }

    /// Stops serving `member`.
    pub fn detach(&mut self, member: MemberId) {
        self.finish_ram();
        self.attachments.detach(member, &mut self.ring);
    }
}

impl<P: Port> Drop for RingWorld<P> {
    fn drop(&mut self) {
        // While a hanging drive has commands in flight, the kernel keeps the ring and every file in its table, even
        // after the process has ended. Closing the files here lets the next process use the other drives.
        for member in 0..=u8::MAX {
            self.detach(MemberId(member));
        }
    }
}

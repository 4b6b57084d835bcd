//! What the kernel knows of the block devices: which memory the tags offer, and which requests are not answered.

use super::CONNECTIONS;
use super::memory::block;
use crate::history::Ask;
use engine::request::Operation;
use engine::units::Buffer;
use exports::ublk::Descriptor;
use std::collections::BTreeSet;

/// Names a tag: its queue's place in the kernel, and the tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagAt {
    queue: usize,
    /// The tag in the queue.
    pub tag: u16,
}

impl TagAt {
    /// A tag of the queue of a volume and a client.
    #[must_use]
    pub fn new(volume: u8, connection: u8, tag: u16) -> TagAt {
        let queue = usize::from(volume) * usize::from(CONNECTIONS) + usize::from(connection);
        TagAt { queue, tag }
    }
}

/// A request, and its number.
pub type Numbered = (u32, Ask);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No process serves the tag.
    Unserved,
    /// The tag has a command, which offers this memory.
    Offers(Buffer),
    /// The process has the tag's request.
    Given,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    state: State,
    /// The request that is not answered. A tag that is unserved may have one: it comes again to the next process.
    request: Option<Numbered>,
}

/// See the module's prose.
pub struct Kernel {
    queues: Vec<Vec<Tag>>,
    /// The memory that tags offer.
    offered: BTreeSet<u64>,
}

impl Kernel {
    /// Devices for this many volumes that nobody serves.
    #[must_use]
    pub fn new(volumes: usize, depth: u16) -> Kernel {
        let tag = Tag {
            state: State::Unserved,
            request: None,
        };
        let queue = vec![tag; usize::from(depth)];
        Kernel {
            queues: vec![queue; volumes * usize::from(CONNECTIONS)],
            offered: BTreeSet::new(),
        }
    }

    fn tag(&mut self, at: TagAt) -> &mut Tag {
        &mut self.queues[at.queue][usize::from(at.tag)]
    }

    /// A tag of a queue that has a command and no request.
    #[must_use]
    pub fn free_tag(&self, volume: u8, connection: u8) -> Option<TagAt> {
        let mut at = TagAt::new(volume, connection, 0);
        let is_free = |tag: &Tag| matches!(tag.state, State::Offers(_)) && tag.request.is_none();
        let tag = self.queues[at.queue].iter().position(is_free)?;
        at.tag = u16::try_from(tag).ok()?;
        Some(at)
    }

    /// A tag's request goes to the process. Returns the memory that the tag has offered; `None` if the tag has no
    /// command.
    pub fn give(&mut self, at: TagAt, request: Numbered) -> Option<Buffer> {
        let tag = self.tag(at);
        let State::Offers(buffer) = tag.state else {
            return None;
        };
        tag.state = State::Given;
        tag.request = Some(request);
        self.offered.remove(&buffer.0);
        Some(buffer)
    }

    /// A tag has a command, which offers memory. Returns the request if the command answers one.
    ///
    /// # Errors
    /// If the tag has a command already, has nothing that could be answered, or offers the memory of another tag.
    pub fn take(
        &mut self,
        at: TagAt,
        is_answer: bool,
        buffer: Buffer,
    ) -> Result<Option<Numbered>, String> {
        let tag = self.tag(at);
        let expected = match is_answer {
            true => State::Given,
            false => State::Unserved,
        };
        if tag.state != expected {
            let state = tag.state;
            let what = if is_answer { "answered" } else { "begun" };
            return Err(format!("{at:?} is {what}, and its state is {state:?}"));
        }
        tag.state = State::Offers(buffer);
        let request = if is_answer { tag.request.take() } else { None };
        match self.offered.insert(buffer.0) {
            true => Ok(request),
            false => Err(format!("{at:?} offers the memory of another tag")),
        }
    }

    /// Whether a tag offers the memory of this byte.
    #[must_use]
    pub fn has(&self, at: Buffer) -> bool {
        let before = self.offered.range(..=at.0).next_back();
        before.is_some_and(|&start| block(Buffer(start)).contains(&at.0))
    }

    /// Requests that are not answered.
    #[must_use]
    pub fn unanswered(&self) -> Vec<(TagAt, Numbered)> {
        let queues = self.queues.iter().enumerate();
        let tags = queues.flat_map(|(queue, tags)| {
            (0..)
                .zip(tags)
                .map(move |(tag, state)| (TagAt { queue, tag }, state))
        });
        tags.filter_map(|(at, tag)| Some((at, tag.request?)))
            .collect()
    }

    /// The process has ended. Requests that are not answered wait for the next one, unless the kernel has ended too.
    pub fn process_ended(&mut self, kernel_too: bool) {
        self.offered.clear();
        for tag in self.queues.iter_mut().flatten() {
            tag.state = State::Unserved;
            if kernel_too {
                tag.request = None;
            }
        }
    }
}

/// The kernel's description of a request.
#[must_use]
pub fn describe(ask: &Ask) -> Descriptor {
    /// `UBLK_IO_F_FUA`.
    const FUA: u32 = 1 << 13;
    /// `UBLK_IO_F_NOUNMAP`.
    const NOUNMAP: u32 = 1 << 15;
    let operation = match ask.operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 2,
        Operation::Trim => 3,
        Operation::WriteZeroes { keep_allocated, .. } => {
            5 | if keep_allocated { NOUNMAP } else { 0 }
        }
    };
    Descriptor {
        operation_and_flags: operation | if ask.fua { FUA } else { 0 },
        sectors: ask.length_bytes / 512,
        first_sector: ask.offset_bytes / 512,
    }
}

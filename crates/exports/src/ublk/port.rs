//! The ublk queues of one shard, on its ring: between the kernel and the shard's [`Tags`].
//!
//! Answers are given at the end of the turn, in one batch.

use super::command::{Command, TagName};
use super::descriptor::Rules;
use super::tags::Tags;
use crate::export::{Say, Statistics};
use crate::ports::ExportPort;
use drives::arena::Pool;
use drives::port::Port;
use drives::ring::Ring;
use drives::ublk::{ALL_TAGS_ABORTED, CharacterDevice, Queue};
use engine::request::Completion;
use engine::units::{Buffer, Nanos, VolumeId};
use engine::world::Input;
use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// A message: serve this queue.
pub(super) struct NewQueue {
    pub device: CharacterDevice,
    pub number: u16,
    pub depth: u16,
    pub volume: VolumeId,
    pub rules: Rules,
    /// Told when a command has been given for every tag, or why not.
    pub ready: Sender<Result<(), String>>,
}

/// A message: leave the requests of devices that still exist to the next process, and call `ended` when all others are
/// answered.
pub(super) struct Stop {
    pub ended: Arc<dyn Fn() + Send + Sync>,
}

/// The ublk queues of a shard. See the module's documentation.
pub struct UblkPort {
    tags: Tags,
    /// By the place of their tags.
    queues: Vec<Option<Queue>>,
    arrivals: Vec<NewQueue>,
    /// Commands that are about to be given.
    commands: Vec<Command>,
    stop: Option<Stop>,
    say: Say,
}

impl UblkPort {
    /// A port without queues, which takes the memory of their tags from `pool`.
    pub(super) fn new(pool: Pool, say: Say) -> UblkPort {
        UblkPort {
            tags: Tags::new(pool),
            queues: Vec::new(),
            arrivals: Vec::new(),
            commands: Vec::new(),
            stop: None,
            say,
        }
    }

    #[cold]
    fn take_arrivals(&mut self, ring: &mut Ring) {
        for arrival in std::mem::take(&mut self.arrivals) {
            let ready = arrival.ready.clone();
            let result = self.begin(arrival, ring);
            // If nobody waits for it any more, the device is being removed, and the queue ends with it.
            let _ = ready.send(result);
        }
    }

    /// Begins to serve a queue.
    fn begin(&mut self, arrival: NewQueue, ring: &mut Ring) -> Result<(), String> {
        let NewQueue {
            device,
            number,
            depth,
            volume,
            rules,
            ..
        } = arrival;
        const NO_ROOM: &str = "the memory for requests does not suffice; serve with more --memory";
        // First: Linux before 6.15 lets no other process map a queue if this one maps it and then does not serve it.
        if !self.tags.has_room(depth, rules.request_bytes_max) {
            return Err(NO_ROOM.to_owned());
        }
        let queue = Queue::map(device, number, depth)
            .map_err(|errno| format!("its queue {number} cannot be mapped: {errno}"))?;
        let place = self.tags.begin(volume, rules, depth, &mut self.commands);
        let place = place.ok_or(NO_ROOM)?;
        let at = usize::from(place);
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, || None);
        }
        self.queues[at] = Some(queue);
        self.give(ring);
        Ok(())
    }

    /// Gives all commands to the kernel.
    #[inline]
    fn give(&mut self, ring: &mut Ring) {
        for command in self.commands.drain(..) {
            let Command {
                name,
                answer,
                buffer,
                length_bytes,
            } = command;
            let queue = self.queues[usize::from(name.place)].as_ref();
            let queue = queue.expect("tags have a queue until they have ended");
            match answer {
                None => ring.fetch(queue, name.tag, buffer, length_bytes, name.number()),
                Some(answer) => {
                    ring.commit(
                        queue,
                        (name.tag, answer),
                        buffer,
                        length_bytes,
                        name.number(),
                    );
                }
            }
        }
    }

    #[inline]
    fn queue(&self, name: TagName) -> &Queue {
        let queue = self.queues[usize::from(name.place)].as_ref();
        queue.expect("tags have a queue until they have ended")
    }

    #[cold]
    fn end_tag(&mut self, name: TagName, result: i32) {
        if result != ALL_TAGS_ABORTED {
            let (queue, tag) = (self.queue(name), name.tag);
            let error = std::io::Error::from_raw_os_error(-result);
            (self.say)(&format_args!("tag {tag} of {queue} has ended: {error}"));
        }
        if self.tags.ended(name) {
            self.queues[usize::from(name.place)] = None;
        }
    }
}

impl Port for UblkPort {
    const TIMED: bool = false;

    #[inline]
    fn poll(&mut self, _: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>) {
        if !self.arrivals.is_empty() {
            self.take_arrivals(ring);
        }
        if self.tags.may_go_on() {
            self.tags.go_on(inputs, &mut self.commands);
            self.give(ring);
        }
        if self.tags.has_left()
            && let Some(stop) = self.stop.take()
        {
            // Devices that stay keep their commands. Nothing cancels those but the end of the process.
            ring.leave_behind(self.tags.with_kernel());
            (stop.ended)();
        }
    }

    #[inline]
    fn completion(&mut self, user_data: u64, result: i32, _: &mut Ring, inputs: &mut Vec<Input>) {
        let name = TagName::of(user_data);
        if result != 0 {
            return self.end_tag(name, result);
        }
        let descriptor = self.queue(name).descriptor(name.tag);
        if let Err(refusal) = self.tags.requested(name, &descriptor, inputs) {
            let queue = self.queue(name);
            (self.say)(&format_args!(
                "{queue} has a request that is refused: {refusal}"
            ));
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        self.tags.completed(completion);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.tags.pin(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        self.tags.release(buffer);
    }

    #[inline]
    fn flush(&mut self, ring: &mut Ring) {
        self.tags.take_commands(&mut self.commands);
        self.give(ring);
    }

    fn next_wake(&self) -> Option<Nanos> {
        let ends = self.stop.is_some() && self.tags.has_left();
        (self.tags.may_go_on() || ends).then_some(Nanos(0))
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        let message = match message.downcast::<NewQueue>() {
            Ok(queue) => return self.arrivals.push(*queue),
            Err(message) => message,
        };
        match message.downcast::<Stop>() {
            Ok(stop) => {
                self.tags.leave();
                self.stop = Some(*stop);
            }
            Err(_) => unreachable!("a message of a type that no ublk port knows"),
        }
    }
}

impl ExportPort for UblkPort {
    fn owns(&self, buffer: Buffer) -> bool {
        self.tags.own(buffer)
    }

    fn statistics(&self) -> Statistics {
        self.tags.statistics()
    }
}

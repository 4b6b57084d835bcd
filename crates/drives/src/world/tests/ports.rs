//! Messages, sleep and ports.

use super::*;
use crate::ring::Ring;
use engine::control::message::FlushOutcome;
use std::any::Any;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

/// A port that reads 8-byte tags from a socket, makes a request of each, and echoes the tag when it is done.
struct TagPort {
    socket: OwnedFd,
    memory: Buffer,
    receiving: bool,
    replies: Vec<u64>,
    sent: usize,
    messages: Vec<u64>,
    pinned: Vec<Buffer>,
}

const RECEIVE: u64 = 1;
const SEND: u64 = 2;

impl Port for TagPort {
    fn poll(&mut self, _: Nanos, ring: &mut Ring, _: &mut Vec<Input>) {
        if !self.receiving {
            self.receiving = true;
            ring.receive(self.socket.as_fd(), self.memory, 8, true, RECEIVE);
        }
    }

    fn completion(
        &mut self,
        user_data: u64,
        result: i32,
        ring: &mut Ring,
        inputs: &mut Vec<Input>,
    ) {
        if user_data == SEND {
            self.sent += 1;
        } else if result == 8 {
            self.receiving = false;
            let mut tag = [0; 8];
            ring.arena().read(self.memory, &mut tag);
            inputs.push(Input::Request(Request {
                tag: u64::from_le_bytes(tag),
                volume: VolumeId(0),
                operation: engine::request::Operation::Flush,
                fua: false,
                offset_bytes: 0,
                length_bytes: 0,
                buffer: self.memory,
            }));
        }
    }

    fn complete(&mut self, completion: Completion) {
        self.replies.push(completion.tag);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.pinned.push(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        self.pinned.retain(|pinned| *pinned != buffer);
    }

    fn flush(&mut self, ring: &mut Ring) {
        for tag in self.replies.drain(..) {
            ring.arena().write(self.memory.at(4096), &tag.to_le_bytes());
            ring.send(self.socket.as_fd(), self.memory.at(4096), 8, SEND);
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        None
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        self.messages.push(*message.downcast::<u64>().unwrap());
    }
}

/// Memory that a drive may still read or write must not be reused.
#[test]
fn a_port_learns_which_memory_is_pinned() {
    let (_client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    let port = TagPort {
        socket: server.into(),
        memory: Buffer(0),
        receiving: false,
        replies: Vec::new(),
        sent: 0,
        messages: Vec::new(),
        pinned: Vec::new(),
    };
    let mut world = world_with(port, CompletionMode::Interrupt);
    world.pin(Buffer(4096));
    world.pin(Buffer(8192));
    assert_eq!(world.port().pinned, [Buffer(4096), Buffer(8192)]);
    world.release(Buffer(4096));
    assert_eq!(world.port().pinned, [Buffer(8192)]);
}

#[test]
fn a_port_asks_and_is_answered() {
    let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    let port = TagPort {
        socket: server.into(),
        memory: Buffer(0),
        receiving: false,
        replies: Vec::new(),
        sent: 0,
        messages: Vec::new(),
        pinned: Vec::new(),
    };
    let mut world = world_with(port, CompletionMode::Interrupt);
    let memory = world.ring.arena().start();
    world.port().memory = memory;
    let asking = std::thread::spawn(move || {
        for tag in 0..200u64 {
            client.write_all(&tag.to_le_bytes()).unwrap();
            let mut reply = [0; 8];
            std::io::Read::read_exact(&mut client, &mut reply).unwrap();
            assert_eq!(u64::from_le_bytes(reply), tag);
        }
    });
    for wanted in 0..200 {
        match inputs(&mut world, 1)[..] {
            [Input::Request(Request { tag, .. })] => {
                assert_eq!(tag, wanted);
                world.complete(Completion {
                    tag,
                    result: Ok(()),
                });
                world.submit();
            }
            ref other => panic!("unexpected {other:?}"),
        }
    }
    asking.join().unwrap();
    world.mailbox.sender().send(Mail::Port(Box::new(9u64)));
    world.reap(&mut Vec::new());
    assert_eq!(world.port().messages, [9]);
    assert!(world.port().sent >= 199);
}

#[test]
fn a_message_wakes_a_sleeper() {
    for completion in [
        CompletionMode::Interrupt,
        CompletionMode::Hybrid { poll_ns: 1000 },
    ] {
        let mut world = world_with((), completion);
        for round in 0..5 {
            let sender = world.mailbox.sender();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(10));
                sender.send(Mail::Engine(Message::WriteIntent(VolumeId(round))));
            });
            let begin = Instant::now();
            let mut inputs = Vec::new();
            while inputs.is_empty() {
                // Without `until`, only the message can end this.
                world.wait(None);
                world.reap(&mut inputs);
            }
            assert!(begin.elapsed() < Duration::from_secs(10));
            assert!(
                matches!(inputs[..], [Input::Message(Message::WriteIntent(VolumeId(n)))] if n == round)
            );
            thread.join().unwrap();
        }
    }
}

#[test]
fn shards_talk_and_attach_by_mail() {
    let [mut first, mut second] = worlds();
    for n in 0..1000 {
        first.send(
            ShardId(1),
            Message::Flushed {
                ticket: n,
                outcome: FlushOutcome::Complete,
            },
        );
        first.send(
            ShardId(0),
            Message::Flushed {
                ticket: n,
                outcome: FlushOutcome::Complete,
            },
        );
    }
    let tickets = |inputs: &[Input]| -> Vec<u32> {
        let ticket = |input: &Input| match input {
            Input::Message(Message::Flushed { ticket, .. }) => *ticket,
            other => panic!("unexpected {other:?}"),
        };
        inputs.iter().map(ticket).collect()
    };
    let to_itself = inputs(&mut first, 1000);
    assert_eq!(tickets(&to_itself), (0..1000).collect::<Vec<_>>());
    // More messages than the ring has room for, so the first shard has to deliver the rest later.
    let mut to_the_other = Vec::new();
    while to_the_other.len() < 1000 {
        first.submit();
        second.reap(&mut to_the_other);
    }
    assert_eq!(tickets(&to_the_other), (0..1000).collect::<Vec<_>>());
    let ram = drive("ram:1m");
    let mail = second.mailbox.sender();
    mail.send(Mail::Attach(MemberId(3), ram.clone()));
    second.reap(&mut Vec::new());
    put(&second, 0, b"by mail");
    start(&mut second, 1, (3, WRITE, 0), &[(0, 512)]);
    succeed(&mut second, 1);
    assert_eq!(ram.read_at(0, 7).unwrap(), b"by mail");
    mail.send(Mail::Detach(MemberId(3)));
    second.reap(&mut Vec::new());
    start(&mut second, 2, (3, WRITE, 0), &[(0, 512)]);
    assert_eq!(fail(&mut second, 2).class, ErrorClass::Gone);
    assert_eq!(Arc::strong_count(&ram), 1);
}

#[test]
fn waiting_without_messages_ends_in_time() {
    for completion in [
        CompletionMode::Interrupt,
        CompletionMode::Polling,
        CompletionMode::Hybrid { poll_ns: 5_000_000 },
    ] {
        let mut world = world_with((), completion);
        let begin = world.now();
        let until = begin.after(Nanos(10_000_000));
        while world.now() < until {
            world.wait(Some(until));
        }
        assert!(world.now().since(begin) < Nanos(5 * Nanos::SECOND.0));
    }
}

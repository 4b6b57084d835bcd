//! Several ports of one shard, and what belongs to each. All tests of the NBD server also run beside another port.

use super::*;
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::request::{Operation, Request};
use engine::units::VolumeId;

/// A port that sends requests with given tags and records what it receives.
#[derive(Default)]
struct Echo {
    memory: Option<Pool>,
    to_ask: Vec<u64>,
    completed: Vec<u64>,
    pinned: Vec<Buffer>,
    heard: Vec<u8>,
    to_send: Vec<u8>,
    wake: Option<Nanos>,
}

impl Port for Echo {
    fn poll(&mut self, _: Nanos, _: &mut Ring, _: &mut Vec<Input>) {}

    fn completion(&mut self, _: u64, _: i32, _: &mut Ring, _: &mut Vec<Input>) {}

    fn complete(&mut self, completion: Completion) {
        self.completed.push(completion.tag);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.pinned.push(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        self.pinned.retain(|pinned| *pinned != buffer);
    }

    fn flush(&mut self, _: &mut Ring) {}

    fn next_wake(&self) -> Option<Nanos> {
        self.wake
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        self.heard.push(*message.downcast().unwrap());
    }

    fn next_message(&mut self) -> Option<(ShardId, Box<dyn Any + Send>)> {
        let message = self.to_send.pop()?;
        Some((ShardId(0), Box::new(message)))
    }
}

impl ExportPort for Echo {
    fn owns(&self, buffer: Buffer) -> bool {
        self.memory.as_ref().is_some_and(|pool| pool.holds(buffer))
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            requests: self.completed.len() as u64,
            ..Statistics::default()
        }
    }
}

impl Echo {
    fn ask(&mut self) -> Vec<Input> {
        let asked = self.to_ask.drain(..).map(|tag| {
            Input::Request(Request {
                tag,
                volume: VolumeId(0),
                operation: Operation::Flush,
                fua: false,
                offset_bytes: 0,
                length_bytes: 0,
                buffer: Buffer(0),
            })
        });
        asked.collect()
    }
}

fn three() -> Ports<Echo> {
    Ports::new((0..3).map(|_| Echo::default()).collect())
}

fn tags(inputs: &[Input]) -> Vec<u64> {
    let tag = |input: &Input| match input {
        Input::Request(request) => request.tag,
        other => panic!("{other:?}"),
    };
    inputs.iter().map(tag).collect()
}

fn answer(tag: u64) -> Completion {
    Completion {
        tag,
        result: Ok(()),
    }
}

#[test]
fn answers_come_back_to_the_port_that_asked() {
    let mut ports = three();
    let own = [0, 7, TAG_MASK];
    for number in ports.numbers().collect::<Vec<_>>() {
        let port = &mut ports.ports[usize::from(number.get())];
        port.to_ask = own.to_vec();
        let mut asked = port.ask();
        name_requests(number, &mut asked);
        for tag in tags(&asked) {
            ports.complete(answer(tag));
        }
        let counts: Vec<usize> = ports.ports.iter().map(|one| one.completed.len()).collect();
        let expected = [0, 1, 2].map(|at| {
            if at <= usize::from(number.get()) {
                3
            } else {
                0
            }
        });
        assert_eq!(counts, expected);
    }
    assert!(ports.ports.iter().all(|port| port.completed == own));
    let mut counted = [Statistics::default(); 3];
    ports.count(&mut counted);
    assert_eq!(counted.map(|one| one.requests), [3, 3, 3]);
}

#[test]
#[should_panic(expected = "a port's tags have at most 60 bits")]
fn a_tag_that_would_be_another_ports_is_noticed() {
    let mut port = Echo {
        to_ask: vec![TAG_MASK + 1],
        ..Echo::default()
    };
    name_requests(PortNumber::new(1), &mut port.ask());
}

#[test]
fn memory_is_pinned_and_released_at_its_owner() {
    let arena = Arena::new(ArenaOptions {
        length_bytes: 1 << 20,
        prefault: false,
        lock: false,
    })
    .unwrap();
    let mut ports = three();
    let mut pools = Pool::new(arena, 4096..1 << 20).split(3);
    let mut buffers: Vec<Buffer> = Vec::new();
    for (port, mut pool) in ports.ports.iter_mut().zip(pools.drain(..)) {
        buffers.push(pool.allocate(64 << 10).unwrap());
        port.memory = Some(pool);
    }
    for buffer in &buffers {
        ports.pin(buffer.at(512));
    }
    for (port, buffer) in ports.ports.iter().zip(&buffers) {
        assert_eq!(port.pinned, [buffer.at(512)]);
    }
    ports.release(buffers[1].at(512));
    let left: Vec<usize> = ports.ports.iter().map(|port| port.pinned.len()).collect();
    assert_eq!(left, [1, 0, 1]);
}

#[test]
fn messages_reach_the_port_with_the_same_number_on_any_shard() {
    let mut ports = three();
    ports.ports[2].to_send = vec![9];
    ports.ports[1].to_send = vec![8];
    let mut other = three();
    while let Some((_, message)) = ports.next_message() {
        other.mail(message);
    }
    let heard: Vec<&[u8]> = other.ports.iter().map(|port| &port.heard[..]).collect();
    assert_eq!(heard, [&[][..], &[8], &[9]]);
}

#[test]
fn the_first_to_wake_wakes_all() {
    let mut ports = three();
    assert_eq!(ports.next_wake(), None);
    ports.ports[2].wake = Some(Nanos(5));
    ports.ports[0].wake = Some(Nanos(9));
    assert_eq!(ports.next_wake(), Some(Nanos(5)));
}

//! Members that hang. In the world of these rigs a member can be made to accept commands without answering. When it is
//! released, it carries out late what it has accepted, with garbage as data.

use std::sync::{Arc, Mutex};

use drives::port::Port;
use drives::world::RingWorld;
use engine::control::message::Message;
use engine::control::record::Record;
use engine::event::Event;
use engine::log::unit::LogUnit;
use engine::plan::{Segment, StepKind};
use engine::request::Completion;
use engine::token::Token;
use engine::units::{Buffer, MemberId, Nanos, ShardId};
use engine::world::{Input, Io, World};

use super::client::{Client, pattern, request};
use super::rig::{MIB, Plan, Rig, wait_until};
use crate::nbd::wire::*;

/// Which member hangs, if any; shared by all shards.
pub type Hung = Arc<Mutex<Option<MemberId>>>;

/// A world one of whose members may hang; see the module's description.
pub struct HangingWorld<P: Port> {
    pub world: RingWorld<P>,
    pub arena: Arc<drives::arena::Arena>,
    pub hung: Hung,
    pub taken: Vec<(Io, Vec<Segment>)>,
    pub records: Vec<MemberId>,
}

impl<P: Port> HangingWorld<P> {
    fn is_hung(&self, member: MemberId) -> bool {
        *self.hung.lock().unwrap() == Some(member)
    }
}

impl<P: Port> World for HangingWorld<P> {
    fn now(&mut self) -> Nanos {
        self.world.now()
    }

    fn reap(&mut self, inputs: &mut Vec<Input>) {
        self.world.reap(inputs);
        if self.hung.lock().unwrap().is_some() {
            return;
        }
        for (io, memory) in self.taken.drain(..) {
            for segment in memory.iter().filter(|_| io.kind == StepKind::Read) {
                let garbage = vec![0xDB; segment.length_bytes as usize];
                self.arena.write(segment.buffer, &garbage);
            }
            inputs.push(Input::Done {
                token: io.token,
                result: Ok(()),
            });
        }
        let persisted = |member| Input::Persisted {
            member,
            result: Ok(()),
        };
        inputs.extend(self.records.drain(..).map(persisted));
    }

    fn reap_answered(&mut self, inputs: &mut Vec<Input>) {
        self.world.reap_answered(inputs);
    }

    fn io(&mut self, io: Io, memory: impl Iterator<Item = Segment>) {
        if self.is_hung(io.member) {
            self.taken.push((io, memory.collect()));
        } else {
            self.world.io(io, memory);
        }
    }

    fn cancel(&mut self, token: Token) {
        if !self.taken.iter().any(|(io, _)| io.token == token) {
            self.world.cancel(token);
        }
    }

    fn xor(&mut self, target: Buffer, length_bytes: u32, sources: impl Iterator<Item = Segment>) {
        self.world.xor(target, length_bytes, sources);
    }

    fn xor_is_zero(&mut self, length_bytes: u32, sources: impl Iterator<Item = Segment>) -> bool {
        self.world.xor_is_zero(length_bytes, sources)
    }

    fn encode_log(
        &mut self,
        unit: &LogUnit,
        partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    ) {
        self.world.encode_log(unit, partial_parities, image);
    }

    fn fill(&mut self, memory: Buffer, words: &[u64]) {
        self.world.fill(memory, words);
    }

    fn complete(&mut self, completion: Completion) {
        self.world.complete(completion);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.world.pin(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        self.world.release(buffer);
    }

    fn send(&mut self, to: ShardId, message: Message) {
        self.world.send(to, message);
    }

    fn persist(&mut self, member: MemberId, record: &Record) {
        if self.is_hung(member) {
            self.records.push(member);
        } else {
            self.world.persist(member, record);
        }
    }

    fn event(&mut self, event: Event) {
        self.world.event(event);
    }

    fn submit(&mut self) {
        self.world.submit();
    }

    fn wait(&mut self, until: Option<Nanos>) {
        self.world.wait(until);
    }
}

fn rig(shards: u8, pool_bytes: usize) -> Rig {
    Rig::new(Plan {
        shards,
        pool_bytes,
        deadline: Nanos(300 * Nanos::MILLISECOND.0),
        ..Plan::default()
    })
}

const LENGTH: u32 = 192 << 10;

/// Fills the beginning of the volume and returns its content.
fn fill(rig: &Rig) -> Vec<u8> {
    let data = pattern(7, 32 * MIB as usize);
    let mut client = Client::simple(rig.connect(), "vol0");
    for (at, piece) in (0..).zip(data.chunks(MIB as usize)) {
        client.write(at * MIB, piece, 0);
    }
    data
}

#[test]
fn clients_do_not_wait_for_a_drive_that_hangs_and_get_what_they_asked_for() {
    for shards in [1, 2] {
        let rig = rig(shards, 160 << 20);
        let mut data = fill(&rig);
        rig.hang(MemberId(1));
        let mut clients: Vec<Client> = (0..4)
            .map(|at| Client::simple(rig.connect_to(at % usize::from(shards)), "vol0"))
            .collect();
        let offset = |cookie: u64| cookie * u64::from(LENGTH);
        for (at, client) in (0..).zip(&mut clients) {
            for cookie in at * 16..at * 16 + 16 {
                if cookie % 3 == 0 {
                    let new = pattern(cookie, LENGTH as usize);
                    data[offset(cookie) as usize..][..new.len()].copy_from_slice(&new);
                    client.send(&request(CMD_WRITE, 0, cookie, offset(cookie), LENGTH));
                    client.send(&new);
                } else {
                    client.send(&request(CMD_READ, 0, cookie, offset(cookie), LENGTH));
                }
            }
        }
        for client in &mut clients {
            for _ in 0..16 {
                let reply = client.reply(|cookie| if cookie % 3 == 0 { 0 } else { LENGTH });
                assert_eq!(reply.error, 0);
                if reply.cookie % 3 > 0 {
                    let from = offset(reply.cookie) as usize;
                    assert!(reply.data == data[from..from + LENGTH as usize]);
                }
            }
        }
        let sum = |of: fn(&crate::nbd::server::NbdStats) -> u64| -> u64 {
            let shards = 0..usize::from(shards);
            shards.map(|shard| of(&rig.stats(shard))).sum()
        };
        wait_until("memory is pinned", || {
            sum(|stats| stats.pinned_bytes) > 0 && sum(|stats| stats.requests_asked_again) > 0
        });
        // The drive overwrites the memory lent to it while others read and write.
        for round in 0..20 {
            if round == 10 {
                rig.let_go();
            }
            for client in &mut clients {
                let from = round * MIB;
                let got = client.read(from, 1 << 20);
                assert!(got == data[from as usize..][..MIB as usize]);
            }
        }
        drop(clients);
        rig.wait_until_idle();
        wait_until("nothing is pinned", || sum(|stats| stats.pinned_bytes) == 0);
    }
}

#[test]
fn connections_end_while_a_drive_keeps_their_memory() {
    let rig = rig(1, 160 << 20);
    let data = fill(&rig);
    rig.hang(MemberId(0));
    let mut client = Client::simple(rig.connect(), "vol0");
    for cookie in 0..16 {
        client.send(&request(CMD_READ, 0, cookie, cookie * MIB, 1 << 20));
    }
    wait_until("all requests are in flight", || {
        rig.stats(0).requests_in_flight == 16
    });
    drop(client);
    wait_until("the connection is closed", || {
        rig.stats(0).connections_open == 0
    });
    assert!(rig.stats(0).pinned_bytes >= 8 * MIB);
    // Later requests get other memory.
    let mut client = Client::simple(rig.connect(), "vol0");
    assert!(client.read(0, 4 << 20) == data[..4 * MIB as usize]);
    rig.let_go();
    assert!(client.read(MIB, 4 << 20) == data[MIB as usize..][..4 * MIB as usize]);
    drop(client);
    rig.wait_until_idle();
}

#[test]
fn a_port_stops_while_a_drive_keeps_memory() {
    let rig = rig(1, 160 << 20);
    fill(&rig);
    rig.hang(MemberId(2));
    let mut client = Client::simple(rig.connect(), "vol0");
    for cookie in 0..16 {
        client.send(&request(CMD_READ, 0, cookie, cookie * MIB, 1 << 20));
    }
    wait_until("all requests are in flight", || {
        rig.stats(0).requests_in_flight == 16
    });
    let drained = rig.stop(0);
    for _ in 0..16 {
        assert_eq!(client.reply(|_| 1 << 20).error, 0);
    }
    client.expect_end();
    wait_until("the port has ended", || {
        drained.load(std::sync::atomic::Ordering::SeqCst)
    });
    rig.let_go();
    rig.wait_until_idle();
}

#[test]
fn where_a_drive_keeps_all_memory_requests_are_refused_and_not_forgotten() {
    // Room for four requests of the largest size, and the connections' areas.
    let rig = rig(1, 5 << 20);
    let data = fill(&rig);
    rig.hang(MemberId(1));
    let mut clients: Vec<Client> = (0..6)
        .map(|_| Client::simple(rig.connect(), "vol0"))
        .collect();
    for (at, client) in (0..).zip(&mut clients) {
        client.send(&request(CMD_READ, 0, at, at * MIB, 1 << 20));
    }
    for (at, client) in (0..).zip(&mut clients) {
        let reply = client.reply(|_| 1 << 20);
        match reply.error {
            0 => assert!(reply.data == data[at * MIB as usize..][..MIB as usize]),
            error => assert_eq!(error, 12, "out of memory"),
        }
    }
    assert!(rig.stats(0).pinned_bytes >= 3 * MIB);
    // Requests that find no memory are refused, small requests are served, and no client waits.
    let client = &mut clients[0];
    for round in 0..40 {
        let large = client.ask(CMD_READ, 0, 8 * MIB, 1 << 20);
        assert!(matches!(large.error, 0 | 12), "{}", large.error);
        client.send(&request(CMD_WRITE, 0, round, 20 * MIB, 1 << 20));
        client.send(&data[20 * MIB as usize..][..MIB as usize]);
        assert!(matches!(client.reply(|_| 0).error, 0 | 12));
        let small = client.ask(CMD_READ, 0, 4096 * round, 4096);
        assert_eq!(small.error, 0);
        assert!(small.data == data[4096 * round as usize..][..4096]);
    }
    rig.let_go();
    wait_until("nothing is pinned", || {
        rig.peers.iter().for_each(drives::mailbox::MailSender::wake);
        rig.stats(0).pinned_bytes == 0
    });
    assert!(clients[0].read(8 * MIB, 1 << 20) == data[8 * MIB as usize..][..MIB as usize]);
    drop(clients);
    rig.wait_until_idle();
}

//! A small serving process: shards on threads, an array over members in memory, two NBD ports for each shard. The tests
//! use the second port, and the first must not be affected.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use drives::arena::{Arena, ArenaOptions, Pool};
use drives::completion::CompletionMode;
use drives::drive::{Access, Drive};
use drives::mailbox::{self, Mail, MailSender, Mailbox};
use drives::port::PortNumber;
use drives::ring::RingOptions;
use drives::world::{RingWorld, WorldOptions};
use engine::claims::Claims;
use engine::control::bad_blocks::BadBlocks;
use engine::control::record::{MemberRecord, MemberState, Record, SlotRecord, VolumeRecord};
use engine::layout::{Geometry, Level};
use engine::limits::BAND_BYTES_MAX;
use engine::options::Options;
use engine::setup::Setup;
use engine::shard::Engine;
use engine::turn::Shard;
use engine::units::{Buffer, MemberId, Nanos, ShardId, VolumeId};
use engine::world::World;

use super::hanging::{HangingWorld, Hung};
use crate::nbd::server::*;
use crate::nbd::{Abilities, BlockSizes, Export, ExportList};
use crate::ports::{AnyPort, Ports, ToPort};

pub const MIB: u64 = 1 << 20;
/// Pool of the port that is not tested.
const OTHER_POOL_BYTES: usize = 8 << 20;
const CHUNK_BYTES: u32 = 64 << 10;
/// The longest wait of any test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The configuration of a rig.
#[derive(Clone)]
pub struct Plan {
    pub level: Level,
    pub members: u8,
    /// Added to each member's specification.
    pub member_options: &'static str,
    /// Bytes of each member that the first volume uses.
    pub component_bytes: u64,
    pub shards: u8,
    pub pool_bytes: usize,
    pub limits: NbdLimits,
    /// Time after which a hanging member is failed.
    pub deadline: Nanos,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            level: Level::Raid5,
            members: 3,
            member_options: "",
            component_bytes: 64 * MIB,
            shards: 1,
            pool_bytes: 160 << 20,
            limits: NbdLimits::default(),
            deadline: Options::default().member_deadline,
        }
    }
}

/// The last report of a shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServedReport {
    pub stats: NbdStats,
    pub available_bytes: u64,
    /// How often its thread has allocated memory.
    pub allocations: u64,
    /// Turns of the shard's loop.
    pub turns: u64,
}

/// A running server; stops when dropped.
pub struct Rig {
    pub path: PathBuf,
    pub size_bytes: u64,
    pub exports: Arc<ExportList>,
    pub peers: Vec<MailSender>,
    pub problems: Arc<Mutex<Vec<Problem>>>,
    reports: Arc<Mutex<Vec<ServedReport>>>,
    at_start: Vec<ServedReport>,
    quit: Arc<AtomicBool>,
    hung: Hung,
    threads: Vec<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

fn geometry(plan: &Plan, start_bytes: u64, component_bytes: u64) -> Geometry {
    let mut shape = Geometry {
        level: plan.level,
        members: plan.members,
        chunk_bytes: CHUNK_BYTES,
        start_bytes,
        component_bytes,
        size_bytes: 512,
        block_bytes: 512,
    };
    shape.size_bytes = component_bytes * u64::from(shape.data_members());
    Geometry::new(shape).expect("a valid geometry")
}

/// Two volumes, the second of 4 MiB per member; metadata behind them.
fn record(plan: &Plan) -> Record {
    let second_start = 8192 + plan.component_bytes;
    let shapes = [
        geometry(plan, 8192, plan.component_bytes),
        geometry(plan, second_start, 4 * MIB),
    ];
    let member = MemberRecord {
        state: MemberState::Active,
        size_bytes: metadata_at(plan) + MIB,
        volatile_cache: true,
        ..MemberRecord::ABSENT
    };
    let slots: Vec<SlotRecord> = (0..plan.members)
        .map(|slot| SlotRecord {
            member: Some(MemberId(slot)),
            current: true,
        })
        .collect();
    let volume = |geometry| VolumeRecord {
        geometry,
        not_started: false,
        read_only: false,
        dirty: false,
        slots: slots.clone(),
        sync: None,
        then_resync: false,
        log: None,
        bitmap: None,
    };
    Record {
        generation: 1,
        bad_blocks: BadBlocks::default(),
        members: vec![member; usize::from(plan.members)],
        volumes: shapes.into_iter().map(volume).collect(),
    }
}

fn metadata_at(plan: &Plan) -> u64 {
    (8192 + plan.component_bytes + 4 * MIB).next_multiple_of(MIB)
}

fn exports(record: &Record, pool_bytes: usize) -> ExportList {
    let export = |name: &str, volume: usize, read_only| Export {
        name: name.into(),
        description: "a test's array".into(),
        size_bytes: record.volumes[volume].geometry.size_bytes,
        block_sizes: BlockSizes {
            minimum_bytes: 512,
            preferred_bytes: 4096,
            maximum_payload_bytes: maximum_payload_bytes(pool_bytes as u64),
        },
        abilities: Abilities {
            read_only,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
        },
    };
    let list = vec![
        export("vol0", 0, false),
        export("vol1", 1, false),
        export("vol0-ro", 0, true),
    ];
    ExportList::new(list).unwrap()
}

fn open_drives(plan: &Plan, record: &Record) -> Vec<Arc<Drive>> {
    let open = |member: &MemberRecord| {
        let text = format!("ram:{}{}", member.size_bytes, plan.member_options);
        let drive = Drive::open(&text.parse().unwrap(), Access::Exclusive);
        Arc::new(drive.unwrap())
    };
    record.members.iter().map(open).collect()
}

/// Everything that a shard's thread needs.
struct Seat {
    plan: Plan,
    record: Record,
    shard: usize,
    arena: Arc<Arena>,
    mailbox: Mailbox,
    claims: Arc<Claims>,
    drives: Vec<Arc<Drive>>,
    /// By the number of the port.
    options: [NbdPortOptions; 2],
    reports: Arc<Mutex<Vec<ServedReport>>>,
    quit: Arc<AtomicBool>,
    hung: Hung,
}

const SCRATCH_BYTES: usize = 16 << 20;
/// The number of the port that is tested.
const TESTED: usize = 1;

impl Seat {
    fn run(self) {
        let at = metadata_at(&self.plan);
        let zeros = self.arena.start();
        let scratch_from = BAND_BYTES_MAX as usize + self.shard * SCRATCH_BYTES;
        let scratch = Buffer(zeros.0 + scratch_from as u64);
        let ports = self
            .options
            .map(|options| AnyPort::Nbd(NbdPort::new(options).unwrap()));
        let port = Ports::new(ports.into());
        let mut world = RingWorld::new(WorldOptions {
            arena: self.arena.clone(),
            ring: RingOptions::default(),
            completion: CompletionMode::Interrupt,
            mailbox: self.mailbox,
            port,
            log_encoder: Box::new(|_, _, _| {}),
            encoder: Box::new(move |_, record: &Record| {
                let mut bytes = vec![0; 512];
                bytes[..8].copy_from_slice(&record.generation.to_le_bytes());
                Ok(vec![(at, bytes)])
            }),
            on_event: Box::new(|event| println!("{event:?}")),
        })
        .unwrap();
        for (member, drive) in (0..).zip(self.drives) {
            world.attach(MemberId(member), drive);
        }
        let setup = Setup {
            shard: ShardId(self.shard as u8),
            shards: self.plan.shards,
            record: self.record,
            scratch: (scratch, SCRATCH_BYTES as u64),
            zeros,
            options: Options {
                member_deadline: self.plan.deadline,
                ..Options::default()
            },
            claims: self.claims,
        };
        let mut world = HangingWorld {
            world,
            arena: self.arena,
            hung: self.hung,
            taken: Vec::new(),
            records: Vec::new(),
        };
        let now = world.now();
        let mut shard = Shard::new(Engine::new(setup, now), world);
        while !self.quit.load(Ordering::Relaxed) {
            shard.turn_or_wait(|| self.quit.load(Ordering::Acquire));
            let AnyPort::Nbd(port) = &shard.world.world.port().as_slice()[TESTED] else {
                unreachable!("the tested port is an NBD server");
            };
            let report = &mut self.reports.lock().unwrap()[self.shard];
            *report = ServedReport {
                stats: port.stats(),
                available_bytes: port.shared.memory.available_bytes(),
                allocations: drives::counting::allocations(),
                turns: report.turns + 1,
            };
        }
    }
}

impl Rig {
    pub fn new(plan: Plan) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener: OwnedFd = UnixListener::bind(&path).unwrap().into();
        let shards = usize::from(plan.shards);
        let pools_from = BAND_BYTES_MAX as usize + shards * SCRATCH_BYTES;
        let arena = Arena::new(ArenaOptions {
            length_bytes: pools_from + shards * (OTHER_POOL_BYTES + plan.pool_bytes),
            prefault: false,
            lock: false,
        })
        .unwrap();
        let record = record(&plan);
        let drives = open_drives(&plan, &record);
        let mailboxes = mailbox::exchange(shards).unwrap();
        let peers: Vec<MailSender> = mailboxes.iter().map(Mailbox::sender).collect();
        let claims = Claims::new();
        let others = Arc::new(exports(&record, OTHER_POOL_BYTES));
        let exports = Arc::new(exports(&record, plan.pool_bytes));
        let reports = Arc::new(Mutex::new(vec![ServedReport::default(); shards]));
        let problems = Arc::new(Mutex::new(Vec::new()));
        let quit = Arc::new(AtomicBool::new(false));
        let hung = Hung::default();
        let size_bytes = record.volumes[0].geometry.size_bytes;
        let mut listener = Some(listener);
        let mut threads = Vec::new();
        for (shard, mailbox) in mailboxes.into_iter().enumerate() {
            let pool_from = pools_from + shard * (OTHER_POOL_BYTES + plan.pool_bytes);
            let tested_from = pool_from + OTHER_POOL_BYTES;
            let options = |exports: &Arc<ExportList>, range, listeners| {
                let problems = problems.clone();
                NbdPortOptions {
                    exports: exports.clone(),
                    volumes: vec![VolumeId(0), VolumeId(1), VolumeId(0)],
                    pool: Pool::new(arena.clone(), range),
                    listeners,
                    route: Route::round_robin(plan.shards, ShardId(shard as u8)),
                    on_problem: Box::new(move |problem| {
                        problems.lock().unwrap().push(problem.clone());
                    }),
                    limits: plan.limits,
                }
            };
            let listeners = listener.take().into_iter().collect();
            let options = [
                options(&others, pool_from..tested_from, Vec::new()),
                options(
                    &exports,
                    tested_from..tested_from + plan.pool_bytes,
                    listeners,
                ),
            ];
            let seat = Seat {
                plan: plan.clone(),
                record: record.clone(),
                shard,
                arena: arena.clone(),
                mailbox,
                claims: claims.clone(),
                drives: drives.clone(),
                options,
                reports: reports.clone(),
                quit: quit.clone(),
                hung: hung.clone(),
            };
            threads.push(std::thread::spawn(move || seat.run()));
        }
        wait_until("all shards run", || {
            let reports = reports.lock().unwrap();
            reports.iter().all(|report| report.available_bytes > 0)
        });
        let at_start = reports.lock().unwrap().clone();
        Rig {
            path,
            size_bytes,
            exports,
            peers,
            problems,
            reports,
            at_start,
            quit,
            hung,
            threads,
            _folder: folder,
        }
    }

    /// A rig whose plan is the default one with `change`.
    pub fn with(change: impl FnOnce(&mut Plan)) -> Rig {
        let mut plan = Plan::default();
        change(&mut plan);
        Rig::new(plan)
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection that is handed to this shard by message.
    pub fn connect_to(&self, shard: usize) -> UnixStream {
        self.connect_to_port(shard, TESTED)
    }

    /// Like [`Rig::connect_to`], to the port with this number.
    pub fn connect_to_port(&self, shard: usize, port: usize) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        // Some runtimes make their sockets non-blocking.
        server.set_nonblocking(true).unwrap();
        self.mail_to_port(shard, port, NewConnection::new(server));
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_write_timeout(Some(PATIENCE)).unwrap();
        client
    }

    pub fn mail(&self, shard: usize, message: impl std::any::Any + Send) {
        self.mail_to_port(shard, TESTED, message);
    }

    pub fn mail_to_port(&self, shard: usize, port: usize, message: impl std::any::Any + Send) {
        let message = ToPort {
            port: PortNumber::new(port),
            message: Box::new(message),
        };
        self.peers[shard].send(Mail::Port(Box::new(message)));
    }

    /// Makes a member hang.
    pub fn hang(&self, member: MemberId) {
        *self.hung.lock().unwrap() = Some(member);
    }

    /// Lets the hanging member carry out the commands that it has accepted.
    pub fn let_go(&self) {
        *self.hung.lock().unwrap() = None;
        self.peers.iter().for_each(MailSender::wake);
    }

    pub fn report(&self, shard: usize) -> ServedReport {
        self.reports.lock().unwrap()[shard]
    }

    pub fn stats(&self, shard: usize) -> NbdStats {
        self.report(shard).stats
    }

    /// Stops a shard's port. The flag is set when it has stopped.
    pub fn stop(&self, shard: usize) -> Arc<AtomicBool> {
        let drained = Arc::new(AtomicBool::new(false));
        let flag = drained.clone();
        let stop = Stop(Box::new(move || flag.store(true, Ordering::SeqCst)));
        self.mail(shard, stop);
        drained
    }

    /// Has a shard's port hand its connections over. The flag is set when none is left.
    pub fn hand_over(&self, shard: usize) -> (Arc<Mutex<Vec<HandedOver>>>, Arc<AtomicBool>) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let into = kept.clone();
        self.mail(
            shard,
            HandOver(Box::new(move |one| into.lock().unwrap().push(one))),
        );
        (kept, self.stop(shard))
    }

    /// Has a shard's port go on with a connection that another port has handed over.
    pub fn take_over(&self, shard: usize, one: HandedOver) {
        let connection = NewConnection {
            session: Some(one.session),
            ..NewConnection::new(one.socket)
        };
        self.mail(shard, connection);
    }

    /// Waits until all connections are closed and all payload memory is free.
    pub fn wait_until_idle(&self) {
        wait_until("all connections are closed", || {
            self.peers.iter().for_each(MailSender::wake);
            (0..self.peers.len()).all(|shard| {
                let report = self.report(shard);
                report.stats.connections_open == 0
                    && report.stats.requests_in_flight == 0
                    && report.available_bytes == self.at_start[shard].available_bytes
            })
        });
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::SeqCst);
        self.peers.iter().for_each(MailSender::wake);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a shard has panicked");
            }
        }
    }
}

/// Waits until `holds` is true, for at most [`PATIENCE`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Limits with short deadlines.
pub fn impatient() -> NbdLimits {
    NbdLimits {
        handshake_timeout: Nanos(300 * Nanos::MILLISECOND.0),
        stop_notice: Nanos(100 * Nanos::MILLISECOND.0),
        stop_grace: Nanos(300 * Nanos::MILLISECOND.0),
        hand_over_within: Nanos(300 * Nanos::MILLISECOND.0),
        ..NbdLimits::default()
    }
}

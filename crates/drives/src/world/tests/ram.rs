//! RAM members move bytes late. These tests compare them with a model that moves bytes at once.

use super::*;

/// A block: the unit of everything below.
const BLOCK: usize = 4096;
/// Blocks of the arena: those that computations read, those they write, and those that reads of members fill.
const SOURCES: u32 = 8;
const RESULTS: u32 = 6;
const READ_TO: u32 = 6;
/// Blocks of a member.
const MEMBER_BLOCKS: u64 = 32;
const MEMBERS: u8 = 4;
/// The member that is a file; the others are RAM.
const FILE: u8 = 3;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % count
    }
}

/// A world, and the expected content of its memory and members.
struct Scene {
    world: RingWorld<()>,
    drives: Vec<Arc<Drive>>,
    arena: Vec<Vec<u8>>,
    members: Vec<Vec<Vec<u8>>>,
    /// Places written and places read in this turn. A place that is both may return either content.
    written: Vec<(u8, u64)>,
    read: Vec<(u8, u64)>,
    /// Blocks that the kernel or a read of this turn may use until the answer. They must not change.
    pinned: Vec<u32>,
    started: u64,
}

impl Scene {
    fn new(folder: &Path, random: &mut Random) -> Scene {
        let size_bytes = MEMBER_BLOCKS * BLOCK as u64;
        // The last sector of a file in service is never written.
        let file = image(folder, "d3.img", size_bytes + BLOCK as u64);
        let ram = format!("ram:{size_bytes}");
        let drives = vec![drive(&ram), drive(&ram), drive(&ram), drive(&file)];
        let world = world(drives.iter().cloned());
        let blocks = SOURCES + RESULTS + READ_TO;
        let noise = |random: &mut Random| -> Vec<u8> {
            (0..BLOCK).map(|_| random.below(256) as u8).collect()
        };
        let arena: Vec<Vec<u8>> = (0..blocks).map(|_| noise(random)).collect();
        for (block, bytes) in (0..).zip(&arena) {
            put(&world, block * BLOCK as u32, bytes);
        }
        let empty = || vec![vec![0; BLOCK]; MEMBER_BLOCKS as usize];
        Scene {
            world,
            drives,
            arena,
            members: (0..MEMBERS).map(|_| empty()).collect(),
            written: Vec::new(),
            read: Vec::new(),
            pinned: Vec::new(),
            started: 0,
        }
    }

    fn io(&mut self, member: u8, kind: StepKind, place: u64, blocks: &[u32]) {
        let pieces: Vec<(u32, u32)> = blocks
            .iter()
            .map(|block| (block * BLOCK as u32, BLOCK as u32))
            .collect();
        let token = self.started;
        self.started += 1;
        let what = (member, kind, place * BLOCK as u64);
        start(&mut self.world, token, what, &pieces);
    }

    fn write(&mut self, member: u8, place: u64, blocks: &[u32]) {
        let places = || (place..).map(|place| (member, place)).take(blocks.len());
        if places().any(|place| self.read.contains(&place)) {
            return;
        }
        if member == FILE {
            if places().any(|place| self.written.contains(&place)) {
                return;
            }
            self.pinned.extend(blocks);
        }
        for (place, &block) in (place..).zip(blocks) {
            self.members[usize::from(member)][place as usize] = self.arena[block as usize].clone();
            self.written.push((member, place));
        }
        self.io(member, WRITE, place, blocks);
    }

    fn xor(&mut self, target: u32, sources: &[u32]) {
        let mut sum = vec![0; BLOCK];
        for &source in sources {
            let bytes = &self.arena[source as usize];
            sum.iter_mut()
                .zip(bytes)
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        self.arena[target as usize] = sum;
        let plan = self.computation(sources);
        let target = at(&self.world, target * BLOCK as u32);
        let memory = plan.segments_of(&plan.steps()[0]);
        self.world.xor(target, BLOCK as u32, memory);
    }

    fn compare(&mut self, blocks: &[u32]) {
        let plan = self.computation(blocks);
        let memory = plan.segments_of(&plan.steps()[0]);
        let is_zero = self.world.xor_is_zero(BLOCK as u32, memory);
        let wanted = (0..BLOCK).all(|at| {
            let bytes = blocks.iter().map(|&block| self.arena[block as usize][at]);
            bytes.fold(0, |sum, byte| sum ^ byte) == 0
        });
        assert_eq!(is_zero, wanted);
    }

    fn computation(&self, sources: &[u32]) -> Plan {
        let mut plan = Plan::with_capacity(1, 16);
        plan.push(Step::compute(StepKind::Compare, 0, BLOCK as u32));
        for source in sources {
            plan.add_source(at(&self.world, source * BLOCK as u32));
        }
        plan
    }

    /// A row: computes parity of some blocks and usually writes them all; `random` may choose otherwise.
    fn row(&mut self, random: &mut Random) {
        let first = random.below(u64::from(SOURCES)) as u32;
        let count = 1 + random.below(4) as u32;
        let mut sources: Vec<u32> = (first..first + count).map(|n| n % SOURCES).collect();
        let target = SOURCES + random.below(u64::from(RESULTS)) as u32;
        if self.pinned.contains(&target) {
            return;
        }
        match random.below(8) {
            0 => sources.push(target),
            1 => sources.push(SOURCES + (target - SOURCES + 1) % RESULTS),
            _ => {}
        }
        self.xor(target, &sources);
        if random.below(4) == 0 {
            // Another row's parity is computed in between, as when several rows are planned in one turn.
            self.row(random);
        }
        let place = random.below(MEMBER_BLOCKS - 2);
        sources.push(target);
        for (member, &block) in (0u8..).zip(&sources) {
            let member = if random.below(10) == 0 {
                FILE
            } else {
                member % FILE
            };
            match random.below(12) {
                0 => {}
                1 => self.write(member, place, &[block, target]),
                2 => self.compare(&[target, block]),
                _ => self.write(member, (place + u64::from(block)) % MEMBER_BLOCKS, &[block]),
            }
        }
    }

    fn read(&mut self, random: &mut Random) {
        let member = random.below(u64::from(MEMBERS)) as u8;
        let place = random.below(MEMBER_BLOCKS);
        let block = SOURCES + RESULTS + random.below(u64::from(READ_TO)) as u32;
        if self.written.contains(&(member, place)) || self.pinned.contains(&block) {
            return;
        }
        self.pinned.push(block);
        self.read.push((member, place));
        self.arena[block as usize] = self.members[usize::from(member)][place as usize].clone();
        self.io(member, StepKind::Read, place, &[block]);
    }

    /// Reaps all answers and compares everything.
    fn end_turn(&mut self) {
        self.world.submit();
        self.world.submit();
        let all = results(&mut self.world, self.started as usize);
        assert!(all.iter().all(|(_, result)| result.is_ok()), "{all:?}");
        self.started = 0;
        self.written.clear();
        self.read.clear();
        self.pinned.clear();
        for (block, bytes) in (0..).zip(&self.arena) {
            assert!(
                get(&self.world, block * BLOCK as u32, BLOCK) == *bytes,
                "block {block}"
            );
        }
        for (drive, blocks) in self.drives.iter().zip(&self.members) {
            let bytes = drive.read_at(0, MEMBER_BLOCKS as usize * BLOCK).unwrap();
            for (place, (held, wanted)) in bytes.chunks(BLOCK).zip(blocks).enumerate() {
                assert!(held == wanted, "{} block {place}", drive.name());
            }
        }
    }
}

#[test]
fn late_parity_and_reads_are_as_if_carried_out_at_once() {
    for seed in 1..=60 {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random(seed * 0x9E37_79B9);
        let mut scene = Scene::new(folder.path(), &mut random);
        println!("seed {seed}");
        for _ in 0..8 {
            for _ in 0..1 + random.below(6) {
                match random.below(10) {
                    0 => {
                        let place = random.below(MEMBER_BLOCKS);
                        if scene.read.contains(&(1, place)) {
                            continue;
                        }
                        let bare = (place * BLOCK as u64, BLOCK as u64);
                        let kind = StepKind::Zero {
                            keep_allocated: true,
                        };
                        start_bare(&mut scene.world, scene.started, 1, kind, bare);
                        scene.started += 1;
                        scene.members[1][place as usize] = vec![0; BLOCK];
                        scene.written.push((1, place));
                    }
                    // Attaches the same drive again, as if it had been replaced.
                    1 => scene.world.attach(MemberId(2), scene.drives[2].clone()),
                    2..5 => scene.read(&mut random),
                    _ => scene.row(&mut random),
                }
            }
            scene.end_turn();
        }
    }
}

/// Delayed computations are carried out before a log unit or a bitmap is built in the memory that they use.
#[test]
fn a_log_and_a_bitmap_find_parity_computed() {
    let mut world = world([drive("ram:1m")]);
    let memory = |plan: &mut Plan, step, block: u32, world: &RingWorld<()>| {
        plan.push(step);
        plan.add_source(at(world, block * BLOCK as u32));
    };
    let put_off = |world: &mut RingWorld<()>| {
        put(world, 0, &[1; BLOCK]);
        put(world, BLOCK as u32, &[0; BLOCK]);
        let mut plan = Plan::with_capacity(1, 2);
        let step = Step::compute(StepKind::Compare, 0, BLOCK as u32);
        memory(&mut plan, step, 0, world);
        let target = at(world, BLOCK as u32);
        world.xor(target, BLOCK as u32, plan.segments_of(&plan.steps()[0]));
        assert_eq!(
            get(world, BLOCK as u32, 1),
            [0],
            "the computation was not delayed"
        );
    };
    put_off(&mut world);
    let mut plan = Plan::with_capacity(1, 2);
    let kind = StepKind::Log {
        data_offset_bytes: 0,
        data_bytes: BLOCK as u32,
    };
    memory(&mut plan, Step::compute(kind, 0, BLOCK as u32), 1, &world);
    let entry = engine::log::unit::LogEntry {
        data_offset_bytes: 0,
        data_bytes: BLOCK as u32,
        partial_parity_bytes: BLOCK as u32,
    };
    let unit = LogUnit {
        volume: VolumeId(0),
        slot: Slot(0),
        generation: 1,
        entries: vec![entry],
    };
    let image = at(&world, 1 << 20);
    world.encode_log(&unit, plan.segments_of(&plan.steps()[0]), image);
    let partial_parity = (1 << 20) + LOG_HEADER_BYTES as u32;
    assert!(get(&world, partial_parity, BLOCK) == [1; BLOCK]);

    put_off(&mut world);
    let source = at(&world, 0);
    world.fill(source, &[u64::MAX; BLOCK / 8]);
    assert!(get(&world, 0, BLOCK) == [0xFF; BLOCK]);
    world.reap(&mut Vec::new());
    assert!(get(&world, BLOCK as u32, BLOCK) == [1; BLOCK]);
}

/// Full stripes of every length that can be delayed take one pass, which leaves parity in memory as well.
#[test]
fn a_full_stripe_reaches_members_and_scratch_memory() {
    for (length, sources) in [(512, 1), (4096, 3), (65_536, 3), (131_072, 15), (4096, 20)] {
        let ram = "ram:1m";
        let drives: Vec<Arc<Drive>> = (0..=sources).map(|_| drive(ram)).collect();
        let mut world = world(drives.iter().cloned());
        let mut parity = vec![0; length];
        let mut plan = Plan::with_capacity(1, 32);
        plan.push(Step::compute(StepKind::Compare, 0, length as u32));
        for source in 0..sources {
            let bytes: Vec<u8> = (0..length).map(|n| (n * (source + 3) / 7) as u8).collect();
            parity
                .iter_mut()
                .zip(&bytes)
                .for_each(|(sum, byte)| *sum ^= byte);
            put(&world, (source * length) as u32, &bytes);
            plan.add_source(at(&world, (source * length) as u32));
        }
        let target = (sources * length) as u32;
        world.xor(
            at(&world, target),
            length as u32,
            plan.segments_of(&plan.steps()[0]),
        );
        for piece in 0..=sources {
            let pieces = [((piece * length) as u32, length as u32)];
            start(
                &mut world,
                piece as u64,
                (piece as u8, WRITE, 8192),
                &pieces,
            );
        }
        assert_eq!(results(&mut world, sources + 1).len(), sources + 1);
        assert!(get(&world, target, length) == parity);
        for (piece, drive) in drives.iter().enumerate() {
            let wanted = get(&world, (piece * length) as u32, length);
            assert!(drive.read_at(8192, length).unwrap() == wanted);
            assert!(
                drive
                    .read_at(0, 8192)
                    .unwrap()
                    .iter()
                    .all(|&byte| byte == 0)
            );
        }
    }
}

#[test]
fn a_drive_that_leaves_has_moved_its_bytes() {
    for replaced in [false, true] {
        let drives = [drive("ram:1m"), drive("ram:1m"), drive("ram:1m")];
        drives[0].write_at(4096, &[7; BLOCK]).unwrap();
        let mut world = world(drives.iter().cloned());
        put(&world, 0, &[5; BLOCK]);
        let mut plan = Plan::with_capacity(1, 1);
        plan.push(Step::compute(StepKind::Compare, 0, BLOCK as u32));
        plan.add_source(at(&world, 0));
        let target = at(&world, BLOCK as u32);
        world.xor(target, BLOCK as u32, plan.segments_of(&plan.steps()[0]));
        start(
            &mut world,
            0,
            (1, WRITE, 0),
            &[(BLOCK as u32, BLOCK as u32)],
        );
        start(
            &mut world,
            1,
            (0, StepKind::Read, 4096),
            &[(65_536, BLOCK as u32)],
        );
        for member in [MemberId(0), MemberId(1)] {
            if replaced {
                world.attach(member, drive("null:1m"));
            } else {
                world.detach(member);
            }
        }
        assert_eq!(results(&mut world, 2), [(0, Ok(())), (1, Ok(()))]);
        assert_eq!(get(&world, 65_536, BLOCK), [7; BLOCK]);
        assert_eq!(get(&world, BLOCK as u32, BLOCK), [5; BLOCK]);
        assert_eq!(drives[1].read_at(0, BLOCK).unwrap(), [5; BLOCK]);
    }
}

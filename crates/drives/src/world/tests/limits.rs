//! A hundred times more of everything than a world has room for: nothing is lost, and memory is allocated only once.

use super::*;
use crate::counting::allocations;

/// Receives the answers of `count` I/Os and checks that each token below `count` comes once.
fn all_succeed(
    world: &mut RingWorld<()>,
    count: usize,
    inputs: &mut Vec<Input>,
    seen: &mut [bool],
) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut answered = 0;
    while answered < count {
        world.reap(inputs);
        world.submit();
        assert!(inputs.len() <= 2 * REAP_MAX, "{} in one turn", inputs.len());
        if inputs.is_empty() {
            assert!(Instant::now() < deadline, "only {answered} of {count}");
            let until = world.now().after(Nanos(10_000_000));
            world.wait(Some(until));
        }
        for input in inputs.drain(..) {
            let Input::Done {
                token,
                result: Ok(()),
            } = input
            else {
                panic!("{input:?}")
            };
            assert!(
                !std::mem::replace(&mut seen[token.0 as usize], true),
                "twice: {token:?}"
            );
            answered += 1;
        }
    }
    assert!(seen.iter().all(|&seen| seen));
    seen.fill(false);
}

fn read_of(world: &RingWorld<()>) -> Plan {
    let mut plan = Plan::with_capacity(1, 16);
    let step = Step::member(StepKind::Read, 0, Slot(0), 4096, 512);
    plan.transfer(step, at(world, 0));
    plan
}

fn start_reads(world: &mut RingWorld<()>, plan: &Plan, count: usize) {
    for token in 0..count as u64 {
        let io = Io {
            token: Token(token),
            member: MemberId(0),
            kind: StepKind::Read,
            offset_bytes: 4096,
            length_bytes: 512,
        };
        world.io(io, plan.segments_of(&plan.steps()[0]));
    }
}

/// Starts 100 times more I/O than there is room for, three times. `waiting` returns how much of it waits in the queue
/// under test.
fn flood(drive: Arc<Drive>, waiting: fn(&RingWorld<()>) -> usize) {
    const COUNT: usize = 100 * TRANSFERS;
    let mut world = world([drive]);
    let plan = read_of(&world);
    let (mut inputs, mut seen) = (Vec::with_capacity(2 * REAP_MAX), vec![false; COUNT]);
    let mut grown = [0; 3];
    for grown in &mut grown {
        let before = allocations();
        start_reads(&mut world, &plan, COUNT);
        assert!(waiting(&world) > 99 * TRANSFERS, "{}", waiting(&world));
        all_succeed(&mut world, COUNT, &mut inputs, &mut seen);
        assert_eq!(waiting(&world), 0);
        *grown = allocations() - before;
    }
    assert!(grown[0] > 0, "the first flood allocated no memory");
    // Lists that swap places have all grown by the third flood.
    assert_eq!(
        grown[2], 0,
        "memory is allocated again and again: {grown:?}"
    );
}

#[test]
fn answers_that_throttled_members_hold_back() {
    flood(drive("null:1m,latency=30ms"), |world| world.held.len());
}

#[test]
fn answers_that_come_due_at_once_leave_a_turn_at_a_time() {
    const COUNT: usize = 100 * TRANSFERS;
    let mut world = world([drive("null:1m,latency=1ms")]);
    let plan = read_of(&world);
    start_reads(&mut world, &plan, COUNT);
    let due = clock().after(Nanos(1_000_000));
    while clock() < due {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut inputs = Vec::with_capacity(2 * REAP_MAX);
    world.reap(&mut inputs);
    let given = inputs.len();
    assert!((1..=REAP_MAX).contains(&given), "{given}");
    // Answers that were not given out stay in `held`, so `ready` needs no more room when the loop looks late.
    assert!(world.ready.len() < REAP_MAX, "{}", world.ready.len());
    assert_eq!(world.held.len() + world.ready.len() + given, COUNT);
}

#[test]
fn answers_that_modelled_members_hold_back() {
    // All reads are of the same block: one unit of flash would serve them one by one, but an unmapped block needs none.
    flood(drive("null:1m,model=p4510-8tb,state=fresh"), |world| {
        world.held.len()
    });
}

#[test]
fn answers_that_are_due() {
    flood(drive("ram:1m"), |world| world.ready.len());
}

#[test]
fn io_that_is_with_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let drive = drive(image(folder.path(), "d0.img", 1 << 20));
    flood(drive, |world| world.transfers.len());
}

#[test]
fn messages_that_a_turn_has_for_another_shard() {
    const COUNT: usize = 100 * 2 * REAP_MAX;
    let [mut writer, mut reader] = worlds();
    let mut inputs = Vec::with_capacity(2 * REAP_MAX);
    let mut grown = [0; 4];
    for grown in &mut grown {
        let before = allocations();
        for number in 0..COUNT as u32 {
            let message = Message::ForwardDone {
                ticket: number,
                result: Ok(()),
            };
            writer.send(ShardId(1), message);
        }
        let mut next = 0;
        assert!(writer.mailbox.holds_back());
        while next < COUNT as u32 {
            writer.submit();
            reader.reap(&mut inputs);
            assert!(inputs.len() <= REAP_MAX && !inputs.is_empty());
            for input in inputs.drain(..) {
                let Input::Message(Message::ForwardDone { ticket, .. }) = input else {
                    panic!("{input:?}")
                };
                assert_eq!(ticket, next);
                next += 1;
            }
        }
        *grown = allocations() - before;
    }
    assert!(grown[0] > 0, "the first burst allocated no memory");
    assert_eq!(
        grown[3], 0,
        "memory is allocated again and again: {grown:?}"
    );
}

#[test]
fn records_wait_for_the_memory_of_metadata() {
    const PART_BYTES: usize = 1 << 20;
    const MEMBERS: usize = 7;
    const RECORDS: usize = 100 * METADATA_BYTES / PART_BYTES / MEMBERS;
    // A file in memory where possible, served by helpers: writing takes time but no drive.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let members = (0..MEMBERS).map(|number| {
        let path = image(folder.path(), &format!("d{number}"), 3 << 20);
        let drive = Drive::open(&path.to_str().unwrap().parse().unwrap(), Access::Exclusive);
        Arc::new(drive.unwrap().with_io_path(IoPath::Helpers))
    });
    let mut world = world(members);
    let free_bytes = world.metadata.available_bytes();
    let mut longest = 0;
    for round in 0..2 {
        for number in 0..RECORDS {
            for member in 0..MEMBERS {
                let mut bytes = vec![0; PART_BYTES];
                bytes[..8].copy_from_slice(&(round * RECORDS + number).to_le_bytes());
                bytes[PART_BYTES - 1] = member as u8;
                world.write_metadata(MemberId(member as u8), vec![(4096, bytes)]);
            }
        }
        assert!(world.metadata.waiting_count() > RECORDS * MEMBERS - 2 * MEMBERS);
        // Reads of payload do not wait for metadata.
        start(&mut world, 9, (0, StepKind::Read, 2 << 20), &[(0, 512)]);
        let (mut persisted, mut payload) = ([0; MEMBERS], 0);
        let mut inputs = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while persisted != [RECORDS; MEMBERS] || payload == 0 {
            assert!(Instant::now() < deadline, "only {persisted:?}, {payload}");
            world.reap(&mut inputs);
            world.submit();
            for input in inputs.drain(..) {
                match input {
                    Input::Persisted {
                        member,
                        result: Ok(()),
                    } => persisted[usize::from(member.0)] += 1,
                    Input::Done { result: Ok(()), .. } => payload += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!((world.metadata.waiting_count(), payload), (0, 1));
        assert_eq!(world.metadata.available_bytes(), free_bytes);
        assert!(
            round == 0 || world.metadata.room() == longest,
            "the queue grew again"
        );
        longest = world.metadata.room();
        for member in 0..MEMBERS as u8 {
            start(
                &mut world,
                1,
                (member, StepKind::Read, 4096),
                &[(0, PART_BYTES as u32)],
            );
            succeed(&mut world, 1);
            let last = (round + 1) * RECORDS - 1;
            assert_eq!(
                get(&world, 0, 8),
                last.to_le_bytes(),
                "the last record stays"
            );
            assert_eq!(get(&world, PART_BYTES as u32 - 1, 1), [member]);
        }
    }
}

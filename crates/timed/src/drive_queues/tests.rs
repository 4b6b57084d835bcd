//! Locks and completions of queues that are shared, and of those that are not.

use super::*;
use engine::plan::StepKind;
use engine::token::Token;
use engine::units::MemberId;

const MS: u64 = 1_000_000;

fn host(locks_per_turn: bool) -> Host {
    Host {
        sockets: 2,
        queues: QueueCosts {
            processors: 8,
            lock_changes: 2,
            locks_per_turn,
            held_ns: 100,
            line_ns: [8, 60, 200],
            has_handlers: true,
            spreads_handlers: true,
            handed_lines: 4,
            interrupt_ns: 400,
            kick_ns: 150,
        },
        ..Host::default()
    }
}

fn commands(members: &[u8]) -> Vec<Io> {
    let command = |member: &u8| Io {
        token: Token(0),
        member: MemberId(*member),
        kind: StepKind::Read,
        offset_bytes: 0,
        length_bytes: 4096,
    };
    members.iter().map(command).collect()
}

/// Times per second that so many cores take the lock of one drive's only queue if they do nothing else.
fn locks_per_s(cores: usize) -> f64 {
    let mut queues = DriveQueues::new(&host(true), &[1], cores);
    let one = commands(&[0]);
    let mut free_ns = vec![0; cores];
    let mut locks = 0;
    while let Some((core, &now_ns)) = free_ns.iter().enumerate().min_by_key(|(_, at)| **at) {
        if now_ns >= 4 * MS {
            break;
        }
        locks += u64::from(now_ns >= 2 * MS);
        // The core itself holds the lock until then.
        free_ns[core] = queues.locked_ns(now_ns, now_ns, core, &one) + 100;
    }
    locks as f64 * 1e9 / (2 * MS) as f64
}

#[test]
fn the_lock_of_one_queue_goes_round_among_all_cores() {
    // In one of eight changes the core itself had the line last, in three a core on its socket, in four one on the other.
    let change_ns = (8.0 + 3.0 * 60.0 + 4.0 * 200.0) / 8.0;
    let rate = locks_per_s(8) * (2.0 * change_ns + 100.0) / 1e9;
    assert!((rate - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn a_turn_takes_each_lock_once_or_for_each_command() {
    let [two, both] = [commands(&[0, 0]), commands(&[0, 1])];
    let locked = |per_turn: bool, commands: &[Io]| {
        let mut queues = DriveQueues::new(&host(per_turn), &[1, 1], 2);
        queues.locked_ns(0, 50, 0, commands)
    };
    // Two changes of 8 ns each time. What the core does while it holds the lock is in its work for the commands.
    assert_eq!(locked(true, &two), 66);
    assert_eq!(locked(false, &two), 82);
    assert_eq!(locked(true, &both), 82);
    // While one core holds the lock, another waits.
    let mut queues = DriveQueues::new(&host(true), &[1, 1], 2);
    assert_eq!(queues.locked_ns(0, 50, 0, &two), 66);
    assert_eq!(queues.locked_ns(0, 50, 1, &two), 166 + 16);
    assert_eq!(queues.busy_ns(), 232);
    // Also if it takes the lock for each command: for the second from 166 to 282.
    let mut queues = DriveQueues::new(&host(false), &[1, 1], 2);
    assert_eq!(queues.locked_ns(0, 50, 0, &two), 82);
    assert_eq!(queues.locked_ns(0, 50, 1, &commands(&[0])), 282 + 16);
}

#[test]
fn queues_that_nobody_shares_cost_nothing() {
    let all = commands(&[0, 1, 1]);
    let free = |queues: &[u64], host: &Host, cores| {
        let mut free = DriveQueues::new(host, queues, cores);
        let is_free = (0..cores)
            .all(|core| free.handler(0, core).is_none() && free.locked_ns(0, 50, core, &all) == 50);
        is_free && free.busy_ns() == 0
    };
    assert!(free(&[4, 4], &host(true), 4));
    assert!(free(&[u64::MAX, 4], &host(true), 4));
    assert!(free(&[], &host(true), 4));
    // The second drive is not in the list.
    let mut first = DriveQueues::new(&host(true), &[1], 4);
    assert_eq!(first.handler(1, 3), None);
    assert_eq!(first.locked_ns(0, 50, 3, &commands(&[1, 1])), 50);
    // Sixteen threads on eight processors.
    assert!(free(&[8, 8], &host(true), 16));
    assert!(!free(&[7, 7], &host(true), 16));
    // No processors are modelled.
    assert!(free(&[1, 1], &Host::default(), 4));
    // One drive has enough, the other has not.
    let mut uneven = DriveQueues::new(&host(true), &[4, 1], 4);
    assert_eq!(
        (uneven.handler(0, 3), uneven.handler(1, 3)),
        (None, Some(1))
    );
    assert_eq!(uneven.handler(1, 1), None);
    let mut first = host(true);
    first.queues.spreads_handlers = false;
    assert_eq!(DriveQueues::new(&first, &[4, 1], 4).handler(1, 3), Some(0));
    assert_eq!(uneven.locked_ns(0, 50, 3, &commands(&[0])), 50);
    assert_eq!(uneven.locked_ns(0, 50, 3, &commands(&[1])), 66);
}

#[test]
fn a_handler_takes_one_completion_after_the_other_and_wakes_who_sleeps() {
    let mut queues = DriveQueues::new(&host(true), &[1], 4);
    assert_eq!(queues.handler(0, 0), None, "its own it takes itself");
    assert_eq!(queues.handler(0, 2), Some(0));
    let near = Handing {
        handler: 0,
        submitter: 2,
        is_asleep: true,
    };
    // An interrupt, the answer, four lines of the same socket, and waking the other core.
    let first = queues.handle(near, 1000, 300, true);
    assert_eq!(first.busy_ns, 400 + 300 + 4 * 60 + 150);
    assert_eq!(first.end_ns, 1000 + first.busy_ns);
    // A completion that comes meanwhile waits for it.
    let far = Handing {
        submitter: 1,
        is_asleep: false,
        ..near
    };
    let second = queues.handle(far, 1200, 300, false);
    assert_eq!(second.busy_ns, 300 + 4 * 200);
    assert_eq!(second.end_ns, first.end_ns + second.busy_ns);
    // Who polls finds its own completions.
    let mut polled = host(true);
    polled.queues.has_handlers = false;
    let polled = DriveQueues::new(&polled, &[1], 4);
    assert!((0..4).all(|core| polled.handler(0, core).is_none()));
}

use super::*;
use crate::vhost_user::guest::Broken;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_history_of_a_queue_keeps_the_rules(history in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_one(&history);
    }
}

/// Requests of several pieces, with memory for one piece at a time, across a server that dies in the middle.
#[test]
fn a_request_is_carried_out_piece_by_piece_and_again_by_the_next_server() {
    let mut history = History::begin(1, false);
    // A write and a read of 32 sectors, in two rooms.
    history.ask(0, &mut [3, 31, 7].into_iter());
    history.ask(1, &mut [0, 31, 0].into_iter());
    history.turn();
    assert_eq!(history.in_engine.len(), 1);
    for _ in 0..2 {
        history.complete(0);
        history.turn();
    }
    assert_eq!(history.in_engine[0].offset_bytes, 2 * PAGE_BYTES as u64);
    history.die(0);
    history.turn();
    // The write begins again, and comes first.
    let first = history.in_engine[0];
    assert_eq!((first.operation, first.offset_bytes), (Operation::Write, 0));
    for _ in 0..8 {
        history.complete(0);
        history.turn();
        history.turn();
    }
    assert!(history.asked.iter().all(Option::is_none));
    history.finish();
}

#[test]
fn a_busy_guest_is_looked_at_and_need_not_tell() {
    let mut history = History::begin(2, false);
    history.turn();
    history.turn();
    for round in 0..4 {
        assert_eq!(
            history.driver.is_awaited(),
            round < 2,
            "the first two are told of"
        );
        history.ask(0, &mut [0, 1, 0].into_iter());
        history.turn();
        history.complete(0);
        history.turn();
    }
    history.settle();
    assert!(history.driver.is_awaited(), "an idle guest has to tell");
    history.finish();
}

#[test]
fn a_chain_that_is_made_available_twice_breaks_its_queue() {
    let mut history = History::begin(2, true);
    history.ask(0, &mut [0, 1, 0].into_iter());
    history.turn();
    history.publish(0);
    let mut inputs = Vec::new();
    history.queues.go_on(history.now, &mut inputs);
    assert!(inputs.is_empty());
    let mut broken = None;
    history
        .queues
        .publish(|_, published| broken = published.err());
    assert_eq!(broken, Some(Broken::Twice(0)));
    history.finish();
}

#[test]
fn a_queue_that_ends_takes_nothing_more() {
    let mut history = History::begin(2, false);
    history.ask(0, &mut [0, 1, 0].into_iter());
    history.turn();
    history.ask(1, &mut [0, 1, 0].into_iter());
    history.queues.end(0);
    history.turn();
    assert_eq!(history.in_engine.len(), 1);
    assert!(!history.queues.is_quiet(0), "a request is in the engine");
    history.complete(0);
    history.turn();
    assert!(history.queues.is_quiet(0));
    assert_eq!(history.queues.remove(0), 1);
}

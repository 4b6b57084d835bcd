//! A hundred times more clients, orders and events at once than there is room for.

use super::super::connections::CONNECTIONS_MAX;
use super::*;
use crate::api::BLOCKING_CALLS_MAX;
use crate::api::event_log::KEPT_MAX;
use crate::testing::event;
use std::cell::Cell;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

/// What the clients share and observe while many send requests at once.
struct Seen {
    may_push: Semaphore,
    /// Orders sent and not answered.
    orders: Cell<usize>,
    orders_most: Cell<usize>,
    /// A client found the system's queue of connections full.
    turned_away: Cell<bool>,
}

/// Sends one request on a connection of its own, waiting for the connection as long as it takes. Returns the answer.
async fn ask(socket: PathBuf, request: String, seen: Rc<Seen>) -> String {
    // Clients that are not let in wait outside of the serving process, so a limited number tries at a time.
    let _pushing = seen.may_push.acquire().await.unwrap();
    let mut stream = loop {
        match tokio::net::UnixStream::connect(&socket).await {
            Ok(stream) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => seen.turned_away.set(true),
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let is_order = usize::from(request.starts_with("POST"));
    stream.write_all(request.as_bytes()).await.unwrap();
    seen.orders.set(seen.orders.get() + is_order);
    seen.orders_most
        .set(seen.orders_most.get().max(seen.orders.get()));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    seen.orders.set(seen.orders.get() - is_order);
    answer
}

#[test]
fn a_hundred_times_more_clients_and_orders_than_fit_are_all_answered() {
    const ORDERS: usize = 100 * BLOCKING_CALLS_MAX;
    const CLIENTS: usize = 100 * CONNECTIONS_MAX;
    let served = Served::new(Level::Raid1, 2);
    let free = served.server.as_ref().unwrap().free_connections.clone();
    // The controller refuses the order because no job runs, so each order goes to the controller and back.
    let order = "POST /v1/volumes/v/resume HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let look = "GET /v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let seen = Rc::new(Seen {
        may_push: Semaphore::new(8 * CONNECTIONS_MAX),
        orders: Cell::new(0),
        orders_most: Cell::new(0),
        turned_away: Cell::new(false),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut free_least = CONNECTIONS_MAX;
    let mut answered = (0, 0);
    LocalSet::new().block_on(&runtime, async {
        let mut asking = JoinSet::new();
        for number in 0..CLIENTS {
            let request = if number < ORDERS { order } else { look };
            asking.spawn_local(ask(served.socket(), request.to_owned(), seen.clone()));
        }
        while let Some(answer) = asking.join_next().await {
            free_least = free_least.min(free.available_permits());
            let answer = answer.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            if head.starts_with("HTTP/1.1 200") {
                let status: Status = serde_json::from_str(body).unwrap();
                assert_eq!(status.volumes[0].state, "optimal");
                answered.1 += 1;
            } else {
                assert!(head.starts_with("HTTP/1.1 409"), "{answer}");
                assert!(body.contains("volume v has no background work"), "{body}");
                answered.0 += 1;
            }
        }
    });
    assert_eq!(answered, (ORDERS, CLIENTS - ORDERS));
    assert_eq!(
        free_least, 0,
        "there was always room for another connection"
    );
    assert!(seen.turned_away.get(), "the system's queue was never full");
    assert!(seen.orders_most.get() > BLOCKING_CALLS_MAX);
    // All permits are free again, except the one held for the next connection.
    served.wait_until("the end of all connections", |_| {
        free.available_permits() == CONNECTIONS_MAX - 1
    });
}

#[test]
fn a_listener_that_does_not_read_costs_what_is_kept_and_no_more() {
    const EVENTS: u64 = 100 * KEPT_MAX as u64;
    let served = Served::new(Level::Raid1, 2);
    let first = served.events.since(0, 1).newest;
    let mut stream = UnixStream::connect(served.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /v1/events/stream?since={first} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == ": listening"));
    for number in 1..=EVENTS {
        served.events.add(event(&format!("event {number}")));
        if number % 1000 == 0 {
            // Lets the listener's task buffer as many events as it can.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let (mut next, mut missed) = (first, 0);
    let mut is_forgotten = false;
    while next < first + EVENTS {
        let line = lines.next().expect("the stream continues");
        if let Some(id) = line.strip_prefix("id: ") {
            next += 1;
            assert_eq!(id, next.to_string());
        } else if line == "event: forgotten" {
            is_forgotten = true;
        } else if let Some(data) = line.strip_prefix("data: ")
            && std::mem::take(&mut is_forgotten)
        {
            let count: u64 = data.parse().unwrap();
            next += count;
            missed += count;
        }
    }
    assert!(
        missed > EVENTS / 2,
        "the server kept {} events for a listener",
        EVENTS - missed
    );
    assert_eq!(served.volume().state, "optimal");
}

#[test]
fn the_kernel_waits_for_no_data_thread() {
    let may_join = std::thread::spawn(drives::flusher::join).join().unwrap();
    if !may_join {
        println!("only counted: this user lacks CAP_SYS_RESOURCE");
    }
    let served = Served::new(Level::Raid5, 3);
    // The runtime has started when its data threads have. Those of other tests may still be starting.
    let began = std::time::Instant::now();
    while let (missing, all) = drives::flusher::missing("shard-")
        && (all == 0 || may_join && !missing.is_empty())
    {
        assert!(began.elapsed() < super::PATIENCE, "{missing:?} of {all}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(served);
}

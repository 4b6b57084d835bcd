//! Whatever arrives at the socket, the server continues and the array is not affected.

use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Sends `bytes` and returns what comes back before the connection ends or is silent for a second.
fn send(served: &Served, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(served.socket()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    // The server may have closed the connection in the middle.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn garbage_is_answered_with_an_error_or_not_at_all() {
    let served = Served::new(Level::Raid1, 2);
    let long = format!(
        "GET /v1/status HTTP/1.1\r\nx: {}\r\n\r\n",
        "y".repeat(2 << 20)
    );
    let mut noise = vec![0u8; 64 << 10];
    let mut state = 0x9E37_79B9_u32;
    for byte in &mut noise {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    for bytes in [
        b"\r\n\r\n\r\n".as_slice(),
        b"GET /v1/status\r\n\r\n",
        b"GET /v1/status HTTP/9.9\r\n\r\n",
        b"POST /v1/spares HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST /v1/spares HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n{{{{{",
        b"POST /v1/spares HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/members/%FF%FE/fail HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/members/%FF%FE/fail HTTP/1.1\r\nhost: x\r\n\r\n",
        long.as_bytes(),
        &noise,
        b"",
    ] {
        let answer = send(&served, bytes);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    assert_eq!(served.volume().state, "optimal");
}

#[test]
fn half_a_request_holds_up_nobody() {
    let served = Served::new(Level::Raid1, 2);
    let stuck: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = UnixStream::connect(served.socket()).unwrap();
            stream
                .write_all(b"POST /v1/spares HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
                .unwrap();
            stream
        })
        .collect();
    let begin = Instant::now();
    assert_eq!(served.volume().state, "optimal");
    assert!(begin.elapsed() < Duration::from_secs(5));
    drop(stuck);
}

#[test]
fn many_clients_at_once_get_answers_that_hold_together() {
    let served = Served::new(Level::Raid5, 4);
    std::thread::scope(|scope| {
        let looking: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..30 {
                        let status = served.status();
                        let volume = &status.volumes[0];
                        let whole = volume.slots.iter().all(|slot| slot.state == "in sync");
                        assert_eq!(volume.state == "degraded", !whole, "{status:#?}");
                        let again = serde_json::to_string(&status).unwrap();
                        let again: Status = serde_json::from_str(&again).unwrap();
                        assert_eq!(format!("{again:?}"), format!("{status:?}"));
                    }
                })
            })
            .collect();
        // Of two orders that fail different drives at the same time, one is refused.
        let fail = |path| served.post(path).is_ok();
        let failing = ["/v1/members/M0/fail", "/v1/members/M1/fail"]
            .map(|path| scope.spawn(move || fail(path)));
        let done = failing
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .filter(|&done| done);
        assert_eq!(done.count(), 1);
        looking
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(served.volume().state, "degraded");
}

//! Users who may look and give no orders.

use super::*;
use crate::api::connections::{CONNECTIONS_MAX, READERS_MAX};
use rustix::fs::Gid;
use rustix::process::Uid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A group and a user that exist on no machine by name.
const READERS: u32 = 61_001;
const OTHERS: u32 = 61_002;
const READER: u32 = 61_003;

/// An array whose socket is open to a group, in a folder that everybody may enter. `None`, said aloud, without root.
fn for_readers() -> Option<Served> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can connect as other users");
        return None;
    }
    let specs: Vec<String> = (0..3).map(|at| format!("ram:64m,serial=M{at}")).collect();
    let mut drives = probe_all(&specs, Access::Exclusive).unwrap();
    create(Level::Raid5, &mut drives);
    let container = assemble(drives, StartOptions::default(), false).unwrap();
    let served = Served::for_readers(container, Options::default(), Some(READERS));
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(served.folder.path(), everybody).unwrap();
    Some(served)
}

/// Runs `work` on a thread that belongs to this user, to one group of its own and to further ones.
fn as_user<T: Send>(user: u32, group: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            set_thread_groups(&groups).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// The status line and the body of the answer to a request.
fn exchange(socket: &Path, request: &str) -> std::io::Result<(String, String)> {
    let mut stream = UnixStream::connect(socket)?;
    let head = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(format!("{request} {head}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Ok((head.lines().next().unwrap().to_owned(), body.to_owned()))
}

#[test]
fn the_group_looks_and_only_the_owner_orders() {
    let Some(served) = for_readers() else { return };
    let socket = served.socket();
    for (group, groups) in [(READERS, &[][..]), (OTHERS, &[READERS][..])] {
        as_user(READER, group, groups, || {
            for path in ["/v1/status", "/v1/events", "/metrics", "/v1/openapi.json"] {
                let (status, _) = exchange(&socket, &format!("GET {path}")).unwrap();
                assert_eq!(status, "HTTP/1.1 200 OK", "{path}");
            }
            for order in ["POST /v1/members/M0/fail", "PUT /v1/rate", "POST /v1/stop"] {
                let (status, body) = exchange(&socket, order).unwrap();
                assert_eq!(status, "HTTP/1.1 403 Forbidden", "{order}");
                let sentence =
                    "user 61003 may look at this array but not give it orders; ask as root";
                assert!(body.contains(sentence), "{body}");
            }
        });
    }
    assert!(!served.is_asked_to_stop());
    assert_eq!(served.volume().state, "optimal");
    // Root keeps its rights in every group, and whoever is not in the group is not let in.
    let (status, _) = as_user(0, OTHERS, &[], || {
        exchange(&socket, "POST /v1/members/M0/fail")
    })
    .unwrap();
    assert_eq!(status, "HTTP/1.1 200 OK");
    let refused = as_user(READER, OTHERS, &[], || exchange(&socket, "GET /v1/status"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn readers_never_take_the_last_connections() {
    let Some(served) = for_readers() else { return };
    let socket = served.socket();
    let silent: Vec<UnixStream> = as_user(READER, READERS, &[], || {
        let connect = |_| UnixStream::connect(&socket).unwrap();
        (0..2 * CONNECTIONS_MAX).map(connect).collect()
    });
    served.post("/v1/members/M0/fail").unwrap();
    // What was one too many has been closed.
    let closed = silent.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        matches!((&**stream).read(&mut [0]), Ok(0))
    });
    assert_eq!(closed.count(), 2 * CONNECTIONS_MAX - READERS_MAX);
    drop(silent);
    let again = || {
        as_user(READER, READERS, &[], || {
            exchange(&socket, "GET /v1/status").is_ok()
        })
    };
    let deadline = Instant::now() + PATIENCE;
    while !again() {
        assert!(Instant::now() < deadline, "the places are not free again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

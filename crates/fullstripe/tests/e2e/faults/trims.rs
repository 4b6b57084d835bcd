//! Arrays with one member that cannot discard: a file of nbdfuse whose NBD server has no trim.

use crate::common::faulty::with_faulty;
use crate::common::nbd::{Client, TRIM};
use crate::common::{MIB, Server};

const AREA_BYTES: usize = 8 * MIB as usize;
/// The transmission flag that says that an export can be trimmed.
const SEND_TRIM: u16 = 1 << 5;
const PIECE_BYTES: usize = MIB as usize;

fn fill(client: &mut Client) {
    for at in (0..AREA_BYTES).step_by(PIECE_BYTES) {
        let bytes: Vec<u8> = (at..at + PIECE_BYTES)
            .map(|at| ((at / 512) ^ (at >> 17)) as u8 | 1)
            .collect();
        client.write(at as u64, &bytes).expect("a write");
    }
}

fn read(client: &mut Client) -> Vec<u8> {
    let parts = (0..AREA_BYTES).step_by(PIECE_BYTES);
    parts
        .flat_map(|at| client.read(at as u64, PIECE_BYTES as u32).expect("a read"))
        .collect()
}

fn offers_trim(client: &Client) -> bool {
    client.flags & SEND_TRIM != 0
}

/// Trims the area, writes a block in many places, flushes, and returns the content as read afterwards.
fn trim_and_write(client: &mut Client) -> Vec<u8> {
    // The trim may be refused, and trimmed bytes may read as anything, so the result is ignored.
    let _ = client.simple((TRIM, 0), 0, AREA_BYTES as u32, &[]);
    for number in 0..128u64 {
        let at = number * 61 * 4096 % AREA_BYTES as u64;
        client.write(at, &[number as u8; 4096]).expect("a write");
    }
    client.flush().expect("a flush");
    read(client)
}

fn losing_a_member_changes_nothing(server: &Server<'_>, client: &mut Client, drive: &str) {
    let before = read(client);
    server.order(&["fail", drive]).ok();
    server.wait_event("failure-recorded", "", 10);
    let after = read(client);
    let wrong = before.iter().zip(&after).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "the first byte that differs without the drive");
}

#[test]
fn a_member_that_cannot_discard_leaves_copies_and_parity_right() {
    for (level, members) in [(1, 2), (5, 4), (10, 4)] {
        let (bed, _faulty) = with_faulty(members, 1, 24 * MIB);
        bed.create("data", level, bed.drives(), &[]);
        let server = bed.serve(bed.drives()).start();
        server.wait_optimal(60);
        let mut client = server.client("data");
        fill(&mut client);
        trim_and_write(&mut client);
        assert_eq!(server.volume_state(0), "optimal");
        losing_a_member_changes_nothing(&server, &mut client, "data:0");
        server.stop();
    }
}

#[test]
fn a_spare_that_cannot_discard_leaves_copies_and_parity_right() {
    for (level, members) in [(1, 2), (5, 3)] {
        let (bed, _faulty) = with_faulty(members + 1, members, 24 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed.serve(bed.first(members)).start();
        // Connected while all members can discard.
        let mut client = server.client("data");
        fill(&mut client);
        server.order(&["fail", "data:1"]).ok();
        let spare = bed.drive(members).display().to_string();
        server.order(&["add-spare", &spare]).ok();
        assert!(offers_trim(&client));
        server.wait_event("job-ended", "rebuild finished", 60);
        server.wait_status("without trims for new clients", 20, |_| {
            !offers_trim(&server.client("data"))
        });
        trim_and_write(&mut client);
        server.order(&["scrub", "data", "--wait"]).ok();
        losing_a_member_changes_nothing(&server, &mut client, "data:0");
        server.stop();
    }
}

//! A command that the kernel answers with an errno never counts as done, be it an unsupported command or a sync that
//! might succeed the next time. The drive that answered so is failed, and the other drives hold all data.

use super::rig::{Kind, Rig, Shape};
use crate::common::{Server, nbd};
use faultfs::{Fault, Loss, Operation};
use repeatable::random::Stream;
use rustix::io::Errno;

const FUA_WRITE: (u16, u16) = (nbd::WRITE, nbd::FLAG_FUA);
const BLOCK: usize = 64 << 10;

/// An array on files: its reads, writes and syncs reach the file system unchanged.
fn array(level: u8) -> Rig {
    let shape = Shape {
        level,
        write_hole: "off",
        kind: Kind::File,
        shards: 1,
        heeds_dsync: false,
        held: (0, 0),
    };
    Rig::new(shape, 0, 1)
}

fn expect_failed(server: &Server<'_>, member: usize, errno: Errno) {
    server.wait_event("member-failed", &format!("d{member}"), 20);
    server.wait_status(&format!("degraded by {errno}"), 20, |status| {
        status["volumes"][0]["state"] == "degraded"
    });
}

/// Cuts the power, leaves the failed drive away, and expects the blocks on the other one.
fn expect_on_the_other(rig: &mut Rig, other: usize, blocks: &[u8]) {
    rig.lose(&[Loss::Everything], &mut Stream::new(1, "cut", 0));
    let starting = rig.bed.serve(&[rig.drive(other)]);
    let server = starting.option(&["--degraded"]).start();
    let mut client = server.client("data");
    for (at, byte) in blocks.iter().enumerate() {
        let got = client.read((at * BLOCK) as u64, BLOCK as u32);
        assert!(got == Ok(vec![*byte; BLOCK]), "block {at}");
    }
    server.kill();
}

#[test]
fn a_write_that_the_kernel_does_not_support_costs_the_drive() {
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
        for command in [(nbd::WRITE, 0), FUA_WRITE] {
            let mut rig = array(1);
            let server = rig.serve(&rig.drives());
            let mut client = server.client("data");
            assert_eq!(client.write(0, &[1; BLOCK]), Ok(()));
            let fault = Fault::always(1, Operation::Write, errno.raw_os_error());
            rig.fs.inject(fault);
            let data = [2; BLOCK];
            let written = client.simple(command, BLOCK as u64, BLOCK as u32, &data);
            assert_eq!(written, Ok(()), "{errno:?}");
            assert_eq!(client.flush(), Ok(()), "{errno:?}");
            expect_failed(&server, 1, errno);
            server.kill();
            rig.fs.heal();
            expect_on_the_other(&mut rig, 0, &[1, 2]);
        }
    }
}

#[test]
fn a_read_that_the_kernel_does_not_support_is_answered_by_the_others() {
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
        for member in 0..3 {
            let rig = array(5);
            let server = rig.serve(&rig.drives());
            let mut client = server.client("data");
            for (at, byte) in [1, 2, 3, 4].into_iter().enumerate() {
                assert_eq!(client.write((at * BLOCK) as u64, &[byte; BLOCK]), Ok(()));
            }
            let fault = Fault::always(member, Operation::Read, errno.raw_os_error());
            rig.fs.inject(fault);
            for (at, byte) in [1, 2, 3, 4].into_iter().enumerate() {
                let got = client.read((at * BLOCK) as u64, BLOCK as u32);
                assert!(got == Ok(vec![byte; BLOCK]), "{errno:?}, block {at}");
            }
            expect_failed(&server, member, errno);
            server.kill();
        }
    }
}

/// The kernel reports a failed write-back once. A second sync succeeds although the data are lost.
#[test]
fn a_flush_that_failed_once_is_not_asked_again() {
    let errnos = [
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::BUSY,
        Errno::NOBUFS,
        Errno::INTR,
        Errno::OPNOTSUPP,
        Errno::IO,
    ];
    for errno in errnos {
        let mut rig = array(1);
        let server = rig.serve(&rig.drives());
        let mut client = server.client("data");
        assert_eq!(client.write(0, &[1; BLOCK]), Ok(()));
        assert_eq!(client.flush(), Ok(()));
        assert_eq!(client.write(BLOCK as u64, &[2; BLOCK]), Ok(()));
        rig.fs.inject(Fault {
            loses: true,
            ..Fault::once(0, Operation::Sync, errno.raw_os_error())
        });
        assert_eq!(client.flush(), Ok(()), "{errno:?}");
        expect_failed(&server, 0, errno);
        server.kill();
        expect_on_the_other(&mut rig, 1, &[1, 2]);
    }
}

/// `create` writes metadata without the engine, so its syncs are tested by themselves.
#[test]
fn what_create_has_written_outlasts_the_power() {
    let mut rig = array(5);
    rig.lose(&[Loss::Everything], &mut Stream::new(1, "cut", 0));
    let server = rig.serve(&rig.drives());
    let mut client = server.client("data");
    assert_eq!(client.write(0, &[1; BLOCK]), Ok(()));
    server.stop();
}

//! Connections between the kernel and the shards: each is a pair of sockets, of which the kernel gets one end and a shard's
//! port the other.
//!
//! We keep a second descriptor of the shard's end. It tells whether the kernel still holds its end, which it does not say
//! in any other way: when connections are replaced, the kernel closes those that it has no place for, and reports success.

use super::handshake::{Negotiated, choose};
use crate::export::{Messages, Offer};
use crate::nbd::left::LeftConnection;
use crate::nbd::server::NewConnection;
use anyhow::{Context, Result, ensure};
use engine::units::ShardId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a shard may take to offer the volume.
const OFFERED_WITHIN: Duration = Duration::from_secs(10);

/// A connection that the kernel does not have yet.
#[derive(Debug)]
pub(super) struct Prepared {
    kernels_end: UnixStream,
    kept: Kept,
}

/// A connection that the kernel has.
#[derive(Debug)]
pub(super) struct Kept {
    /// The shard that serves it.
    pub shard: ShardId,
    shards_end: OwnedFd,
    served: Weak<()>,
}

impl Prepared {
    /// Connects to the port of a shard, and chooses the volume.
    ///
    /// # Errors
    /// The shard does not offer the volume as it is described.
    pub fn make(
        offer: &Offer,
        shard: ShardId,
        messages: &Messages,
    ) -> Result<(Prepared, Negotiated)> {
        let (kernels_end, shards_end) = UnixStream::pair().context("cannot make sockets")?;
        let until_served = Arc::new(());
        let kept = Kept {
            shard,
            shards_end: shards_end
                .try_clone()
                .context("cannot keep a socket")?
                .into(),
            served: Arc::downgrade(&until_served),
        };
        let connection = NewConnection {
            until_served: Some(until_served),
            ..NewConnection::new(shards_end)
        };
        messages.to(shard, Box::new(connection));
        let negotiated = choose(&kernels_end, &offer.name, OFFERED_WITHIN)?;
        ensure!(
            negotiated.size_bytes == offer.size_bytes,
            "the server offers {} bytes of a volume that has {}",
            negotiated.size_bytes,
            offer.size_bytes
        );
        Ok((Prepared { kernels_end, kept }, negotiated))
    }

    /// The kernel's end.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.kernels_end.as_fd()
    }

    /// The kernel has taken its end, or not: closes our descriptor of it.
    pub fn given(self) -> Kept {
        self.kept
    }
}

impl Kept {
    /// Serves a connection of the process before on; `None` if the kernel has given it up meanwhile.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn go_on(
        left: LeftConnection,
        shard: ShardId,
        messages: &Messages,
    ) -> Result<Option<Kept>> {
        let until_served = Arc::new(());
        let kept = Kept {
            shard,
            shards_end: left.socket.try_clone().context("cannot keep a socket")?,
            served: Arc::downgrade(&until_served),
        };
        if kept.has_ended() {
            return Ok(None);
        }
        let connection = NewConnection {
            until_served: Some(until_served),
            session: Some(left.note.session),
            ..NewConnection::new(left.socket)
        };
        messages.to(shard, Box::new(connection));
        Ok(Some(kept))
    }

    /// Whether the kernel has closed its end, or never took it.
    pub fn has_ended(&self) -> bool {
        // Nothing is asked for: the end of a connection is always told.
        let mut polled = [PollFd::new(&self.shards_end, PollFlags::empty())];
        let at_once = Timespec::default();
        let answer = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&at_once)));
        answer.is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Whether the shard still serves what it has received. Until it has ended, its requests may be carried out.
    pub fn is_served(&self) -> bool {
        self.served.strong_count() > 0
    }

    /// Ends the connection in both directions at once. Requests that are not answered stay with the kernel.
    pub fn cut(&self) {
        // It fails only if the other end is gone.
        let _ = rustix::net::shutdown(&self.shards_end, rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::port::PortNumber;
    use engine::units::{Nanos, VolumeId};
    use std::io::{Read, Write};
    use std::sync::atomic::Ordering;

    use crate::nbd::server::tests::client::{Client, pattern, request};
    use crate::nbd::server::tests::rig::{Rig, wait_until};
    use crate::nbd::wire::*;

    fn offer(rig: &Rig, name: &str) -> Offer {
        Offer {
            volume: VolumeId(0),
            name: name.into(),
            identity: *b"0123456789abcdef",
            description: String::new(),
            size_bytes: rig.size_bytes,
            block_bytes: 512,
            chunk_bytes: 64 << 10,
            row_bytes: 128 << 10,
            read_only: false,
            discards: true,
        }
    }

    fn messages(rig: &Rig) -> Messages {
        Messages::new(rig.peers.clone(), PortNumber::new(1))
    }

    #[test]
    fn the_kernel_gets_connections_to_all_shards_in_the_transmission_phase() {
        let rig = Rig::with(|plan| plan.shards = 2);
        let messages = messages(&rig);
        let data = pattern(3, 256 << 10);
        let mut ends = Vec::new();
        for shard in 0..2 {
            let (prepared, negotiated) =
                Prepared::make(&offer(&rig, "vol0"), ShardId(shard), &messages).unwrap();
            assert_eq!(negotiated.size_bytes, rig.size_bytes);
            assert_eq!(negotiated.flags & FLAG_CAN_MULTI_CONN, FLAG_CAN_MULTI_CONN);
            assert_eq!(negotiated.flags, 0b1001_0110_1101);
            assert_eq!(negotiated.payload_bytes_max, 32 << 20);
            assert_eq!(rig.stats(shard.into()).connections_accepted, 1);
            let kernels = prepared.kernels_end.try_clone().unwrap();
            assert_eq!(kernels.read_timeout().unwrap(), None);
            assert_eq!(kernels.write_timeout().unwrap(), None);
            let kept = prepared.given();
            assert!(!kept.has_ended());
            ends.push((kept, Client::transmitting(kernels, rig.size_bytes)));
        }
        ends[0].1.write(4096, &data, 0);
        assert!(ends[1].1.read(4096, data.len() as u32) == data);
        let (kept, client) = ends.pop().unwrap();
        assert!(kept.is_served());
        drop(client);
        assert!(kept.has_ended());
        wait_until("the shard is done with it", || !kept.is_served());
        assert!(!ends[0].0.has_ended());
        // What the kernel sees of a server that leaves the device to the next one.
        ends[0].0.cut();
        ends[0].1.expect_end();
    }

    /// Without the cut, the port answers what it has not read yet with "shutting down": errors to a file system.
    #[test]
    fn a_server_that_stops_answers_no_request_of_a_left_device_with_an_error() {
        let rig = Rig::with(|plan| {
            plan.member_options = ",latency=20ms";
            // Long enough for the port to read everything.
            plan.limits.stop_notice = Nanos(5 * Nanos::SECOND.0);
        });
        let (prepared, _) =
            Prepared::make(&offer(&rig, "vol0"), ShardId(0), &messages(&rig)).unwrap();
        let mut kernels = prepared.kernels_end.try_clone().unwrap();
        let kept = prepared.given();
        // More than a connection may have in flight, so some of them are not read yet.
        for cookie in 0..200 {
            let header = request(CMD_WRITE, 0, cookie, cookie * 512, 512);
            kernels.write_all(&header).unwrap();
            kernels.write_all(&[7; 512]).unwrap();
        }
        wait_until("requests are in flight", || rig.stats(0).requests >= 100);
        kept.cut();
        drop(kept);
        let drained = rig.stop(0);
        let mut replies = Vec::new();
        if let Err(error) = kernels.read_to_end(&mut replies) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        let errors = replies.chunks(16).filter(|reply| reply[4..8] != [0; 4]);
        assert_eq!(errors.count(), 0);
        wait_until("the port has stopped", || drained.load(Ordering::SeqCst));
        rig.wait_until_idle();
    }

    #[test]
    fn a_connection_is_served_until_its_requests_are_answered() {
        let rig = Rig::with(|plan| plan.member_options = ",latency=3s");
        let (prepared, _) =
            Prepared::make(&offer(&rig, "vol0"), ShardId(0), &messages(&rig)).unwrap();
        let mut kernels = prepared.kernels_end.try_clone().unwrap();
        let kept = prepared.given();
        kernels
            .write_all(&request(CMD_WRITE, 0, 1, 0, 512))
            .unwrap();
        kernels.write_all(&[7; 512]).unwrap();
        wait_until("the engine has it", || rig.stats(0).requests == 1);
        drop(kernels);
        assert!(kept.has_ended() && kept.is_served());
        wait_until("the port is done with it", || !kept.is_served());
    }

    #[test]
    fn a_connection_that_the_port_ends_is_noticed_and_can_be_cut() {
        let rig = Rig::with(|_| ());
        let (prepared, _) =
            Prepared::make(&offer(&rig, "vol0"), ShardId(0), &messages(&rig)).unwrap();
        let mut kernels = prepared.kernels_end.try_clone().unwrap();
        let kept = prepared.given();
        kernels.write_all(&[0x55; 28]).unwrap();
        wait_until("the port ends it", || !kept.is_served());
        kept.cut();
        assert!(kept.has_ended());
        assert_eq!(kernels.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_port_that_is_full_says_so_at_once() {
        let rig = Rig::with(|plan| plan.limits.connections_max = 1);
        let messages = messages(&rig);
        let _first = Prepared::make(&offer(&rig, "vol0"), ShardId(0), &messages).unwrap();
        let error = Prepared::make(&offer(&rig, "vol0"), ShardId(0), &messages).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("has no room"), "{error}");
    }

    #[test]
    fn a_connection_that_the_kernel_did_not_take_has_ended() {
        let rig = Rig::with(|_| ());
        let (prepared, _) =
            Prepared::make(&offer(&rig, "vol0"), ShardId(0), &messages(&rig)).unwrap();
        assert!(prepared.given().has_ended());
    }

    #[test]
    fn a_volume_that_is_not_offered_is_refused() {
        let rig = Rig::with(|_| ());
        let messages = messages(&rig);
        let refused = |offer: &Offer| {
            let error = Prepared::make(offer, ShardId(0), &messages).unwrap_err();
            format!("{error:#}")
        };
        let error = refused(&offer(&rig, "nowhere"));
        assert!(
            error.starts_with("the server does not offer volume nowhere: "),
            "{error}"
        );
        let mut larger = offer(&rig, "vol0");
        larger.size_bytes += 512;
        assert!(refused(&larger).contains("the server offers "));
    }
}

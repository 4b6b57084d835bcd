//! A volume as a device of the kernel: how it is connected, taken over, kept alive and given up.

use super::connections::{Kept, Prepared};
use super::control::{Connections, Control, ControlError, Wanted};
use super::handshake::Negotiated;
use super::sysfs::{self, Shape};
use super::{DEAD_CONNECTION_TIMEOUT, request_timeout};
use crate::block_device::claim;
use crate::export::{Messages, Offer};
use crate::nbd::left::LeftConnection;
use crate::nvmet::names;
use anyhow::{Context, Result, anyhow, ensure};
use engine::units::ShardId;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take to notice that the process which had the device has ended, and to let go of a device that
/// was given up.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A device that is connected to this process.
///
/// Dropping it leaves the device to the next process: its connections are cut, and its requests wait in the kernel. It is
/// given up ([`Device::disconnect`]) or dropped before the ports stop, because they would answer requests with an error
/// then.
#[derive(Debug)]
pub struct Device {
    number: u32,
    identifier: String,
    /// How long a drive may take to answer.
    deadline: Duration,
    /// How many connections the kernel uses.
    wanted: usize,
    connections: Vec<Kept>,
}

/// The text by which the next process recognises the device of a volume. The kernel keeps it with the device.
pub(super) fn identifier(identity: &[u8; 16]) -> String {
    format!("fullstripe:{}", names::uuid(identity))
}

/// As many connections as shards, but no more than processors: the kernel has no more queues than these, and would use
/// further connections only when others end.
fn connections_for(messages: &Messages) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    usize::from(messages.shards()).min(processors)
}

impl Device {
    /// Takes the volume's device over if an earlier process has left one, and makes one otherwise. `deadline` is the time
    /// after which a drive that does not answer is failed.
    ///
    /// # Errors
    /// One sentence. Nothing of a new device is left; a device that could not be taken over stays as it is.
    pub fn attach(offer: &Offer, deadline: Duration, messages: &Messages) -> Result<Device> {
        match Device::take_over(offer, deadline, Vec::new(), messages)? {
            Some(device) => Ok(device),
            None => Device::connect(offer, deadline, messages),
        }
    }

    /// Takes the volume's device over, if an earlier process has left one. The connections that were `left` are served on,
    /// and the kernel notices nothing of it. In place of those that are missing it gets new ones, and requests that were not
    /// answered come to this process.
    ///
    /// # Errors
    /// One sentence; the device stays as it is.
    pub fn take_over(
        offer: &Offer,
        deadline: Duration,
        left: Vec<LeftConnection>,
        messages: &Messages,
    ) -> Result<Option<Device>> {
        let identifier = identifier(&offer.identity);
        let found = sysfs::find(Path::new(sysfs::FOLDER), &identifier)?;
        let Some(number) = found else {
            return Ok(None);
        };
        let shape = sysfs::shape(Path::new(sysfs::FOLDER), number)?;
        check_shape(offer, number, &shape)?;
        let mut device = Device {
            number,
            identifier,
            deadline,
            wanted: shape.connections,
            connections: Vec::new(),
        };
        device.go_on(left, messages)?;
        if device.connections.len() >= device.wanted {
            return Ok(Some(device));
        }
        device.replace_ended(offer, messages, NOTICED_WITHIN)?;
        Ok(Some(device))
    }

    /// Serves connections of the process before on.
    fn go_on(&mut self, left: Vec<LeftConnection>, messages: &Messages) -> Result<()> {
        let shards = (0..messages.shards()).cycle();
        for (connection, shard) in left.into_iter().take(self.wanted).zip(shards) {
            let kept = Kept::go_on(connection, ShardId(shard), messages)?;
            self.connections.extend(kept);
        }
        Ok(())
    }

    /// Leaves the device and its connections to the next process.
    pub fn leave(mut self) {
        self.connections.clear();
    }

    fn connect(offer: &Offer, deadline: Duration, messages: &Messages) -> Result<Device> {
        let mut control = Control::open()?;
        let mut device = Device {
            number: 0,
            identifier: identifier(&offer.identity),
            deadline,
            wanted: connections_for(messages),
            connections: Vec::new(),
        };
        let (prepared, negotiated) = device.prepare(offer, messages)?;
        let sockets: Vec<_> = prepared.iter().map(Prepared::socket).collect();
        device.number = control.connect(&Wanted {
            size_bytes: offer.size_bytes,
            block_bytes: offer.block_bytes,
            flags: negotiated.flags,
            connections: device.connections_with(&sockets),
        })?;
        device.connections = prepared.into_iter().map(Prepared::given).collect();
        if let Err(error) = device.finish(negotiated.payload_bytes_max) {
            let path = device.path();
            return Err(match control.disconnect(device.number) {
                Ok(()) => error,
                Err(other) => error.context(format!("{} is left over ({other})", path.display())),
            });
        }
        Ok(device)
    }

    /// What remains to be done when the kernel has made the device.
    fn finish(&self, payload_bytes_max: u32) -> Result<()> {
        if !self.is_ours()? {
            return Err(ControlError::TooOld.into());
        }
        sysfs::limit_requests(Path::new(sysfs::FOLDER), self.number, payload_bytes_max)
    }

    /// The shards to which connections are missing. All connections together go to the shards in turn.
    fn missing(&self, shards: u8) -> Vec<ShardId> {
        let mut there: Vec<ShardId> = self.connections.iter().map(|one| one.shard).collect();
        let in_turn = (0..self.wanted).map(|at| ShardId((at % usize::from(shards)) as u8));
        in_turn
            .filter(|shard| match there.iter().position(|one| one == shard) {
                Some(at) => {
                    there.swap_remove(at);
                    false
                }
                None => true,
            })
            .collect()
    }

    /// The connections that are missing, and what all of them say of the volume.
    fn prepare(&self, offer: &Offer, messages: &Messages) -> Result<(Vec<Prepared>, Negotiated)> {
        let missing = self.missing(messages.shards()).into_iter();
        let made: Result<Vec<_>> = missing
            .map(|shard| Prepared::make(offer, shard, messages))
            .collect();
        let (prepared, negotiated): (Vec<_>, Vec<_>) = made?.into_iter().unzip();
        let first = negotiated.first().context("a device has a connection")?;
        Ok((prepared, *first))
    }

    fn connections_with<'a>(
        &'a self,
        sockets: &'a [std::os::fd::BorrowedFd<'a>],
    ) -> Connections<'a> {
        Connections {
            identifier: &self.identifier,
            request_timeout_s: request_timeout(self.deadline, self.wanted).as_secs(),
            dead_connection_timeout_s: DEAD_CONNECTION_TIMEOUT.as_secs(),
            sockets,
        }
    }

    /// Replaces connections that the kernel has given up, because the process stood still for longer than a request may
    /// take. To be called now and then; without it requests would wait although there is a server. The shards have to be
    /// done with all that has ended: requests that they still carry out could overwrite what the kernel, which has sent
    /// them again, writes afterwards.
    ///
    /// # Errors
    /// One sentence; it can be tried again.
    pub fn mend(&mut self, offer: &Offer, messages: &Messages) -> Result<Mended> {
        // A shard may end a connection by itself, as it does when a rule is broken. We have its end open, too, so the kernel
        // would not notice.
        let let_go = self.connections.iter().filter(|one| !one.is_served());
        let_go.for_each(Kept::cut);
        let ended = || self.connections.iter().filter(|one| one.has_ended());
        let is_whole = ended().count() == 0 && self.connections.len() == self.wanted;
        if is_whole || ended().any(Kept::is_served) {
            return Ok(Mended::Nothing);
        }
        if !self.is_ours()? {
            return Ok(Mended::Gone);
        }
        // One that has ended meanwhile, and is still served, waits for the next time.
        self.connections
            .retain(|one| !one.has_ended() || one.is_served());
        // This server may take shorter requests than the one before, whose connections it could not go on with then.
        self.replace_ended(offer, messages, Duration::ZERO)
            .with_context(|| format!("{} cannot be connected again", self.path().display()))?;
        Ok(Mended::Replaced)
    }

    /// Whether the kernel's device with this number is still this one: another program may have given it up, and the number
    /// may be another device's by now.
    fn is_ours(&self) -> Result<bool> {
        Ok(sysfs::find(Path::new(sysfs::FOLDER), &self.identifier)? == Some(self.number))
    }

    /// Gives the kernel connections until it has taken as many as are wanted, and has it send no longer requests than this
    /// server takes. The kernel takes one for each that it knows to have ended, and may notice ends a little later than we
    /// do. It gets the times with them, because requests that wait begin to count with the first connection.
    fn replace_ended(
        &mut self,
        offer: &Offer,
        messages: &Messages,
        within: Duration,
    ) -> Result<()> {
        let mut control = Control::open()?;
        let give_up = Instant::now() + within;
        loop {
            let (prepared, negotiated) = self.prepare(offer, messages)?;
            let sockets: Vec<_> = prepared.iter().map(Prepared::socket).collect();
            let asked = control.reconfigure(self.number, &self.connections_with(&sockets));
            asked.map_err(|error| self.explain(error))?;
            let given = prepared.into_iter().map(Prepared::given);
            self.connections
                .extend(given.filter(|connection| !connection.has_ended()));
            if self.connections.len() >= self.wanted {
                // Not before: on some kernels this waits until all requests are answered.
                let payload_bytes_max = negotiated.payload_bytes_max;
                let block = Path::new(sysfs::FOLDER);
                return sysfs::limit_requests(block, self.number, payload_bytes_max);
            }
            ensure!(
                Instant::now() < give_up,
                "{} still has {} connections to another server; stop that server first",
                self.path().display(),
                self.wanted - self.connections.len()
            );
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    fn explain(&self, error: ControlError) -> anyhow::Error {
        match error.is(Errno::INVAL) {
            true => anyhow!(
                "{} has been given up and is still open; end what uses it",
                self.path().display()
            ),
            false => error.into(),
        }
    }

    /// The block device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        block_device(self.number)
    }

    /// Gives the device of a volume up, and waits a while until it is gone. One that somebody else has given up is gone.
    ///
    /// # Errors
    /// One sentence: it is in use, or the kernel refuses.
    pub fn disconnect(&self, volume: &str) -> Result<()> {
        if !self.is_ours()? {
            return Ok(());
        }
        let path = self.path();
        let claimed = claim(volume, &path)?;
        let ended = Control::open().and_then(|mut control| control.disconnect(self.number));
        ended.with_context(|| format!("{} was not given up", path.display()))?;
        drop(claimed);
        // Something may look at it for a moment, as udev does. It keeps the device open, but gets nothing from it.
        let give_up = Instant::now() + NOTICED_WITHIN;
        while sysfs::is_connected(Path::new(sysfs::FOLDER), self.number) && Instant::now() < give_up
        {
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.connections.iter().for_each(Kept::cut);
    }
}

/// What [`Device::mend`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mended {
    /// Nothing to do, or not yet.
    Nothing,
    /// Connections have been replaced.
    Replaced,
    /// Another program has given the device up.
    Gone,
}

pub(super) fn block_device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/nbd{number}"))
}

/// A device keeps its size and what it allows. What is on a volume of another size is not what was on the device.
fn check_shape(offer: &Offer, number: u32, shape: &Shape) -> Result<()> {
    let path = block_device(number);
    let path = path.display();
    ensure!(
        shape.size_bytes == offer.size_bytes && shape.block_bytes == offer.block_bytes,
        "{path} is left over from it and has {} bytes in blocks of {}, but the volume has {} in blocks of {}; give the device up with 'fullstripe detach {} --give-up'",
        shape.size_bytes,
        shape.block_bytes,
        offer.size_bytes,
        offer.block_bytes,
        offer.name
    );
    ensure!(
        !offer.read_only || shape.read_only,
        "{path} is left over from it with requests that may be writes; serve it without --read-only"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::server::tests::rig::Rig;
    use drives::port::PortNumber;
    use engine::units::VolumeId;

    fn offer() -> Offer {
        Offer {
            volume: VolumeId(0),
            name: "vol0".into(),
            identity: std::array::from_fn(|at| at as u8 * 0x11),
            description: String::new(),
            size_bytes: 1 << 30,
            block_bytes: 4096,
            chunk_bytes: 64 << 10,
            row_bytes: 128 << 10,
            read_only: false,
            discards: true,
        }
    }

    #[test]
    fn a_volume_is_recognised_by_its_uuid() {
        assert_eq!(
            identifier(&offer().identity),
            "fullstripe:00112233-4455-6677-8899-aabbccddeeff"
        );
    }

    #[test]
    fn a_device_of_another_shape_is_not_taken_over() {
        let shape = Shape {
            size_bytes: 1 << 30,
            block_bytes: 4096,
            read_only: false,
            connections: 2,
        };
        check_shape(&offer(), 3, &shape).unwrap();
        let refused =
            |offer: &Offer, shape: &Shape| check_shape(offer, 3, shape).unwrap_err().to_string();
        let smaller = Shape {
            size_bytes: 1 << 29,
            ..shape
        };
        assert_eq!(
            refused(&offer(), &smaller),
            "/dev/nbd3 is left over from it and has 536870912 bytes in blocks of 4096, but the volume has 1073741824 in blocks of 4096; give the device up with 'fullstripe detach vol0 --give-up'"
        );
        let finer = Shape {
            block_bytes: 512,
            ..shape
        };
        assert!(refused(&offer(), &finer).contains("in blocks of 512, but"));
        let read_only = Offer {
            read_only: true,
            ..offer()
        };
        assert!(refused(&read_only, &shape).contains("serve it without --read-only"));
        check_shape(
            &read_only,
            3,
            &Shape {
                read_only: true,
                ..shape
            },
        )
        .unwrap();
    }

    /// A connection that no kernel has.
    fn kept(shard: u8) -> Kept {
        let rig = Rig::with(|plan| plan.shards = 2);
        let messages = Messages::new(rig.peers.clone(), PortNumber::new(1));
        let offer = Offer {
            size_bytes: rig.size_bytes,
            ..offer()
        };
        let (prepared, _) = Prepared::make(&offer, ShardId(shard), &messages).unwrap();
        prepared.given()
    }

    #[test]
    fn a_lost_connection_is_missing_to_its_own_shard() {
        let missing = |there: &[u8], wanted, shards| -> Vec<u8> {
            let device = Device {
                number: u32::MAX,
                identifier: String::new(),
                deadline: Duration::from_secs(30),
                wanted,
                connections: there.iter().map(|shard| kept(*shard)).collect(),
            };
            let missing = device.missing(shards).into_iter();
            missing.map(|shard| shard.0).collect()
        };
        assert_eq!(missing(&[], 4, 3), [0, 1, 2, 0]);
        assert_eq!(missing(&[0], 2, 2), [1]);
        assert_eq!(missing(&[1], 2, 2), [0]);
        assert_eq!(missing(&[0, 0], 4, 2), [1, 1]);
        assert!(missing(&[0, 1], 2, 2).is_empty());
    }

    /// The sentence that a user reads on a machine without the driver.
    #[test]
    fn without_the_driver_no_device_is_made() {
        if Path::new("/sys/module/nbd").exists() {
            eprintln!("skipped: this kernel has the driver");
            return;
        }
        let messages = Messages::new(Vec::new(), PortNumber::new(0));
        let error = Device::attach(&offer(), Duration::from_secs(30), &messages).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.starts_with("this kernel has no NBD client: load its module with 'modprobe nbd'"),
            "{text}"
        );
    }

    #[test]
    fn a_device_that_somebody_else_has_given_up_is_gone() {
        let device = Device {
            number: u32::MAX,
            identifier: identifier(&offer().identity),
            deadline: Duration::from_secs(30),
            wanted: 1,
            connections: Vec::new(),
        };
        device.disconnect("vol0").unwrap();
    }
}

//! One connection of a front end: what it says on the control socket, and the queues that follow from it.
//!
//! A queue is served while all that it needs is known and it is enabled. Whatever would change under a queue that is
//! served (memory, places, size) ends it first: it answers what it has taken, then it begins again. So nothing here
//! touches memory of a guest that has been taken away.

use super::chain::DESCRIPTORS_MAX;
use super::device::{self, QUEUES_MAX};
use super::guest::{Broken, Guest};
use super::in_flight::{InFlight, area_bytes};
use super::port::{End, NewCall, NewQueue, QueueId};
use super::queue::Opening;
use super::regions::{Regions, map_file};
use super::split_ring::{Places, SplitRing};
use super::wire::*;
use crate::export::{Offer, Say};
use engine::units::ShardId;
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, ftruncate, memfd_create};
use std::any::Any;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use vhost::vhost_user::Error;
use vhost::vhost_user::message::{VhostUserInflight, VhostUserMemoryRegion, VhostUserVringState};
use vm_memory::{GuestAddress, GuestRegionMmap};

/// How often a wait for a shard looks whether the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Names queues: see [`QueueId`].
static NEXT_QUEUE: AtomicU64 = AtomicU64::new(0);

/// A refusal whose sentence goes to the log.
fn refused(sentence: impl Into<String>) -> Error {
    Error::ReqHandlerError(io::Error::other(sentence.into()))
}

/// The shards that serve queues.
pub(super) struct Shards {
    pub count: u8,
    /// Sends a message to the port of one.
    pub send: SendTo,
}

/// Sends a message to the port of a shard.
pub(super) type SendTo = Box<dyn Fn(ShardId, Box<dyn Any + Send>) + Send>;

/// What the front end has said of a queue.
#[derive(Default)]
struct Vring {
    size: u16,
    /// In the front end's own addresses: table, available, used.
    places: Option<[u64; 3]>,
    next_available: u16,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    is_enabled: bool,
    served: Option<QueueId>,
}

/// See the module's documentation.
pub(super) struct Session {
    offer: Offer,
    shards: Shards,
    say: Say,
    /// Whether the server ends, so that a shard may not answer any more.
    is_stopping: Arc<AtomicBool>,
    accepted: u64,
    /// Whether features were accepted: nothing is served before.
    is_accepted: bool,
    regions: Regions,
    guest: Option<Arc<Guest>>,
    in_flight: Option<(Arc<Guest>, VhostUserInflight)>,
    vrings: Vec<Vring>,
}

impl Session {
    /// A front end has connected that wants to use the volume of this offer.
    pub fn new(offer: Offer, shards: Shards, say: Say, is_stopping: Arc<AtomicBool>) -> Session {
        Session {
            offer,
            shards,
            say,
            is_stopping,
            accepted: 0,
            is_accepted: false,
            regions: Regions::default(),
            guest: None,
            in_flight: None,
            vrings: (0..QUEUES_MAX).map(|_| Vring::default()).collect(),
        }
    }

    fn shard(&self, index: usize) -> ShardId {
        ShardId((index % usize::from(self.shards.count)) as u8)
    }

    fn vring(&mut self, index: usize) -> Result<&mut Vring, Error> {
        let vring = self.vrings.get_mut(index);
        vring.ok_or_else(|| refused(format!("there is no queue {index}")))
    }

    /// Ends a queue, and waits until all that it has taken is answered.
    ///
    /// # Errors
    /// The server ends: its port has ended the queue, and does not say any more which chain is next.
    fn end(&mut self, index: usize) -> Result<(), Error> {
        let shard = self.shard(index);
        let vring = &mut self.vrings[index];
        let Some(id) = vring.served.take() else {
            return Ok(());
        };
        let (next_available, answer) = channel();
        (self.shards.send)(shard, Box::new(End { id, next_available }));
        loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(next) => {
                    vring.next_available = next;
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) if !self.is_stopping.load(Ordering::SeqCst) => {}
                Err(_) => return Err(refused("the server ends")),
            }
        }
    }

    /// Ends all queues, and waits until all that they have taken is answered.
    ///
    /// # Errors
    /// The server ends.
    pub fn end_all(&mut self) -> Result<(), Error> {
        (0..self.vrings.len()).try_for_each(|index| self.end(index))
    }

    /// Serves a queue if everything is known that it needs, unless it is served already.
    fn begin(&mut self, index: usize) -> Result<(), Error> {
        let vring = &self.vrings[index];
        let is_ready = vring.is_enabled || self.accepted & FEATURE_PROTOCOL == 0;
        let (Some(guest), Some(kick), Some(places)) = (&self.guest, &vring.kick, vring.places)
        else {
            return Ok(());
        };
        if vring.served.is_some() || vring.size == 0 || !is_ready || !self.is_accepted {
            return Ok(());
        }
        let shown = format!("queue {index} of volume {}", self.offer.name);
        let guest = guest.clone();
        let opening = self.opening(index, guest, places);
        let opening = opening.map_err(|broken| refused(format!("{shown}: {broken}")))?;
        let copy = |file: &Option<File>| file.as_ref().map(File::try_clone).transpose();
        let io = Error::ReqHandlerError;
        let new = NewQueue {
            id: QueueId(NEXT_QUEUE.fetch_add(1, Ordering::Relaxed)),
            shown,
            opening,
            kick: kick.try_clone().map_err(io)?,
            call: copy(&vring.call).map_err(io)?,
            error: copy(&vring.error).map_err(io)?,
        };
        self.vrings[index].served = Some(new.id);
        (self.shards.send)(self.shard(index), Box::new(new));
        Ok(())
    }

    fn begin_all(&mut self) -> Result<(), Error> {
        (0..self.vrings.len()).try_for_each(|index| self.begin(index))
    }

    /// What a shard needs to serve a queue. What an earlier server has left in the area of requests in flight is found here.
    fn opening(
        &self,
        index: usize,
        guest: Arc<Guest>,
        places: [u64; 3],
    ) -> Result<Opening, Broken> {
        let vring = &self.vrings[index];
        let [table, available, used] = places.map(|user| self.regions.address(user));
        let places = Places {
            table: table?,
            available: available?,
            used: used?,
        };
        let has_event_index = self.accepted & FEATURE_EVENT_INDEX != 0;
        let next = vring.next_available;
        let mut ring = SplitRing::new(&guest, places, vring.size, has_event_index, next)?;
        let mut again = Vec::new();
        let mut in_flight = None;
        if let Some((memory, layout)) = &self.in_flight {
            if index >= usize::from(layout.num_queues) || layout.queue_size < vring.size {
                return Err(Broken::InFlightArea(layout.queue_size));
            }
            let at = area_bytes(layout.queue_size) * index as u64;
            let (area, heads) = InFlight::take_over(memory, at, layout.queue_size, &mut ring)?;
            (in_flight, again) = (Some(area), heads);
        }
        Ok(Opening {
            volume: self.offer.volume,
            rules: device::rules(&self.offer, self.accepted),
            guest,
            ring,
            in_flight,
            again,
        })
    }

    pub fn features(&self) -> u64 {
        device::features(&self.offer)
    }

    pub fn accept_features(&mut self, features: u64) -> Result<(), Error> {
        let unknown = features & !self.features();
        if unknown != 0 {
            return Err(refused(format!(
                "the features {unknown:#x} were not offered"
            )));
        }
        if features & FEATURE_VERSION_1 == 0 {
            return Err(refused(
                "the front end does not know virtio 1.0; use a newer one",
            ));
        }
        // Front ends repeat their features while queues are served.
        if features != self.accepted {
            self.end_all()?;
        }
        (self.accepted, self.is_accepted) = (features, true);
        self.begin_all()
    }

    /// The memory of the guest, in the place of all that was known before.
    pub fn map(&mut self, table: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<(), Error> {
        if table.len() != files.len() {
            let (regions, files) = (table.len(), files.len());
            return Err(refused(format!(
                "{regions} regions of memory came with {files} files"
            )));
        }
        let mut regions = Regions::default();
        for (one, file) in table.iter().zip(files) {
            regions.add(one, file).map_err(refused)?;
        }
        self.use_regions(regions)
    }

    /// The guest gets more memory.
    pub fn map_more(&mut self, region: &VhostUserMemoryRegion, file: File) -> Result<(), Error> {
        let mut regions = self.regions.clone();
        regions.add(region, file).map_err(refused)?;
        self.use_regions(regions)
    }

    /// Memory is taken away from the guest.
    pub fn unmap(&mut self, region: (u64, u64, u64)) -> Result<(), Error> {
        let mut regions = self.regions.clone();
        regions.remove(region).map_err(refused)?;
        self.use_regions(regions)
    }

    fn use_regions(&mut self, regions: Regions) -> Result<(), Error> {
        let guest = regions.guest().map_err(refused)?;
        self.end_all()?;
        (self.regions, self.guest) = (regions, guest);
        self.begin_all()
    }

    pub fn set_size(&mut self, index: usize, size: u32) -> Result<(), Error> {
        let fits = u16::try_from(size).ok();
        let fits = fits.filter(|size| size.is_power_of_two() && *size <= DESCRIPTORS_MAX);
        let size = fits.ok_or_else(|| refused(Broken::Size(size).to_string()))?;
        self.vring(index)?;
        self.end(index)?;
        self.vrings[index].size = size;
        self.begin(index)
    }

    pub fn set_places(&mut self, index: usize, places: [u64; 3]) -> Result<(), Error> {
        self.vring(index)?;
        self.end(index)?;
        self.vrings[index].places = Some(places);
        self.begin(index)
    }

    pub fn set_next(&mut self, index: usize, next_available: u32) -> Result<(), Error> {
        self.vring(index)?;
        self.end(index)?;
        self.vrings[index].next_available = next_available as u16;
        self.begin(index)
    }

    /// Stops a queue until it gets another kick.
    pub fn stop(&mut self, index: u32) -> Result<VhostUserVringState, Error> {
        let at = index as usize;
        self.vring(at)?;
        self.end(at)?;
        let vring = &mut self.vrings[at];
        (vring.kick, vring.call) = (None, None);
        Ok(VhostUserVringState::new(
            index,
            u32::from(vring.next_available),
        ))
    }

    pub fn set_kick(&mut self, index: usize, file: Option<File>) -> Result<(), Error> {
        let file = file.ok_or_else(|| {
            refused("a queue without kicks would have to be polled, which this server does not do")
        })?;
        self.vring(index)?;
        self.end(index)?;
        self.vrings[index].kick = Some(not_blocking(file)?);
        self.begin(index)
    }

    pub fn set_call(&mut self, index: usize, file: Option<File>) -> Result<(), Error> {
        let file = file.map(not_blocking).transpose()?;
        let vring = self.vring(index)?;
        let call = file.as_ref().map(File::try_clone).transpose();
        vring.call = file;
        let Some(id) = vring.served else {
            return Ok(());
        };
        let call = call.map_err(Error::ReqHandlerError)?;
        (self.shards.send)(self.shard(index), Box::new(NewCall { id, call }));
        Ok(())
    }

    pub fn set_error(&mut self, index: usize, file: Option<File>) -> Result<(), Error> {
        let file = file.map(not_blocking).transpose()?;
        self.vring(index)?.error = file;
        Ok(())
    }

    pub fn enable(&mut self, index: usize, is_enabled: bool) -> Result<(), Error> {
        self.vring(index)?.is_enabled = is_enabled;
        match is_enabled {
            true => self.begin(index),
            false => self.end(index),
        }
    }

    /// The device is as it was before the front end has accepted features. Memory stays. What the guest had in flight is
    /// forgotten, as the guest has forgotten it.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.end_all()?;
        self.in_flight = None;
        self.vrings.fill_with(Vring::default);
        (self.accepted, self.is_accepted) = (0, false);
        Ok(())
    }

    pub fn configuration(&self, offset: u32, length: u32) -> Result<Vec<u8>, Error> {
        let bytes = device::configuration(&self.offer, offset, length);
        bytes.ok_or_else(|| refused("the configuration is not so long"))
    }

    /// Makes an area of requests in flight, which the front end keeps.
    pub fn make_in_flight(
        &mut self,
        wanted: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File), Error> {
        let mut layout = *wanted;
        layout.mmap_size = in_flight_bytes(&layout)?;
        layout.mmap_offset = 0;
        let file = memfd_create("fullstripe-in-flight", MemfdFlags::CLOEXEC);
        let file = file.map_err(|errno| Error::ReqHandlerError(errno.into()))?;
        ftruncate(&file, layout.mmap_size).map_err(|errno| Error::ReqHandlerError(errno.into()))?;
        let file = File::from(file);
        let ours = file.try_clone().map_err(Error::ReqHandlerError)?;
        self.take_in_flight(&layout, ours)?;
        Ok((layout, file))
    }

    /// Takes an area that this server or an earlier one has made.
    pub fn take_in_flight(&mut self, layout: &VhostUserInflight, file: File) -> Result<(), Error> {
        let needed_bytes = in_flight_bytes(layout)?;
        if layout.mmap_size < needed_bytes {
            return Err(refused(format!(
                "the area of requests in flight has {} bytes, and {needed_bytes} are needed",
                layout.mmap_size
            )));
        }
        let map = map_file(file, layout.mmap_offset, needed_bytes);
        let map = map.and_then(|map| {
            let region = GuestRegionMmap::new(map, GuestAddress(0)).ok_or("it wraps around")?;
            Guest::from_regions(vec![region]).map_err(|error| error.to_string())
        });
        let map = map.map_err(|reason| {
            refused(format!(
                "the area of requests in flight cannot be mapped: {reason}"
            ))
        })?;
        self.end_all()?;
        self.in_flight = Some((Arc::new(map), *layout));
        self.begin_all()
    }

    /// Says why the front end is disconnected.
    pub fn say(&self, error: &Error) {
        (self.say)(&format_args!(
            "a vhost-user front end of volume {} was disconnected: {error}",
            self.offer.name
        ));
    }
}

fn in_flight_bytes(layout: &VhostUserInflight) -> Result<u64, Error> {
    if layout.num_queues > QUEUES_MAX || layout.queue_size > DESCRIPTORS_MAX {
        return Err(refused(format!(
            "an area for {} queues of {} requests in flight is larger than {QUEUES_MAX} of {DESCRIPTORS_MAX}",
            layout.num_queues, layout.queue_size
        )));
    }
    Ok(area_bytes(layout.queue_size) * u64::from(layout.num_queues))
}

/// A data thread must never wait for an eventfd of the front end.
fn not_blocking(file: File) -> Result<File, Error> {
    let flags = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::NONBLOCK));
    flags.map_err(|errno| Error::ReqHandlerError(errno.into()))?;
    Ok(file)
}

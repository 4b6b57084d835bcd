//! vhost-user as an export: virtual machines use volumes as virtio block devices, without the host's kernel. QEMU, Cloud
//! Hypervisor, Firecracker and crosvm have the front end; the guest's driver is that of any virtio disk.
//!
//! A front end connects to the volume's socket. There it sends the guest's memory as files to be mapped, and says where the
//! queues lie in it. From then on the guest and a shard talk through this memory, and wake each other by eventfds.
//!
//! - `wire`: the numbers of virtio.
//! - `guest`: the guest's memory, and copies from and to it. `area`: a part of it that is found once, as a ring.
//!   `split_ring`: a queue's rings. `chain`: one request's
//!   descriptors. `in_flight`: which requests were taken, for the next server. `looking`:
//!   whether a queue is looked at again or waits to be told. `request`: a request becomes one of the engine, or is refused.
//!   `queue`, `queues`: the requests of a queue, and of a shard, with their memory (`memory`). No I/O. The fault world runs
//!   them, too.
//! - `device`: features and configuration of a volume's device.
//! - `port`: queues on the shard's ring.
//! - `session`, `messages`: the control socket of a connection. `regions`: the memory that it describes.
//! - [`driver`]: the guest's end of a queue, for histories.
//! - `exercise`, `session_exercise`: histories of a queue and of a control socket from any bytes, for fuzzing.
//! - [`service`]: the export.
//!
//! # Whom we trust
//!
//! A guest is not trusted. Whatever it writes into its memory costs it its own queue at most, and what it holds is limited:
//! descriptors are read once, each range is checked, and payload is copied, so no drive ever has an address of the guest's.
//!
//! A front end is trusted as far as the socket's file mode says who may connect (its owner): it gives us memory, and if it
//! makes the file shorter while we use it, the system ends this process, as it would end any other vhost-user server.
//!
//! # Ends
//!
//! A server that ends in order answers what it has taken, and takes nothing more. After a kill, the area of requests in
//! flight says what was not answered. In both cases the guest sees a pause, if its front end connects again. If a front end
//! vanishes, its requests are carried out, and nothing of them is left; then the next front end is served.

mod area;
mod chain;
mod device;
pub mod driver;
mod exercise;
mod guest;
mod in_flight;
mod looking;
mod memory;
mod messages;
mod port;
mod queue;
mod queues;
mod regions;
mod request;
pub mod service;
mod session;
mod session_exercise;
mod split_ring;
mod wire;

pub use exercise::fuzz_one;
pub use guest::{Broken, Guest};
pub use memory::{CopiedMemory, Way};
pub use port::VhostUserPort;
pub use queue::Opening;
pub use queues::Queues;
pub use request::Rules;
pub use session_exercise::fuzz_messages;
pub use split_ring::{Places, SplitRing};
pub use vm_memory::VolatileSlice;

//! The fault world: the real engine, controller and metadata in virtual time, over drives that exist in memory only.
//!
//! A seed draws a [`history`]: an array, clients, operators and faults. [`run`] carries it out. The array's
//! [`process`] consists of the engine's own shards, each in a [`world::SimWorld`]. Everything outside the process
//! is the [`machine`]: drives ([`drive`]), memory, messages between shards, and a queue of what happens next
//! ([`virtual_time`]). Drives have real sectors, a volatile cache, and real metadata, and the array is assembled
//! from them by the same code as in the serving process ([`assembly`]). The [`oracle`] knows what every sector
//! may hold; the [`budget`] says which faults an array has to survive. Clients hand their requests to the engine, use block
//! devices ([`ublk`]), or are virtual machines ([`vhost_user`]); [`ports`] are what lies in between. A [`campaign`] runs
//! many seeds, and [`shrink`] makes failing histories small.
//!
//! # The rule
//!
//! A history is a function of its seed: no clock, no threads, no addresses, no hash order, and every component
//! draws from a random stream of its own ([`random`]). So the seed alone repeats it on any machine.

pub mod budget;
pub mod campaign;
pub mod container;
pub mod cuts;
pub mod drive;
pub mod history;
pub mod journal;
pub mod machine;
pub mod oracle;
pub mod ports;
pub mod process;
pub mod run;
pub mod shrink;
pub mod ublk;
pub mod vhost_user;
pub mod watch;
pub mod world;

pub use repeatable::random;

//! NBD, the network block device protocol: the server's side, without I/O.
//!
//! Any NBD client (nbd-client with the kernel, libnbd, qemu, fio) can use an array through this protocol. The modules
//! in the order of a connection's life:
//!
//! - [`wire`]: numbers and layouts of the protocol.
//! - `export`: what the server offers ([`ExportList`]).
//! - `session`: one connection ([`Session`]), which runs `handshake` (answers in `negotiation`, data layouts in
//!   `option`), then `transmission` (rules in `command`), and passes the client's commands to a [`Sink`].
//! - `frozen`: a session between two messages, which the next process goes on with ([`Frozen`]); [`note`] is what is
//!   written down of all sessions and listening sockets.
//! - `reply`: headers of replies ([`ReplyEncoder`]).
//! - `error`: errors that answer a request, and errors that end a session.
//! - [`service`]: NBD as an [export](crate::export::Export): where to listen, what is offered.
//! - [`server`]: sessions on a shard's ring, between sockets and the engine.
//! - `leaving`, `left`: sockets and notes that go from one server to the next.
//! - [`kernel`]: the kernel of this machine as the client: `/dev/nbdN`.
//! - `exercise` and `script`: code that the fuzzer and the tests share.
//!
//! Apart from [`server`] and `kernel` there is no I/O here: bytes go in, and commands come out. Sockets, buffers and
//! timeouts belong to the driver, which is [`server`] or a test. So no payload is copied here, every path can be tested
//! with a script of bytes, and a fuzzer runs the whole protocol in microseconds. In the transmission phase nothing is
//! allocated.

mod command;
mod error;
mod exercise;
mod export;
mod frozen;
mod handshake;
pub mod kernel;
mod leaving;
mod left;
mod negotiation;
pub mod note;
mod option;
mod reply;
mod script;
pub mod server;
pub mod service;
mod session;
mod tls;
mod transmission;
pub mod wire;

pub use command::{Command, CommandKind, Refusal};
pub use error::{ErrorCode, ProtocolError};
#[doc(hidden)]
pub use exercise::fuzz_one;
pub use export::{Abilities, BlockSizes, Export, ExportError, ExportList};
pub use frozen::{Frozen, FrozenTransmission, MAX_SAID_BYTES, ThawError};
pub use handshake::{MAX_OPTION_DATA_BYTES, MAX_OPTIONS, MAX_SKIPPED_OPTION_BYTES};
pub use reply::{Extent, ReplyEncoder, ReplyHeader};
pub use session::{Accept, Phase, Session, Sink};

#[cfg(test)]
mod interoperation_tests;

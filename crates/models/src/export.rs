//! The export between clients of other processes and the engine: what a request costs both sides, in numbers with their
//! sources.
//!
//! A file describes one [`ExportFile`]; [`ExportFile::export`] checks it and gives the [`Export`]. The server's part is
//! kernel work on the engine's cores. The client's part is added to what a request costs a client anyway.

use crate::platform::Cores;
use crate::profile::{Figure, figures};
use crate::tables::{FigureError, check, tables};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The version of the form of export files.
pub const SCHEMA: u32 = 1;

figures! {
    /// Work on the engine's cores.
    Server {
        /// A request and its reply, without their payload.
        request_cycles,
        /// Each KiB that is read.
        read_kib_cycles,
        /// Each KiB that is written.
        write_kib_cycles,
    }
}

figures! {
    /// Work on the clients' cores, beyond that of a client in the engine's process.
    Client {
        /// A request and its reply, without their payload.
        request_cycles,
        /// Each KiB of payload.
        kib_cycles,
    }
}

/// An export: one export file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportFile {
    /// Version of the form: [`SCHEMA`].
    pub schema: u32,
    /// Name by which plans call it.
    pub export: String,
    /// Full name, for people.
    pub title: String,
    /// Work on the engine's cores.
    pub server: Server,
    /// Work on the clients' cores.
    pub client: Client,
}

/// An export in checked numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    server: Server,
    client: Client,
}

/// The costs of an export on a given processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCosts {
    /// The server's cost of a read.
    pub server_read_ns: u64,
    /// The server's cost of a write.
    pub server_write_ns: u64,
    /// The client's cost of either.
    pub client_ns: u64,
}

impl ExportFile {
    /// The export's numbers, checked.
    ///
    /// # Errors
    /// The first number that breaks a rule.
    pub fn export(&self) -> Result<Export, FigureError> {
        let range = |_: &str| (0.0, 1e7, false);
        check(self, &self.export, [self.schema, SCHEMA], range)?;
        Ok(Export {
            server: self.server.clone(),
            client: self.client.clone(),
        })
    }
}

tables!(ExportFile: server, client);

impl Export {
    /// The costs of requests of `request_bytes` on these processors while `threads` threads compute at once.
    #[must_use]
    pub fn costs(&self, cores: &Cores, threads: u64, request_bytes: u64) -> ExportCosts {
        let slowdown = cores.slowdown(threads);
        let kib = request_bytes as f64 / 1024.0;
        let ns = |request: &Figure, each_kib: &Figure| {
            let cycles = request.value + kib * each_kib.value;
            (cores.cycles_ns(cycles) * slowdown + 0.5) as u64
        };
        let Export { server, client } = self;
        ExportCosts {
            server_read_ns: ns(&server.request_cycles, &server.read_kib_cycles),
            server_write_ns: ns(&server.request_cycles, &server.write_kib_cycles),
            client_ns: ns(&client.request_cycles, &client.kib_cycles),
        }
    }
}

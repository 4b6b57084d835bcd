//! Tests what the kernel really grants by requesting what `serve` would: payload memory, locked and in
//! huge pages, and a ring that uses it. Everything is released at once; no drive is touched.

use drives::arena::{Arena, ArenaOptions};
use drives::completion::CompletionMode;
use drives::mailbox::Mailbox;
use drives::ring::{RingOptions, RingReport};
use drives::world::{RingWorld, WorldError, WorldOptions};
use engine::control::record::Record;
use engine::limits::{BAND_BYTES_MAX, CONTAINER_MEMBERS_MAX};
use exports::nbd::server::NbdLimits;

/// What `serve` needs with its default options.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Payload and scratch memory, locked and registered with the ring.
    pub arena_bytes: u64,
    /// That memory and each data thread's memory for metadata and zeros, all of it locked.
    pub locked_bytes: u64,
    /// Descriptors: drives, connections, and some for sockets, rings and the program itself.
    pub open_files: u64,
}

impl Need {
    /// With the defaults of `serve`: `--memory 128m --shards 1`.
    pub fn of_defaults() -> Need {
        const PAYLOAD_BYTES: u64 = 128 << 20;
        /// The minimum scratch memory of a shard.
        const SCRATCH_BYTES: u64 = 32 << 20;
        /// The memory of the data thread's world: zeros and metadata.
        const WORLD_BYTES: u64 = 8 << 20;
        const HUGE_PAGE_BYTES: u64 = 2 << 20;
        const OTHER_FILES: u64 = 64;
        let arena = PAYLOAD_BYTES + SCRATCH_BYTES + u64::from(BAND_BYTES_MAX);
        let arena_bytes = arena.next_multiple_of(HUGE_PAGE_BYTES);
        let connections = u64::from(NbdLimits::default().connections_max);
        Need {
            arena_bytes,
            locked_bytes: arena_bytes + WORLD_BYTES,
            open_files: CONTAINER_MEMBERS_MAX as u64 + connections + OTHER_FILES,
        }
    }
}

/// What the kernel granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The ring, or one sentence that says why there is none.
    pub ring: Result<RingReport, String>,
    /// Whether the kernel accepted huge pages for payload memory.
    pub huge_pages: bool,
    /// Whether payload memory could be locked; `Err` holds the errno.
    pub locked: Result<bool, i32>,
    /// How much memory was requested.
    pub asked_bytes: u64,
}

impl Granted {
    /// Requests `arena_bytes` of memory and a ring that uses it.
    #[must_use]
    pub fn ask(arena_bytes: u64) -> Granted {
        let none = |sentence: String| Granted {
            ring: Err(sentence),
            huge_pages: false,
            locked: Ok(false),
            asked_bytes: arena_bytes,
        };
        let arena = match Arena::new(ArenaOptions {
            length_bytes: arena_bytes as usize,
            prefault: false,
            lock: true,
        }) {
            Ok(arena) => arena,
            Err(error) => return none(error.to_string()),
        };
        let mailbox = match Mailbox::new() {
            Ok(mailbox) => mailbox,
            Err(error) => return none(format!("cannot make a mailbox: {error}")),
        };
        let memory = arena.report();
        let world = RingWorld::new(WorldOptions {
            arena,
            ring: RingOptions::default(),
            completion: CompletionMode::Interrupt,
            mailbox,
            port: (),
            log_encoder: Box::new(|_, _, _| {}),
            encoder: Box::new(|_, _: &Record| Ok(Vec::new())),
            on_event: Box::new(|_| {}),
        });
        Granted {
            ring: world
                .map(|world| world.report())
                .map_err(|error| match error {
                    WorldError::Ring(error) => error.to_string(),
                    WorldError::Memory(error) => error.to_string(),
                }),
            huge_pages: memory.huge_pages,
            locked: memory.locked,
            asked_bytes: arena_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_gives_a_ring_or_a_sentence() {
        let granted = Granted::ask(2 << 20);
        match granted.ring {
            Ok(report) => assert!(report.to_string().starts_with("io_uring with"), "{report}"),
            Err(sentence) => assert!(sentence.contains("; "), "no advice: {sentence}"),
        }
        assert_eq!(granted.asked_bytes, 2 << 20);
    }

    #[test]
    fn the_default_need_holds_payload_and_scratch() {
        let need = Need::of_defaults();
        assert_eq!(need.arena_bytes, 162 << 20);
        assert_eq!(need.locked_bytes, 170 << 20);
        assert_eq!(need.open_files, 96 + 256 + 64);
    }
}

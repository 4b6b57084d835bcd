//! The cost of the bytes that the processor itself touches: parity, and units of the write-hole log.
//!
//! The counting world moves no bytes. So the calls of the real world are made here over real memory, with two sizes.
//! The part that grows with the size is the price of a byte, and the rest is that of a call.

use super::count::Tool;
use super::scene::Done;
use super::table::{Price, rounded};
use anyhow::{Context, Result};
use drives::arena::{Arena, ArenaOptions};
use drives::completion::CompletionMode;
use drives::mailbox::Mailbox;
use drives::ring::RingOptions;
use drives::world::{RingWorld, WorldOptions};
use engine::control::record::Record;
use engine::limits::LOG_HEADER_BYTES;
use engine::log::unit::{LogEntry, LogUnit};
use engine::plan::{Plan, Step, StepKind};
use engine::units::{Buffer, Slot, VolumeId};
use engine::world::World;
use metadata::imsm::SectorSize;

/// Number of sources of a parity computation.
const SOURCES: u64 = 3;
/// The smaller and the larger size.
const SIZES: [u32; 2] = [4 << 10, 64 << 10];
/// Number of calls of the shorter run.
const CALLS: u64 = 500;
/// The counter of the calls.
const COUNTER: &str = "calls";

/// Prices in instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BytePrices {
    /// One parity computation, without its bytes.
    pub xor: f64,
    /// One byte that it reads.
    pub xor_byte: f64,
    /// One unit of the log, without its bytes.
    pub log_unit: f64,
    /// One byte of the unit.
    pub log_byte: f64,
}

impl BytePrices {
    /// Measures the prices with `tool`. Also returns which instructions computed parity.
    ///
    /// # Errors
    ///
    /// If a run fails.
    pub fn measure(tool: &Tool) -> Result<(BytePrices, String)> {
        let mut parity_by = String::new();
        let mut per_call = |kind: &str, size: u32| -> Result<f64> {
            let sample = tool.scene(&format!("bytes-{kind}-{size}"), CALLS)?;
            let instructions = sample.instructions / sample.count(COUNTER);
            parity_by = sample.work.parity_by;
            Ok(instructions)
        };
        let mut line = |kind: &str| -> Result<(f64, f64)> {
            let [small, large] = SIZES;
            let (less, more) = (per_call(kind, small)?, per_call(kind, large)?);
            let byte = (more - less) / f64::from(large - small);
            Ok((less - byte * f64::from(small), byte))
        };
        let (xor, xor_byte) = line("xor")?;
        let (log_unit, log_byte) = line("log")?;
        let prices = BytePrices {
            xor,
            xor_byte: xor_byte / SOURCES as f64,
            // The engine counts the unit's header among its bytes.
            log_unit: (log_unit - log_byte * f64::from(LOG_HEADER_BYTES)).max(0.0),
            log_byte,
        };
        Ok((prices, parity_by))
    }

    /// The price of a class: the engine's part, and the real world's part in addition.
    pub fn priced(&self, class: &str, engine: f64, samples: u64) -> Price {
        let (world, bytes_read, bytes_written) = match class {
            "xors" => (self.xor, 0.0, 0.0),
            "log_units" => (self.log_unit, 0.0, 0.0),
            "xor_bytes" => (self.xor_byte, 1.0, 0.0),
            "xor_written_bytes" => (0.0, 0.0, 1.0),
            "log_bytes" => (self.log_byte, 1.0, 1.0),
            // Other payload is moved by drives and clients, without the processor.
            _ => (0.0, 0.0, 0.0),
        };
        Price {
            name: class.to_owned(),
            instructions: rounded(engine + world),
            bytes_read,
            bytes_written,
            samples,
        }
    }
}

/// Makes `calls` calls, if `name` is one of the runs defined here.
pub(super) fn run(name: &str, calls: u64) -> Option<Result<Done>> {
    let (kind, size) = name.strip_prefix("bytes-")?.split_once('-')?;
    let size: u32 = size.parse().ok().filter(|size| SIZES.contains(size))?;
    match kind {
        "xor" => Some(make_calls(size, calls, xor)),
        "log" => Some(make_calls(size, calls, log_unit)),
        _ => None,
    }
}

type RealWorld = RingWorld<()>;

/// Memory for sources and targets, and a plan that names it.
struct Memory {
    plan: Plan,
    target: Buffer,
    size: u32,
}

fn make_calls(size: u32, calls: u64, call: fn(&mut RealWorld, &Memory)) -> Result<Done> {
    let arena = Arena::new(ArenaOptions {
        length_bytes: (SOURCES as usize + 2) * size as usize + LOG_HEADER_BYTES as usize,
        prefault: true,
        lock: false,
    })?;
    let start = arena.start();
    let mut plan = Plan::with_capacity(2, 8);
    let target = start.at(SOURCES as u32 * size);
    plan.push(Step::compute(StepKind::Xor { target }, 0, size));
    for source in 0..SOURCES as u32 {
        plan.add_source(start.at(source * size));
    }
    let kind = StepKind::Log {
        data_offset_bytes: 0,
        data_bytes: size,
    };
    plan.push(Step::compute(kind, 1, size));
    plan.add_source(start);
    let memory = Memory { plan, target, size };
    let mailbox = Mailbox::new()?;
    let mut world = RingWorld::new(WorldOptions {
        arena,
        ring: RingOptions::default(),
        completion: CompletionMode::Interrupt,
        mailbox,
        port: (),
        encoder: Box::new(|_, _: &Record| Ok(Vec::new())),
        log_encoder: Box::new(assembly::log::encoder(1, SectorSize::Bytes512)),
        on_event: Box::new(|_| {}),
    })
    .context("no world for counting bytes")?;
    for _ in 0..calls {
        call(&mut world, &memory);
    }
    Ok(Done::of(
        [(COUNTER.to_owned(), calls)].into_iter().collect(),
    ))
}

fn xor(world: &mut RealWorld, memory: &Memory) {
    let step = &memory.plan.steps()[0];
    world.xor(memory.target, memory.size, memory.plan.segments_of(step));
}

fn log_unit(world: &mut RealWorld, memory: &Memory) {
    let step = &memory.plan.steps()[1];
    let unit = LogUnit {
        volume: VolumeId(0),
        slot: Slot(0),
        generation: 1,
        entries: vec![LogEntry {
            data_offset_bytes: 0,
            data_bytes: memory.size,
            partial_parity_bytes: memory.size,
        }],
    };
    world.encode_log(&unit, memory.plan.segments_of(step), memory.target);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_makes_its_calls_and_no_other_name_is_one() {
        for name in [
            "bytes-xor-4096",
            "bytes-xor-65536",
            "bytes-log-4096",
            "bytes-log-65536",
        ] {
            let done = run(name, 3).unwrap().unwrap();
            assert_eq!(done.counters[COUNTER], 3);
        }
        for name in ["bytes-xor-5", "bytes-crc-4096", "raid5-of-4-read-4k"] {
            assert!(run(name, 1).is_none());
        }
    }
}

//! Why a RAID 5 array reads before it writes although clients write sequentially.
//!
//! A full-stripe write needs no reads, because its parity follows from the new data alone. The engine joins requests to
//! one stripe that are there at the same time. Three things can keep requests from filling a stripe: one plan joins at
//! most [`PIECES_MAX`] pieces, a sequential thread has too few bytes outstanding, and the engine holds back incomplete
//! stripes of at most [`STREAMS_MAX`] sequential threads. The run counts how much is read. Which of the three is the
//! cause follows from the shape of array and load.

use super::left_out::values;
use super::report::{PlanPoint, PlannedReport};
use super::sweep::Sweep;
use crate::predict::point::CHUNK_KIB;
use engine::limits::{BAND_BYTES_MAX, STREAMS_MAX};
use engine::plan::PIECES_MAX;
use lab::schema::configuration::Configuration;
use lab::schema::setup::Level;
use lab::workload::Operation;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use words::{exact_size, typed_size};

/// The plan mentions these reads from this ratio of bytes read to bytes written on. The first and last stripe of a run
/// alone cause less.
const WORTH_TELLING: f64 = 0.05;

/// The reads that writes to RAID 5 need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadsBeforeWrites {
    /// Bytes of old data and parity that are read for each byte that is written.
    pub bytes_per_written_byte: f64,
    /// The cause and the remedy, as a sentence without its full stop.
    pub reason: String,
}

/// The shape of the stripes and of the requests that fill them.
struct Filling {
    /// Chunks of data in a stripe.
    data: u64,
    chunk_bytes: u64,
    /// The part of each chunk that one lock and one plan cover.
    band_bytes: u64,
    request_bytes: u64,
    /// Outstanding requests per thread.
    depth: u64,
    threads: u64,
}

impl Filling {
    /// Pieces that one plan has to join to write a whole stripe.
    fn pieces(&self) -> u64 {
        self.data * (self.band_bytes / self.request_bytes).max(1)
    }

    /// From the start of a stripe's first chunk to the end of the band in its last chunk.
    fn span_bytes(&self) -> u64 {
        (self.data - 1) * self.chunk_bytes + self.band_bytes
    }

    fn is_joined(&self) -> bool {
        self.pieces() <= PIECES_MAX as u64
    }

    /// Bytes that a thread must have outstanding to fill a stripe, wherever in a stripe its requests begin.
    fn needed_bytes(&self) -> u64 {
        let begins_every = greatest_common_divisor(self.request_bytes, self.row_bytes());
        self.span_bytes() + self.request_bytes - begins_every
    }

    fn row_bytes(&self) -> u64 {
        self.data * self.chunk_bytes
    }

    fn is_outstanding(&self) -> bool {
        self.request_bytes * self.depth >= self.needed_bytes()
    }

    /// The smallest request size that fills stripes: the present size doubled as often as needed, at most a whole row.
    fn enough_bytes(&self) -> u64 {
        let doubled = std::iter::successors(Some(self.request_bytes), |bytes| Some(bytes * 2));
        let doubled = doubled.take_while(|bytes| *bytes < self.row_bytes());
        let mut sizes = doubled.chain([self.row_bytes()]);
        let fills = |request_bytes: &u64| {
            let filling = Filling {
                request_bytes: *request_bytes,
                ..*self
            };
            filling.is_joined() && filling.is_outstanding()
        };
        sizes.find(fills).unwrap_or(self.row_bytes())
    }

    /// Why stripes are not filled, and what would fill them.
    fn reason(&self) -> String {
        let request = exact_size(self.request_bytes);
        let larger = typed_size(self.enough_bytes());
        let stripe = format!(
            "{} on each of {} drives",
            exact_size(self.band_bytes),
            self.data
        );
        if !self.is_joined() {
            return format!(
                "a stripe of {stripe} takes {} requests of {request}, and the engine joins at most {PIECES_MAX}: \
                 --bs {larger} would fill it",
                self.pieces()
            );
        }
        if !self.is_outstanding() {
            return format!(
                "what a thread keeps outstanding, {} x {request}, is {} of the {} that it takes to fill a stripe: \
                 --qd {} or --bs {larger} would fill it",
                self.depth,
                exact_size(self.request_bytes * self.depth),
                exact_size(self.needed_bytes()),
                self.needed_bytes().div_ceil(self.request_bytes),
            );
        }
        if self.threads > STREAMS_MAX as u64 {
            return format!(
                "{} threads write in order, each somewhere else, and the engine waits for the rest of a stripe of at \
                 most {STREAMS_MAX}: --threads {STREAMS_MAX} would fill it",
                self.threads
            );
        }
        format!("not all requests that fill a stripe of {stripe} are there when it is written")
    }
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        greatest_common_divisor(other, one % other)
    }
}

/// Reads before writes of an engine's RAID 5 under sequential writes; `None` for any other setup, or below
/// `WORTH_TELLING`.
pub fn reads_before_writes(
    configuration: &Configuration,
    read_per_written: Option<f64>,
) -> Option<ReadsBeforeWrites> {
    let setup = &configuration.setup;
    let workload = &configuration.workload;
    let is_of_engine = setup.level == Level::Raid5 && setup.stack == "fullstripe";
    let bytes_per_written_byte = read_per_written.filter(|share| *share >= WORTH_TELLING)?;
    if !is_of_engine || workload.op != Operation::Write {
        return None;
    }
    let chunk_bytes = u64::from(setup.chunk_kib.unwrap_or(CHUNK_KIB)) * 1024;
    let filling = Filling {
        data: u64::from(setup.count)
            .checked_sub(1)
            .filter(|data| *data > 0)?,
        chunk_bytes,
        band_bytes: chunk_bytes.min(u64::from(BAND_BYTES_MAX)),
        request_bytes: u64::from(workload.bs?.bytes()),
        depth: u64::from(workload.qd?),
        threads: u64::from(workload.threads),
    };
    Some(ReadsBeforeWrites {
        bytes_per_written_byte,
        reason: filling.reason(),
    })
}

/// For people: each point that reads before it writes. Neighbouring points of a sweep share one sentence, with the
/// reason of the first.
pub fn in_words(report: &PlannedReport, sweep: Option<&Sweep>) -> String {
    let mut text = String::new();
    let mut points = report.points.as_slice();
    while let Some((point, rest)) = points.split_first() {
        points = rest;
        let Some(reads) = &point.reads_before_writes else {
            continue;
        };
        let is_neighbour = |other: &&PlanPoint| {
            sweep.is_some()
                && other.reads_before_writes.is_some()
                && other.setup == point.setup
                && other.varied.get(1) == point.varied.get(1)
        };
        let alike = rest.iter().take_while(is_neighbour).count();
        points = &rest[alike..];
        let _ = write!(
            text,
            "{}, {}, {} drives: {:.1} bytes of old data and parity are read for each byte written, because {}",
            point.setup,
            point.load,
            point.configuration.setup.count,
            reads.bytes_per_written_byte,
            reads.reason
        );
        if let (Some(sweep), true) = (sweep, alike > 0) {
            let (what, _) = &sweep.axes[0];
            let others: Vec<u64> = rest[..alike].iter().map(|other| other.varied[0]).collect();
            let _ = write!(
                text,
                "; likewise at {} {}",
                what.name(),
                values(*what, &others)
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason for requests of so many KiB, so many outstanding in each of so many threads, on chunks of so many KiB
    /// and so many data drives.
    fn reason([request, depth, threads, chunk, data]: [u64; 5]) -> String {
        let filling = Filling {
            data,
            chunk_bytes: chunk * 1024,
            band_bytes: (chunk * 1024).min(u64::from(BAND_BYTES_MAX)),
            request_bytes: request * 1024,
            depth,
            threads,
        };
        filling.reason()
    }

    /// Each cure was tried with `plan`: with it nothing is read, and with the next smaller value something is.
    #[test]
    fn what_keeps_a_stripe_from_being_filled_is_told_with_its_cure() {
        for (what, sentence) in [
            (
                [4, 64, 8, 128, 3],
                "a stripe of 128 KiB on each of 3 drives takes 96 requests of 4 KiB, and the engine joins at most \
                 64: --bs 8k would fill it",
            ),
            (
                [4, 64, 8, 256, 2],
                "what a thread keeps outstanding, 64 x 4 KiB, is 256 KiB of the 384 KiB that it takes to fill a \
                 stripe: --qd 96 or --bs 8k would fill it",
            ),
            (
                [128, 1, 1, 128, 3],
                "what a thread keeps outstanding, 1 x 128 KiB, is 128 KiB of the 384 KiB that it takes to fill a \
                 stripe: --qd 3 or --bs 384k would fill it",
            ),
            (
                [512, 1, 1, 128, 3],
                "what a thread keeps outstanding, 1 x 512 KiB, is 512 KiB of the 768 KiB that it takes to fill a \
                 stripe: --qd 2 or --bs 384k would fill it",
            ),
            (
                [128, 16, 16, 128, 3],
                "16 threads write in order, each somewhere else, and the engine waits for the rest of a stripe of at \
                 most 8: --threads 8 would fill it",
            ),
            (
                [128, 16, 8, 128, 3],
                "not all requests that fill a stripe of 128 KiB on each of 3 drives are there when it is written",
            ),
        ] {
            assert_eq!(reason(what), sentence);
        }
    }
}

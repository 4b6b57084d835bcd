//! What the members allow: the limit that no RAID engine could exceed, with its formula in words.
//!
//! A member has one budget of time, which reads and writes share. R and W are the reads and writes of the request's
//! size that it can do in a second. A request takes time of each member according to the level, and the busiest member
//! sets the limit. N is the number of members.
//!
//! | case | limit |
//! |---|---|
//! | reads, no member missing | N x R |
//! | RAID 0 writes | N x W |
//! | RAID 1 writes | W |
//! | RAID 10 writes | N x W / 2 |
//! | RAID 5 writes inside a chunk, 4 and more members | N / (2/R + 2/W) |
//! | the same with 3 members, where the other chunk is read instead | N / (1/R + 2/W) |
//! | RAID 5 writes of k whole chunks in a row, r = min(k + 1, N - 1 - k) | N / (r/R + (k + 1)/W) |
//! | RAID 5 full stripes | (N - 1) x B, B the member's write bandwidth |
//! | RAID 1, one member missing: reads | (N - 1) x R |
//! | RAID 10, one member missing: reads; its mirror serves two shares | N x R / 2 |
//! | RAID 5, one member missing: reads inside a chunk; one in N needs N - 1 members | N x R / 2 |
//! | RAID 5, one member missing: writes inside a chunk | see [`lost_parity_write`] |
//!
//! A mix of reads and writes takes the sum of both, weighted by their shares. Latency is a limit too: if D requests are
//! outstanding, and each takes s successive steps with latency L, then D / (s x L) requests complete per second.

use super::config::Workload;
use drives::spec::Limits;
use engine::layout::Level;
use engine::units::Nanos;

/// The unit in which members count I/O.
const UNIT_BYTES: u64 = 4096;

/// The time of a member that one read or one write takes. Zero means unlimited.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Cost {
    per_unit_s: f64,
    per_byte_s: f64,
}

impl Cost {
    /// From measured I/Os of `length_bytes`, `iops` per second.
    pub fn measured(length_bytes: u64, iops: f64) -> Cost {
        let per_byte_s = if iops > 0.0 {
            1.0 / (iops * length_bytes as f64)
        } else {
            0.0
        };
        Cost {
            per_unit_s: 0.0,
            per_byte_s,
        }
    }

    fn limited(iops: Option<u64>, bandwidth: Option<u64>) -> Cost {
        let inverse = |rate: Option<u64>| rate.map_or(0.0, |rate| 1.0 / rate as f64);
        Cost {
            per_unit_s: inverse(iops),
            per_byte_s: inverse(bandwidth),
        }
    }

    /// Time of one I/O: by the number of started 4 KiB units or by bytes, whichever is more. The limits of members are
    /// defined in this way.
    pub fn seconds(self, length_bytes: u64) -> f64 {
        let by_count = self.per_unit_s * length_bytes.div_ceil(UNIT_BYTES) as f64;
        by_count.max(self.per_byte_s * length_bytes as f64)
    }
}

/// The speed of one member.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct MemberSpeed {
    pub read: Cost,
    pub write: Cost,
    /// Added to every I/O.
    pub latency: Nanos,
}

impl MemberSpeed {
    /// The speed that a specification's limits allow.
    pub fn of(limits: &Limits) -> MemberSpeed {
        let bandwidth = limits.bandwidth_bytes_per_second;
        MemberSpeed {
            read: Cost::limited(limits.read_iops, bandwidth),
            write: Cost::limited(limits.write_iops, bandwidth),
            latency: limits.latency,
        }
    }
}

/// The array and its load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub level: Level,
    pub members: u8,
    pub chunk_bytes: u32,
    /// Whether one member is missing.
    pub degraded: bool,
    pub workload: Workload,
    pub block_bytes: u32,
    /// Requests outstanding per stream; sequential writes can be merged up to this many.
    pub stream_depth: u32,
    /// Requests outstanding in all.
    pub queue_depth: u32,
}

/// The limit and its formula.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Roofline {
    /// Requests per second; `None` if the members set no limit, or no formula fits.
    pub iops: Option<f64>,
    /// The formula in words.
    pub words: String,
}

/// The time that one kind of request takes.
struct Demand {
    /// Time of the busiest member.
    busiest_s: f64,
    /// Number of member I/Os that have to follow each other.
    steps: f64,
    formula: String,
}

impl Question {
    fn row_bytes(&self) -> u64 {
        u64::from(self.chunk_bytes) * u64::from(self.members.saturating_sub(1))
    }

    /// Whether a request never crosses a chunk's border.
    fn is_inside_chunk(&self) -> bool {
        self.chunk_bytes.is_multiple_of(self.block_bytes)
    }

    /// Whole chunks per request, if requests are whole chunks and never cross a row's border.
    fn whole_chunks(&self) -> Option<u64> {
        let fits = self.block_bytes.is_multiple_of(self.chunk_bytes)
            && self.row_bytes().is_multiple_of(u64::from(self.block_bytes));
        fits.then(|| u64::from(self.block_bytes / self.chunk_bytes))
    }

    /// Whether writes are, or can be merged into, full stripes.
    fn writes_full_stripes(&self) -> bool {
        let reach = u64::from(self.block_bytes) * u64::from(self.stream_depth);
        let whole_rows = u64::from(self.block_bytes).is_multiple_of(self.row_bytes());
        whole_rows || (!self.workload.random && reach >= self.row_bytes())
    }
}

/// The limit that members with this speed set.
pub(super) fn roofline(question: &Question, speed: &MemberSpeed) -> Roofline {
    let reads = f64::from(question.workload.read_percent) / 100.0;
    let kinds = [
        (reads, read_demand(question, speed)),
        (1.0 - reads, write_demand(question, speed)),
    ];
    let (mut busiest_s, mut steps, mut formulas) = (0.0, 0.0, Vec::new());
    for (share, demand) in kinds.into_iter().filter(|(share, _)| *share > 0.0) {
        let demand = match demand {
            Ok(demand) => demand,
            Err(words) => return Roofline { iops: None, words },
        };
        busiest_s += share * demand.busiest_s;
        steps += share * demand.steps;
        formulas.push(demand.formula);
    }
    let latency_s = speed.latency.0 as f64 / 1e9;
    let by_depth = (latency_s > 0.0).then(|| f64::from(question.queue_depth) / (steps * latency_s));
    let by_members = (busiest_s > 0.0).then(|| 1.0 / busiest_s);
    match (by_members, by_depth) {
        (None, None) => Roofline {
            iops: None,
            words: "not limited by members".to_owned(),
        },
        (members, Some(depth)) if members.is_none_or(|members| depth < members) => {
            let words = format!(
                "queue depth / ({steps:.2} steps x latency), depth {} and latency {} us",
                question.queue_depth,
                speed.latency.0 as f64 / 1e3
            );
            Roofline {
                iops: Some(depth),
                words,
            }
        }
        (members, _) => Roofline {
            iops: members,
            words: words(question, speed, &formulas, reads),
        },
    }
}

fn words(question: &Question, speed: &MemberSpeed, formulas: &[String], reads: f64) -> String {
    let formula = match formulas {
        [reading, writing] => format!(
            "1 / ({reads:.2} / [{reading}] + {:.2} / [{writing}])",
            1.0 - reads
        ),
        _ => formulas.concat(),
    };
    let piece_bytes = u64::from(question.block_bytes.min(question.chunk_bytes));
    let rate = |name: &str, cost: Cost| {
        let seconds = cost.seconds(piece_bytes);
        if seconds > 0.0 {
            format!("{name} = {:.0}/s", 1.0 / seconds)
        } else {
            format!("{name} unlimited")
        }
    };
    format!(
        "{formula} with N = {}, {}, {} at {} bytes",
        question.members,
        rate("R", speed.read),
        rate("W", speed.write),
        piece_bytes
    )
}

fn read_demand(question: &Question, speed: &MemberSpeed) -> Result<Demand, String> {
    let members = f64::from(question.members);
    let bytes = u64::from(question.block_bytes);
    let pieces = (bytes.div_ceil(u64::from(question.chunk_bytes))) as f64;
    let read_s = pieces
        * speed
            .read
            .seconds(bytes.min(u64::from(question.chunk_bytes)));
    let (busiest_s, formula) = match (question.degraded, question.level) {
        (false, _) => (read_s / members, "N x R"),
        (true, Level::Raid1) => (read_s / (members - 1.0), "(N - 1) x R"),
        (true, Level::Raid10) => (
            read_s * 2.0 / members,
            "N x R / 2, the lost member's partner serves two shares",
        ),
        (true, Level::Raid5) if question.is_inside_chunk() => (
            read_s * 2.0 / members,
            "N x R / 2, one read in N takes N - 1 members",
        ),
        (true, Level::Raid5) if bytes.is_multiple_of(question.row_bytes()) => (
            read_s / (members - 1.0),
            "(N - 1) x R, each row read once from every member left",
        ),
        (true, _) => return Err(no_formula(question, "degraded reads")),
    };
    // N x R counts member I/Os; a request of several chunks takes several.
    Ok(Demand {
        busiest_s,
        steps: 1.0,
        formula: per_request(formula, pieces),
    })
}

fn write_demand(question: &Question, speed: &MemberSpeed) -> Result<Demand, String> {
    if question.level == Level::Raid5 {
        return parity_write_demand(question, speed);
    }
    let members = f64::from(question.members);
    let bytes = u64::from(question.block_bytes);
    let mirrored = question.level == Level::Raid1;
    let chunk_bytes = if mirrored {
        bytes
    } else {
        u64::from(question.chunk_bytes)
    };
    let pieces = bytes.div_ceil(chunk_bytes) as f64;
    let write_s = pieces * speed.write.seconds(bytes.min(chunk_bytes));
    let (busiest_s, formula) = match question.level {
        Level::Raid1 => (write_s, "W, every member writes everything"),
        Level::Raid10 => (write_s * 2.0 / members, "N x W / 2"),
        Level::Raid0 | Level::Raid5 => (write_s / members, "N x W"),
    };
    Ok(Demand {
        busiest_s,
        steps: 1.0,
        formula: per_request(formula, pieces),
    })
}

fn parity_write_demand(question: &Question, speed: &MemberSpeed) -> Result<Demand, String> {
    let members = f64::from(question.members);
    let read_s = |bytes: u32| speed.read.seconds(u64::from(bytes));
    let write_s = |bytes: u32| speed.write.seconds(u64::from(bytes));
    let (chunk, block) = (question.chunk_bytes, question.block_bytes);
    if question.writes_full_stripes() {
        let rows = f64::from(block) / question.row_bytes() as f64;
        let formula = "(N - 1) x B, full stripes, B = W x chunk".to_owned();
        return Ok(Demand {
            busiest_s: rows * write_s(chunk),
            steps: 1.0,
            formula,
        });
    }
    let (busiest_s, formula) = if question.degraded {
        if !question.is_inside_chunk() {
            return Err(no_formula(question, "degraded writes"));
        }
        return Ok(lost_parity_write(members, read_s(block), write_s(block)));
    } else if question.is_inside_chunk() && question.members == 3 {
        (
            (read_s(block) + 2.0 * write_s(block)) / members,
            "N / (1/R + 2/W)".to_owned(),
        )
    } else if question.is_inside_chunk() {
        (
            2.0 * (read_s(block) + write_s(block)) / members,
            "N / (2/R + 2/W)".to_owned(),
        )
    } else if let Some(chunks) = question.whole_chunks() {
        let reads = (chunks + 1).min(u64::from(question.members) - 1 - chunks);
        let writes = chunks + 1;
        let busiest_s = (reads as f64 * read_s(chunk) + writes as f64 * write_s(chunk)) / members;
        (busiest_s, format!("N / ({reads}/R + {writes}/W)"))
    } else {
        return Err(no_formula(question, "writes"));
    };
    Ok(Demand {
        busiest_s,
        steps: 2.0,
        formula,
    })
}

/// A write inside a chunk with one slot missing. Of N rows the missing slot holds the parity of one: one write. Of
/// another one it holds the chunk that is written: N - 2 other chunks are read and parity is written. Of the remaining
/// N - 2 rows it holds another chunk: two reads and two writes. N - 1 members share this work.
fn lost_parity_write(members: f64, read_s: f64, write_s: f64) -> Demand {
    let others = members - 2.0;
    let reads = (others + 2.0 * others) / members;
    let writes = (1.0 + 1.0 + 2.0 * others) / members;
    Demand {
        busiest_s: (reads * read_s + writes * write_s) / (members - 1.0),
        steps: 1.0 + (members - 1.0) / members,
        formula: "(N - 1) / ((3(N - 2)/R + (2N - 2)/W) / N)".to_owned(),
    }
}

fn per_request(formula: &str, pieces: f64) -> String {
    if pieces > 1.0 {
        format!("{formula}, {pieces} chunks a request")
    } else {
        formula.to_owned()
    }
}

fn no_formula(question: &Question, what: &str) -> String {
    format!(
        "no simple formula for {what} of {} bytes in chunks of {} bytes; give --bs that divides \
         the chunk, or whole rows",
        question.block_bytes, question.chunk_bytes
    )
}

#[cfg(test)]
mod tests;

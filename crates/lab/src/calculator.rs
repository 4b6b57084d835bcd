//! The plain RAID calculator: what everybody computes before buying, and what a plan has to improve on.
//!
//! It takes N times the drive's specification, less what the level costs, and at most what the narrowest link carries.
//! It has no queue depth, no latency and no processor. It answers the same questions as the simulator and is scored on
//! the same rows.
//!
//! With R and W the requests per second that one drive reads and writes, and N drives:
//!
//! - reads N R at any level;
//! - mirrored writes half of N W;
//! - small random writes of RAID 5 read and write data and parity: N / (2/R + 2/W). With three drives the other data
//!   chunk is read instead: N / (1/R + 2/W);
//! - full stripes (N - 1) W.
//!
//! In a mix, reads and writes share the drives' time. A random write of less than a drive's map unit counts as a whole one.

use crate::claims::book::Book;
use crate::claims::predictor::{NotModelled, Prediction, Predictor, Samples};
use crate::schema::configuration::Configuration;
use crate::schema::metric::Metric;
use crate::schema::setup::Level;
use crate::workload::Operation;
use crate::workload::arrivals::Rate;
use std::collections::{BTreeMap, BTreeSet};

/// The specification of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sheet {
    /// Random reads of 4 KiB per second.
    pub read_iops: f64,
    /// Random writes of up to a map unit per second, steady: a map unit is 4 KiB in most drives.
    pub write_iops: f64,
    /// Sequential reads, bytes per second.
    pub read_bytes_per_s: f64,
    /// Sequential writes, bytes per second.
    pub write_bytes_per_s: f64,
    /// Power under load.
    pub active_watts: f64,
}

/// The calculator with its data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calculator {
    /// Sheets by the id of the drive.
    pub drives: BTreeMap<String, Sheet>,
    /// Bandwidth of the narrowest link that all drives share, in bytes per second and direction, by the id of the
    /// platform.
    pub links: BTreeMap<String, f64>,
}

/// The claims' rows that hold the specification of a drive, by the drive's id.
const SHEETS: [(&str, &str); 4] = [
    ("p4510-1tb", "A-01"),
    ("p4510-2tb", "A-02"),
    ("p4510-4tb", "A-03"),
    ("p4510-8tb", "A-04"),
];
/// Number of lanes that all drives of a platform share.
const SHARED_LANES: [(&str, f64); 2] = [("s2600wft-6154-x8", 8.0), ("s2600wft-6154-x16", 16.0)];
/// PCIe 3.0: 8 GT/s x 128/130 per lane, without any further overhead, as in a plain calculation.
const LANE_BYTES_PER_S: f64 = 8e9 / 8.0 * 128.0 / 130.0;

impl Calculator {
    /// The calculator with the specifications that the claims state (S rows): drives and links.
    #[must_use]
    pub fn of_claims(book: &Book) -> Calculator {
        let sheet = |id: &str| {
            let inputs = book.inputs(id)?;
            let number = |key: &str| {
                let value = inputs.get(key)?;
                value
                    .as_float()
                    .or(value.as_integer().map(|whole| whole as f64))
            };
            Some(Sheet {
                read_iops: number("rand_read_kiops")? * 1e3,
                write_iops: number("rand_write_kiops")? * 1e3,
                read_bytes_per_s: number("seq_read_mb_s")? * 1e6,
                write_bytes_per_s: number("seq_write_mb_s")? * 1e6,
                active_watts: number("active_w")?,
            })
        };
        let sheets = SHEETS.iter();
        Calculator {
            drives: sheets
                .filter_map(|(drive, id)| Some(((*drive).to_string(), sheet(id)?)))
                .collect(),
            links: SHARED_LANES
                .map(|(platform, lanes)| (platform.to_string(), lanes * LANE_BYTES_PER_S))
                .into(),
        }
    }
}

/// An array's requests per second.
struct Limits {
    reads: f64,
    writes: f64,
    /// Bytes that reach the drives per byte written.
    written_per_byte: f64,
}

fn limits(sheet: &Sheet, level: Level, count: u32, bs: f64, is_random: bool) -> Limits {
    let per_drive = |iops: f64, bytes_per_s: f64| {
        let streamed = bytes_per_s / bs;
        if is_random {
            streamed.min(iops)
        } else {
            streamed
        }
    };
    let reads = per_drive(sheet.read_iops, sheet.read_bytes_per_s);
    let writes = per_drive(sheet.write_iops, sheet.write_bytes_per_s);
    let n = f64::from(count);
    let (array_writes, written_per_byte) = match level {
        Level::Single | Level::Raid0 => (n * writes, 1.0),
        Level::Raid1 => (writes, n),
        Level::Raid10 => (n * writes / 2.0, 2.0),
        Level::Raid5 if !is_random => ((n - 1.0) * writes, n / (n - 1.0)),
        Level::Raid5 if count == 3 => (n / (1.0 / reads + 2.0 / writes), 2.0),
        Level::Raid5 => (n / (2.0 / reads + 2.0 / writes), 2.0),
    };
    Limits {
        reads: n * reads,
        writes: array_writes,
        written_per_byte,
    }
}

impl Predictor for Calculator {
    fn predict(
        &mut self,
        configuration: &Configuration,
        _: &BTreeSet<Metric>,
    ) -> Result<Prediction, NotModelled> {
        let (setup, workload) = (&configuration.setup, &configuration.workload);
        let missing = |what: &str| NotModelled {
            reason: format!("the calculator has no figures for {what}"),
        };
        let drive = setup.drive.text();
        let sheet = self.drives.get(drive).ok_or_else(|| missing(drive))?;
        let (Some(bs), Some(percent)) = (workload.bs, workload.read_percent()) else {
            return Err(missing("ACT"));
        };
        let bs = f64::from(bs.bytes());
        let is_random = !matches!(
            workload.op,
            Operation::Read | Operation::Write | Operation::SeqMix
        );
        let of = limits(sheet, setup.level, setup.count, bs, is_random);
        let share = f64::from(percent) / 100.0;
        let drives = 1.0 / (share / of.reads + (1.0 - share) / of.writes);
        let busier = share.max((1.0 - share) * of.written_per_byte);
        let link = self.links.get(setup.platform.text()).copied();
        let link = link.unwrap_or(f64::INFINITY) / (bs * busier);
        let demand = workload.mean_demand().map(Rate::iops);
        let able = drives.min(link);
        let iops = able.min(demand.unwrap_or(f64::INFINITY));
        let mut metrics = BTreeMap::from([
            (Metric::Iops, iops),
            (Metric::BytesPerSecond, iops * bs),
            (Metric::Watts, sheet.active_watts * f64::from(setup.count)),
        ]);
        if let Some(demand) = demand {
            let is_met = iops >= 0.99 * demand;
            metrics.insert(Metric::DemandMet, f64::from(u8::from(is_met)));
        }
        let limit = match demand {
            Some(demand) if demand <= able => "demand",
            _ if link < drives => "link",
            _ => "drives",
        };
        Ok(Prediction {
            metrics: metrics
                .into_iter()
                .map(|(metric, value)| (metric, Samples::Exact(value)))
                .collect(),
            limited_by: Some(limit.to_string()),
        })
    }
}

#[cfg(test)]
mod tests;

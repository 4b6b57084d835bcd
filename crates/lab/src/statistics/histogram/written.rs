//! Latencies as they are written: how many there were of each, so that others can read and draw them too.

use super::Latencies;
use serde::{Deserialize, Serialize};

/// What a histogram can count at most.
const LATENCY_MAX_NS: u64 = u64::MAX >> 1;

/// The written form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Sum of all latencies.
    sum_ns: u64,
    /// The least; 0 without any.
    min_ns: u64,
    /// The greatest; 0 without any.
    max_ns: u64,
    /// Latencies to three digits, rising, and how many requests had each.
    counts: Vec<(u64, u64)>,
}

impl From<Latencies> for Written {
    fn from(latencies: Latencies) -> Written {
        let recorded = latencies.buckets.iter_recorded();
        let counts = recorded.map(|bucket| {
            (
                bucket.value_iterated_to(),
                bucket.count_since_last_iteration(),
            )
        });
        let (min_ns, max_ns) = latencies.extremes_ns().unwrap_or((0, 0));
        Written {
            // 584 years of waiting.
            sum_ns: u64::try_from(latencies.sum_ns).unwrap_or(u64::MAX),
            min_ns,
            max_ns,
            counts: counts.collect(),
        }
    }
}

impl TryFrom<Written> for Latencies {
    type Error = String;

    fn try_from(written: Written) -> Result<Latencies, String> {
        let Written {
            sum_ns,
            min_ns,
            max_ns,
            counts,
        } = written;
        let mut all = Latencies::default();
        let mut total: u64 = 0;
        for (latency_ns, count) in counts {
            total = total
                .checked_add(count)
                .ok_or("there are too many counts")?;
            if latency_ns > LATENCY_MAX_NS || count == 0 {
                return Err(format!(
                    "{latency_ns} ns, {count} times, is no count of latencies"
                ));
            }
            all.record_many(latency_ns, count);
        }
        if total == 0 {
            return Ok(all);
        }
        // The middle of the first bucket is not below the least latency, and so on.
        if min_ns > all.min_ns || max_ns > all.max_ns || min_ns > max_ns {
            return Err("the extremes of latencies do not fit their counts".to_owned());
        }
        all.sum_ns = u128::from(sum_ns);
        (all.min_ns, all.max_ns) = (min_ns, max_ns);
        Ok(all)
    }
}

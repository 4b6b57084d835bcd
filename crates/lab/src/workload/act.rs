//! Aerospike's certification test (ACT) as the published tool defines it.
//!
//! At 1x there are per second 2000 transactions that read 1536 bytes and 1000 that write as much. Writes reach the
//! drive as large blocks of 128 KiB. Because half of a block is still in use when it is cleaned, blocks are read and
//! written twice as often as new data alone would need: 1000 / 85 x 2 = 23.53 large reads and as many large writes per
//! second, where floor(131072 / 1536) = 85 is the number of records in a block.
//!
//! A run passes when each limit of [`LIMITS`] holds. The score is the largest multiple that passes.

use super::Arrivals;
use super::arrivals::Rate;
use super::generator::Flow;
use super::offsets::{Grid, Order};
use crate::statistics::histogram::Latencies;

/// Bytes of a record, and of a transaction that reads one.
const RECORD_BYTES: u32 = 1536;
/// Bytes of a large block.
const BLOCK_BYTES: u32 = 128 << 10;
/// Records start at any sector.
const SECTOR_BYTES: u32 = 512;
/// How often blocks are written, per block of new data.
const WRITES_PER_BLOCK: u64 = 2;

/// Threads that move large blocks, beside those of the transactions: one reads, one writes.
pub const LARGE_THREADS: u32 = 2;

/// Pairs of milliseconds and a limit: fewer than so many of 100 000 transactions may take longer than the milliseconds.
pub const LIMITS: [(u64, u64); 3] = [(1, 5000), (8, 1000), (64, 100)];

/// The load at `tenths` tenths of 1x.
pub(super) fn flows(threads: u32, tenths: u32) -> [Flow; 3] {
    let tenths = u64::from(tenths);
    let small = Flow {
        threads,
        // A thread waits for each of its reads before it issues the next.
        depth: 1,
        rate: Some((
            Arrivals::Paced,
            Rate {
                requests: 200 * tenths,
                seconds: 1,
            },
        )),
        bursts: None,
        grid: Grid {
            length_bytes: RECORD_BYTES,
            stride_bytes: SECTOR_BYTES,
            shift_bytes: 0,
        },
        order: Order::Random,
        read_percent: 100,
        is_counted: true,
    };
    let large = |read_percent| Flow {
        threads: 1,
        rate: Some((
            Arrivals::Paced,
            Rate {
                requests: 100 * tenths * WRITES_PER_BLOCK,
                seconds: u64::from(BLOCK_BYTES / RECORD_BYTES),
            },
        )),
        bursts: None,
        grid: Grid {
            length_bytes: BLOCK_BYTES,
            stride_bytes: BLOCK_BYTES,
            shift_bytes: 0,
        },
        read_percent,
        is_counted: false,
        ..small
    };
    [small, large(100), large(0)]
}

/// Share of transactions that took longer than `milliseconds`, in percent; `None` if there were none.
#[must_use]
pub fn percent_over(latencies: &Latencies, milliseconds: u64) -> Option<f64> {
    let all = latencies.count();
    let slow = all - latencies.count_up_to(milliseconds * 1_000_000);
    (all > 0).then(|| 100.0 * slow as f64 / all as f64)
}

/// Whether the transactions meet every limit. False if there were none.
#[must_use]
pub fn passes(latencies: &Latencies) -> bool {
    let all = latencies.count();
    all > 0
        && LIMITS.iter().all(|(milliseconds, of_100_000)| {
            let slow = all - latencies.count_up_to(milliseconds * 1_000_000);
            u128::from(slow) * 100_000 < u128::from(all) * u128::from(*of_100_000)
        })
}

/// The largest multiple that `passes`, in tenths of 1x, at most `most`; 0 if even one tenth fails.
///
/// Doubles until a run fails, then halves the remaining range until it is one in `one_in` of the multiple, or a tenth
/// of 1x, wide: a load that passes is assumed to pass at any smaller multiple. On real drives each run should be repeated,
/// because a single one may fail by chance.
///
/// # Errors
///
/// The first one of `passes`.
///
/// # Panics
///
/// If `one_in` is 0.
pub fn largest_multiple<E>(
    most: u32,
    one_in: u32,
    mut passes: impl FnMut(u32) -> Result<bool, E>,
) -> Result<u32, E> {
    let (mut good, mut bad) = (0, most.saturating_add(1));
    let mut next = 10;
    while bad - good > (good / one_in).max(1) {
        if passes(next.min(bad - 1))? {
            good = next.min(bad - 1);
        } else {
            bad = next.min(bad - 1);
        }
        next = if bad > most {
            good.saturating_mul(2)
        } else {
            good + (bad - good) / 2
        };
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::generator::Generator;
    use super::*;

    #[test]
    fn the_load_is_that_of_the_tool() {
        let mut load = Generator::act(4, 20, 1 << 40, 1).expect("there is room");
        assert_eq!(load.threads(), 6);
        let (mut small, mut large_reads, mut large_writes) = (0, 0, 0);
        for thread in 0..6 {
            while let Some(command) = load.next(thread, 85_000_000_000 - 1) {
                load.completed(thread);
                match (command.length_bytes, command.kind) {
                    (1536, Kind::Read) => small += 1,
                    (131_072, Kind::Read) => large_reads += 1,
                    (131_072, Kind::Write) => large_writes += 1,
                    other => panic!("{other:?}"),
                }
                assert_eq!(command.is_counted, command.length_bytes == 1536);
                assert_eq!(command.offset_bytes % 512, 0);
            }
        }
        // At twice the load for 85 seconds: 4000 x 85 small reads, and 2 x 2000 large requests of each kind.
        assert_eq!((small, large_reads, large_writes), (340_000, 4000, 4000));
    }

    #[test]
    fn a_limit_that_is_reached_is_broken() {
        let mut latencies = Latencies::default();
        assert!(!passes(&latencies));
        (0..951).for_each(|_| latencies.record(100_000));
        (0..49).for_each(|_| latencies.record(2_000_000));
        assert!(passes(&latencies));
        assert_eq!(percent_over(&latencies, 1), Some(4.9));
        assert_eq!(percent_over(&latencies, 8), Some(0.0));
        (0..2).for_each(|_| latencies.record(2_000_000));
        assert!(!passes(&latencies), "51 of 1002 are above 5 %");
    }

    #[test]
    fn the_search_finds_the_largest_multiple() {
        for truth in [0, 1, 9, 10, 11, 127, 400, 999, 1000] {
            let mut runs = 0;
            let found = largest_multiple(1000, u32::MAX, |tenths| {
                runs += 1;
                assert!((1..=1000).contains(&tenths));
                Ok::<bool, ()>(tenths <= truth)
            });
            assert_eq!(found, Ok(truth));
            assert!(runs <= 20, "{truth}: {runs} runs");
            let coarse = largest_multiple(1000, 8, |tenths| Ok::<bool, ()>(tenths <= truth));
            assert!(coarse.is_ok_and(|found| found <= truth && truth < found + (found / 8).max(1)));
        }
        assert_eq!(largest_multiple(10, 1, |_| Err("broken")), Err("broken"));
    }
}

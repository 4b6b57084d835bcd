//! What an array has to do, as people say it: "400k 70/30 8k, p99 < 1ms, 60 TB usable, two years".
//!
//! Clauses are separated by commas and may come in any order. One is the load; the others are limits.
//!
//! | clause | form |
//! |---|---|
//! | load | requests per second, what they are, and their size: `400k 70/30 8k`, `1.2M reads 4k`, `40k writes 128k sequential` |
//! | latency | `p99 < 1ms`; also `mean`, `p50`, `p99.9` and `p99.99`, in `us`, `ms` or `s` |
//! | capacity | `60 TB usable`, in `GB`, `TB` or `PB` (powers of 1000), `GiB` or `TiB` |
//! | endurance | `two years`, `5 years`: how long the load has to go on before the rated endurance is spent |

use anyhow::{Result, anyhow, bail, ensure};
use lab::schema::metric::Statistic;
use lab::workload::Operation;
use lab::workload::size::Size;

/// An example that errors show.
const EXAMPLE: &str = "\"400k 70/30 8k, p99 < 1ms, 60 TB usable, two years\"";
/// Most requests per second that may be asked for.
const IOPS_MAX: f64 = 1e9;

/// What an array has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The load as it was given.
    pub load_text: String,
    /// Requests per second.
    pub iops: u64,
    /// Their kind.
    pub op: Operation,
    /// Reads among them in percent, if reads and writes are mixed.
    pub read_pct: Option<u8>,
    /// Their size.
    pub bs: Size,
    /// Latencies below which requests stay.
    pub latencies: Vec<LatencyLimit>,
    /// The least that the array holds.
    pub usable: Option<Usable>,
    /// How long the load goes on before the drives' endurance is spent, at least.
    pub lifetime: Option<Lifetime>,
}

/// A size that an array has at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Usable {
    /// As it was given.
    pub text: String,
    /// In bytes.
    pub bytes: u64,
}

/// A time for which drives last at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Lifetime {
    /// As it was given.
    pub text: String,
    /// In years.
    pub years: f64,
}

/// A limit of a latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyLimit {
    /// As it was given.
    pub text: String,
    /// Which latency.
    pub statistic: Statistic,
    /// It stays below this.
    pub below_us: f64,
}

/// A clause that has been understood.
enum Clause {
    Load(Load),
    Latency(LatencyLimit),
    Usable(Usable),
    Lifetime(Lifetime),
}

struct Load {
    text: String,
    iops: u64,
    op: Operation,
    read_pct: Option<u8>,
    bs: Size,
}

impl Wanted {
    /// Understands `text`.
    ///
    /// # Errors
    /// A clause is not understood, is given twice, or there is no load: one sentence.
    pub fn parse(text: &str) -> Result<Wanted> {
        let (mut load, mut usable, mut lifetime) = (None, None, None);
        let mut latencies: Vec<LatencyLimit> = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let twice = || anyhow!("--for has two clauses like \"{part}\"; give one");
            match clause(part)? {
                Clause::Load(found) => ensure!(load.replace(found).is_none(), twice()),
                Clause::Usable(size) => ensure!(usable.replace(size).is_none(), twice()),
                Clause::Lifetime(time) => ensure!(lifetime.replace(time).is_none(), twice()),
                Clause::Latency(limit) => {
                    let is_there = |other: &LatencyLimit| other.statistic == limit.statistic;
                    ensure!(!latencies.iter().any(is_there), twice());
                    latencies.push(limit);
                }
            }
        }
        let Some(load) = load else {
            bail!("--for says nothing of the load, like \"400k 70/30 8k\" in {EXAMPLE}");
        };
        Ok(Wanted {
            load_text: load.text,
            iops: load.iops,
            op: load.op,
            read_pct: load.read_pct,
            bs: load.bs,
            latencies,
            usable,
            lifetime,
        })
    }
}

fn clause(part: &str) -> Result<Clause> {
    let words: Vec<&str> = part.split_whitespace().collect();
    if part.contains('<') {
        return latency(part).map(Clause::Latency);
    }
    match words.as_slice() {
        [size @ .., "usable"] => usable(part, &size.concat()).map(Clause::Usable),
        [number, "year" | "years"] => lifetime(part, number).map(Clause::Lifetime),
        _ => load(part, &words).map(Clause::Load),
    }
}

/// The number at the beginning of `text`, and what follows it.
fn number_and_rest(text: &str) -> Option<(f64, &str)> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let end = text.find(|letter| !is_of_number(letter));
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some((number, rest.trim()))
}

fn latency(part: &str) -> Result<LatencyLimit> {
    let (name, limit) = part.split_once('<').expect("the caller has seen it");
    let statistic = match name.trim() {
        "mean" => Statistic::Mean,
        "p50" => Statistic::P50,
        "p99" => Statistic::P99,
        "p99.9" => Statistic::P99_9,
        "p99.99" => Statistic::P99_99,
        other => bail!(
            "--for: \"{other}\" in \"{part}\" is no latency; give mean, p50, p99, p99.9 or p99.99"
        ),
    };
    let limit = limit.strip_prefix('=').unwrap_or(limit).trim();
    let unit_us = |unit: &str| match unit {
        "us" => Some(1.0),
        "ms" => Some(1e3),
        "s" => Some(1e6),
        _ => None,
    };
    let below_us = number_and_rest(limit).and_then(|(number, unit)| Some(number * unit_us(unit)?));
    let below_us = below_us
        .ok_or_else(|| anyhow!("--for: \"{part}\" needs a time above 0 like 500us or 1ms"))?;
    Ok(LatencyLimit {
        text: part.to_owned(),
        statistic,
        below_us,
    })
}

fn usable(part: &str, size: &str) -> Result<Usable> {
    let unit_bytes = |unit: &str| match unit {
        "GB" => Some(1e9),
        "TB" => Some(1e12),
        "PB" => Some(1e15),
        "GiB" => Some(2f64.powi(30)),
        "TiB" => Some(2f64.powi(40)),
        _ => None,
    };
    let bytes = number_and_rest(size).and_then(|(number, unit)| Some(number * unit_bytes(unit)?));
    let bytes = bytes.filter(|bytes| (1e6..1e18).contains(bytes));
    let bytes = bytes.ok_or_else(|| {
        anyhow!("--for: \"{part}\" needs a size like 60 TB; units are GB, TB, PB, GiB and TiB")
    })?;
    Ok(Usable {
        text: part.to_owned(),
        bytes: bytes.round() as u64,
    })
}

fn lifetime(part: &str, number: &str) -> Result<Lifetime> {
    const WORDS: [&str; 10] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    let spelled = WORDS.iter().position(|word| *word == number);
    let spelled = spelled.map(|at| (at + 1) as f64);
    let typed = || number_and_rest(number).filter(|(_, rest)| rest.is_empty());
    let number = spelled.or_else(|| typed().map(|(number, _)| number));
    let years =
        number.ok_or_else(|| anyhow!("--for: \"{part}\" needs a number of years above 0"))?;
    Ok(Lifetime {
        text: part.to_owned(),
        years,
    })
}

fn load(part: &str, words: &[&str]) -> Result<Load> {
    let refuse = || {
        anyhow!(
            "--for does not understand \"{part}\": a load is a rate, what requests are, and their size, like \"400k 70/30 8k\" or \
             \"40k writes 128k sequential\"; an example of all is {EXAMPLE}"
        )
    };
    let (is_sequential, words) = match words {
        [rest @ .., "sequential"] => (true, rest),
        [rest @ .., "random"] => (false, rest),
        all => (false, all),
    };
    let (rate, mix, size) = match words {
        [rate, mix, size] | [rate, "IOPS", mix, size] => (rate, mix, size),
        _ => return Err(refuse()),
    };
    let unit = |unit: &str| match unit {
        "" => Some(1.0),
        "k" => Some(1e3),
        "M" => Some(1e6),
        _ => None,
    };
    let iops = number_and_rest(rate).and_then(|(number, rest)| Some(number * unit(rest)?));
    let iops = iops
        .filter(|iops| (1.0..=IOPS_MAX).contains(iops))
        .ok_or_else(refuse)?;
    let bs = Size::try_from((*size).to_owned());
    let bs = bs.map_err(|rule| anyhow!("--for: \"{part}\": {rule}"))?;
    let read_pct = reads_of(mix).ok_or_else(refuse)?;
    let op = match (read_pct, is_sequential) {
        (100, false) => Operation::RandRead,
        (100, true) => Operation::Read,
        (0, false) => Operation::RandWrite,
        (0, true) => Operation::Write,
        (_, false) => Operation::RandMix,
        (_, true) => Operation::SeqMix,
    };
    let is_mixed = matches!(op, Operation::RandMix | Operation::SeqMix);
    Ok(Load {
        text: part.to_owned(),
        iops: iops.round() as u64,
        op,
        read_pct: is_mixed.then_some(read_pct),
        bs,
    })
}

/// The share of reads in percent, of `reads`, `writes` or `70/30`.
fn reads_of(mix: &str) -> Option<u8> {
    match mix {
        "read" | "reads" => return Some(100),
        "write" | "writes" => return Some(0),
        _ => {}
    }
    let (reads, writes) = mix.split_once('/')?;
    let (reads, writes): (u8, u8) = (reads.parse().ok()?, writes.parse().ok()?);
    (u32::from(reads) + u32::from(writes) == 100).then_some(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_understood_in_any_order() {
        let wanted = Wanted::parse("60 TB usable, two years, 400k 70/30 8k, p99 < 1ms,mean<200 us");
        let wanted = wanted.expect("it is of the form");
        assert_eq!((wanted.iops, wanted.read_pct), (400_000, Some(70)));
        assert_eq!((wanted.op, wanted.bs.bytes()), (Operation::RandMix, 8192));
        let usable = wanted.usable.map(|usable| (usable.bytes, usable.text));
        assert_eq!(
            usable,
            Some((60_000_000_000_000, "60 TB usable".to_owned()))
        );
        assert_eq!(wanted.lifetime.map(|lifetime| lifetime.years), Some(2.0));
        let limits: Vec<_> = wanted
            .latencies
            .iter()
            .map(|it| (it.statistic, it.below_us))
            .collect();
        assert_eq!(limits, [(Statistic::P99, 1000.0), (Statistic::Mean, 200.0)]);
    }

    #[test]
    fn loads_are_of_reads_or_writes_at_random_or_in_order() {
        for (text, iops, op, read_pct, bytes) in [
            ("1.2M reads 4k", 1_200_000, Operation::RandRead, None, 4096),
            ("500 IOPS writes 512", 500, Operation::RandWrite, None, 512),
            (
                "40k writes 128k sequential",
                40_000,
                Operation::Write,
                None,
                131_072,
            ),
            (
                "40k 100/0 1m sequential",
                40_000,
                Operation::Read,
                None,
                1 << 20,
            ),
            (
                "9k 50/50 16k sequential",
                9_000,
                Operation::SeqMix,
                Some(50),
                16_384,
            ),
            (
                "9k 0/100 16k random",
                9_000,
                Operation::RandWrite,
                None,
                16_384,
            ),
        ] {
            let wanted = Wanted::parse(text).expect(text);
            assert_eq!(
                (wanted.iops, wanted.op, wanted.read_pct, wanted.bs.bytes()),
                (iops, op, read_pct, bytes),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_one_sentence_with_the_clause() {
        for (text, sentence) in [
            ("", "--for says nothing of the load"),
            ("60 TB usable", "--for says nothing of the load"),
            (
                "400k 70/40 8k",
                "--for does not understand \"400k 70/40 8k\": a load is a rate",
            ),
            (
                "400q 70/30 8k",
                "--for does not understand \"400q 70/30 8k\"",
            ),
            ("0 reads 8k", "--for does not understand \"0 reads 8k\""),
            ("fast", "--for does not understand \"fast\""),
            (
                "4k reads 5000",
                "--for: \"4k reads 5000\": a size is whole sectors of 512 bytes",
            ),
            (
                "4k reads 4k, p98 < 1ms",
                "--for: \"p98\" in \"p98 < 1ms\" is no latency",
            ),
            ("4k reads 4k, p99 < 1", "--for: \"p99 < 1\" needs a time"),
            (
                "4k reads 4k, p99 < 0ms",
                "--for: \"p99 < 0ms\" needs a time",
            ),
            (
                "4k reads 4k, 60 tb usable",
                "--for: \"60 tb usable\" needs a size like 60 TB",
            ),
            (
                "4k reads 4k, p99 <== 1ms",
                "--for: \"p99 <== 1ms\" needs a time",
            ),
            (
                "4k reads 4k, 0.00001 GB usable",
                "--for: \"0.00001 GB usable\" needs a size",
            ),
            (
                "4k reads 4k, some years",
                "--for: \"some years\" needs a number of years",
            ),
            (
                "4k reads 4k, 5k reads 4k",
                "--for has two clauses like \"5k reads 4k\"; give one",
            ),
            (
                "4k reads 4k, p99 < 1ms, p99 < 2ms",
                "--for has two clauses like \"p99 < 2ms\"",
            ),
        ] {
            let refusal = Wanted::parse(text).expect_err(text).to_string();
            assert!(refusal.starts_with(sentence), "{refusal}");
        }
    }
}

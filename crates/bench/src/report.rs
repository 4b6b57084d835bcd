//! Prints an outcome as one table for people.

use super::outcome::{Asked, BenchOutcome, Rates};
use std::fmt::Write;

/// Width of the column of names.
pub const NAME_WIDTH: usize = 30;
/// Width of a figure.
const FIGURE_WIDTH: usize = 16;

/// The table.
pub fn text(outcome: &BenchOutcome) -> String {
    let mut text = String::new();
    header(&mut text, &outcome.config);
    rates(&mut text, outcome);
    figures(&mut text, outcome);
    for note in &outcome.notes {
        line(&mut text, "note", note);
    }
    text
}

fn header(text: &mut String, asked: &Asked) {
    let failed = asked
        .failed
        .map(|slot| format!(", slot {slot} missing"))
        .unwrap_or_default();
    let shards = if asked.shards == 1 { "shard" } else { "shards" };
    let cores = match asked.pinned_cores.as_slice() {
        [] => "not pinned, too few cores".to_owned(),
        cores => format!(
            "core {}",
            cores
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let pages = if asked.huge_pages {
        "huge pages"
    } else {
        "small pages"
    };
    let log = match asked.write_hole {
        "log" => ", write-hole log",
        "bitmap" => ", write-intent bitmap",
        _ => "",
    };
    let _ = writeln!(
        text,
        "{} of {} x {}, chunk {}{log}{failed}\n{} of {}, queue depth {}, {} {shards} ({cores}), {} s\n{}\
         , {pages}, completion {}\n",
        asked.level,
        asked.count,
        asked.member,
        size(asked.chunk_bytes),
        asked.rw,
        size(asked.block_bytes),
        asked.queue_depth,
        asked.shards,
        asked.time_s,
        asked.ring,
        asked.completion,
    );
}

fn rates(text: &mut String, outcome: &BenchOutcome) {
    let compared = [&outcome.array, &outcome.bare, &outcome.generator];
    let mut row = |name: &str, cells: [String; 3]| {
        let _ = write!(text, "{name:<NAME_WIDTH$}");
        for cell in cells {
            let _ = write!(text, "{cell:>FIGURE_WIDTH$}");
        }
        text.push('\n');
    };
    row(
        "",
        ["array", "one bare member", "generator"].map(str::to_owned),
    );
    row("IOPS", compared.map(|rates: &Rates| grouped(rates.iops)));
    row(
        "MB/s",
        compared.map(|rates| grouped(rates.bytes_per_s / 1e6)),
    );
    row(
        "processor ns per I/O",
        compared.map(|rates| format!("{:.0}", rates.ns_per_io)),
    );
    row(
        "cores used",
        compared.map(|rates| format!("{:.2}", rates.cores)),
    );
    text.push('\n');
}

fn figures(text: &mut String, outcome: &BenchOutcome) {
    let raid = match outcome.raid_ns_per_io {
        Some(ns) => format!("{ns:.0} ns per I/O"),
        None => "unknown, as the threads sleep or spin until answers of limited members are due"
            .to_owned(),
    };
    line(text, "RAID over the bare member", &raid);
    let rounds = &outcome.rounds_iops;
    let (least, most) = (
        rounds.iter().copied().fold(f64::INFINITY, f64::min),
        rounds.iter().copied().fold(0.0, f64::max),
    );
    let spread = format!(
        "{} to {} IOPS in {} rounds",
        grouped(least),
        grouped(most),
        rounds.len()
    );
    line(text, "spread", &spread);
    line(
        text,
        "member commands per request",
        &format!("{:.3}", outcome.member_ios),
    );
    line(
        text,
        "allocations per request",
        &format!("{:.6}", outcome.allocations_per_request),
    );
    line(
        text,
        "member bytes per client byte",
        &format!("{:.3}", outcome.member_bytes_per_byte),
    );
    let latency = &outcome.latency_ns;
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    let columns = [
        ("mean", us(latency.mean)),
        ("p50", us(latency.p50 as f64)),
        ("p99", us(latency.p99 as f64)),
        ("p99.9", us(latency.p999 as f64)),
        ("p99.99", us(latency.p9999 as f64)),
        ("p99.999", us(latency.p99999 as f64)),
        ("max", us(latency.max as f64)),
    ];
    let latencies = columns
        .map(|(name, value)| format!("{name} {value}"))
        .join("  ");
    line(text, "latency in us", &latencies);
    match (outcome.roofline_iops, outcome.efficiency) {
        (Some(iops), Some(efficiency)) => {
            line(
                text,
                "roofline",
                &format!("{} IOPS = {}", grouped(iops), outcome.roofline),
            );
            line(
                text,
                "efficiency",
                &format!("{:.1} % of the roofline", efficiency * 100.0),
            );
        }
        _ => line(text, "roofline", &outcome.roofline),
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<NAME_WIDTH$}{value}");
}

/// A whole number in groups of three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Bytes in the largest unit that leaves a whole number.
fn size(bytes: u32) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Counters, LatencyNs};

    fn outcome() -> BenchOutcome {
        let rates = |iops: f64, ns_per_io| Rates {
            iops,
            bytes_per_s: iops * 4096.0,
            ns_per_io,
            cores: iops * ns_per_io / 1e9,
        };
        BenchOutcome {
            config: Asked {
                level: "RAID 5".to_owned(),
                member: "null:1g,read-iops=50k".to_owned(),
                count: 4,
                rw: "randread".to_owned(),
                block_bytes: 4096,
                queue_depth: 128,
                shards: 1,
                failed: Some(2),
                chunk_bytes: 65_536,
                write_hole: "off",
                time_s: 5.0,
                pinned_cores: vec![1],
                completion: "interrupt".to_owned(),
                ring: "io_uring with deferred completions".to_owned(),
                huge_pages: true,
            },
            array: rates(98_765.4, 812.0),
            rounds_iops: vec![98_700.0, 98_765.4, 99_000.0],
            raid_ns_per_io: Some(301.5),
            roofline_iops: Some(100_000.0),
            roofline: "N x R / 2".to_owned(),
            efficiency: Some(0.987_654),
            member_ios: 1.5,
            allocations_per_request: 0.0,
            member_bytes_per_byte: 1.5,
            latency_ns: LatencyNs {
                mean: 1296.0,
                p50: 1100,
                max: 9_876_543,
                ..LatencyNs::default()
            },
            generator: rates(105_000_000.0, 9.5),
            bare: rates(50_000.0, 510.0),
            stats: Counters::default(),
            notes: vec!["d0.img: the page cache is used".to_owned()],
        }
    }

    #[test]
    fn the_table() {
        insta::assert_snapshot!(text(&outcome()));
    }

    #[test]
    fn the_json_has_the_promised_keys() {
        let json = serde_json::to_value(outcome()).unwrap();
        for key in [
            "config",
            "iops",
            "bytes_per_s",
            "ns_per_io",
            "raid_ns_per_io",
            "roofline_iops",
            "efficiency",
            "member_ios",
            "allocations_per_request",
            "latency_ns",
            "cores",
            "generator",
            "bare",
            "stats",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        for key in ["mean", "p50", "p99", "p999", "p9999", "p99999", "max"] {
            assert!(json["latency_ns"][key].is_number(), "{key}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(grouped(1_234_567.4), "1 234 567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(
            [size(65_536), size(1536), size(1 << 20)],
            ["64 KiB", "1536 bytes", "1 MiB"]
        );
    }
}

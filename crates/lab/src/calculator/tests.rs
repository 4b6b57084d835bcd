use super::*;
use crate::claims::book::{Use, frozen};
use crate::claims::predictor::answer_all;
use crate::claims::score::{score, tally};
use crate::schema::catalogue::Catalogue;
use crate::schema::configuration::read_configurations;

fn calculator() -> Calculator {
    let (_, book) = frozen().expect("they have the form");
    let calculator = Calculator::of_claims(&book);
    assert_eq!(calculator.drives.len(), SHEETS.len());
    calculator
}

/// IOPS of `count` 2 TB drives.
fn iops(level: &str, count: u32, workload: &str, platform: &str) -> f64 {
    let stack = if level == "\"none\"" {
        "none"
    } else {
        "md-2018"
    };
    let text = format!(
        "schema = 1\n[setup.s]\ndrive = \"p4510-2tb\"\ncount = {count}\nlevel = {level}\n\
         platform = \"{platform}\"\nhost = \"linux-4.13\"\nstack = \"{stack}\"\n[points]\n\
         p = {{ setup = \"s\", state = \"steady\", workload = {{ threads = 8, qd = 64, {workload} }} }}"
    );
    let points = read_configurations("p.toml", &text, &Catalogue::of_claims()).expect(&text);
    let prediction = calculator()
        .predict(&points["p"], &BTreeSet::new())
        .expect("it has figures");
    match prediction.metrics[&Metric::Iops] {
        Samples::Exact(value) => value,
        Samples::Runs(_) => panic!("the calculator draws no runs"),
    }
}

#[test]
fn the_formulas_are_the_known_ones() {
    let x16 = "s2600wft-6154-x16";
    let (read, write) = (624_000.0, 79_000.0);
    let (reads, writes) = (
        "op = \"randread\", bs = \"4k\"",
        "op = \"randwrite\", bs = \"4k\"",
    );
    for (level, count, workload, expected) in [
        ("\"none\"", 1, reads, read),
        ("0", 4, reads, 4.0 * read),
        ("10", 4, reads, 4.0 * read),
        ("5", 4, reads, 4.0 * read),
        ("0", 4, writes, 4.0 * write),
        ("10", 4, writes, 2.0 * write),
        ("1", 2, writes, write),
        ("5", 4, writes, 4.0 / (2.0 / read + 2.0 / write)),
        ("5", 3, writes, 3.0 / (1.0 / read + 2.0 / write)),
        (
            "5",
            4,
            "op = \"write\", bs = \"128k\"",
            3.0 * 2e9 / 131_072.0,
        ),
        (
            "\"none\"",
            1,
            "op = \"randmix\", read_pct = 50, bs = \"4k\"",
            2.0 / (1.0 / read + 1.0 / write),
        ),
        (
            "0",
            4,
            "op = \"randread\", bs = \"4k\", demand_iops = 1000",
            1000.0,
        ),
    ] {
        let found = iops(level, count, workload, x16);
        assert!(
            (found / expected - 1.0).abs() < 1e-12,
            "{level} x {count} {workload}: {found}"
        );
    }
    // Four drives at 3.2 GB/s exceed what x8 carries, but not what x16 carries.
    let stream = "op = \"read\", bs = \"128k\"";
    let x8 = iops("0", 4, stream, "s2600wft-6154-x8") * 131_072.0;
    assert!((x8 - 7.877e9).abs() < 1e6, "{x8}");
    assert!(iops("0", 4, stream, x16) * 131_072.0 > 12e9);
}

#[test]
fn it_is_scored_like_any_other_predictor() {
    let (questions, book) = frozen().expect("they have the form");
    let card = score(
        &book,
        &answer_all(&questions, &mut calculator()),
        &BTreeMap::new(),
    );
    let of_seed = |seed: &str, usage: Use| {
        let found = tally(&card.rows, |row| row.seed == seed && row.usage == usage);
        (found.facts, found.passed, found.missed, found.not_modelled)
    };
    // Facts, passed, missed, not modelled. The facts that pass depend neither on queues nor on processors.
    let found =
        [("A", Use::V), ("I", Use::V), ("M", Use::C)].map(|(seed, usage)| of_seed(seed, usage));
    assert_eq!(found, [(25, 11, 13, 1), (10, 1, 9, 0), (15, 1, 3, 11)]);
    assert_eq!(
        of_seed("O", Use::V).1,
        0,
        "the calculator has no data sheets of those drives"
    );
}

//! Files that were changed by a typing error, a bad copy or an attacker are read, or refused with a clear
//! sentence. Nothing panics or takes long.

use lab::claims::book::{FILES, load};
use lab::claims::expression::Expression;
use lab::schema::catalogue::Catalogue;
use lab::schema::configuration::read_configurations;
use lab::schema::suite::Suite;
use lab::workload::generator::Generator;
use repeatable::random::Stream;

const SUITE: &str = include_str!("../suites/anandtech-2018.toml");

const CONFIGURATION: &str = r#"
schema = 1
[setup.r0x4]
drive = "p4510-2tb"
count = 4
level = 0
platform = "s2600wft-6154-x16"
host = "linux-4.13"
stack = "md-2018"
chunk_kib = 64
[points]
rr = { setup = "r0x4", state = "steady", workload = { op = "randmix", read_pct = 70, bs = "4k", align = "512", threads = 8, qd = 64, hot_access_pct = 90, hot_span_pct = 10, skip_seconds = 1, seconds = 2 } }
wr = { setup = "r0x4", state = "filled", workload = { op = "write", bs = "128k", threads = 2, qd = 4, demand_iops = 1000, arrivals = "poisson" } }
"#;

/// The pieces put in: parts of numbers, quotes and tables, valid and invalid.
const PIECES: [&str; 24] = [
    "0",
    "-1",
    "99999999999999999999",
    "1e309",
    "nan",
    "inf",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    "\n",
    "#",
    "\u{0}",
    "é",
    "true",
    "1979-05-27",
    "512",
    "\"\"",
    "setup",
    ",",
];

/// `text` with one or two changes: a piece put in, a part left out, or a part repeated.
fn damaged(text: &str, stream: &mut Stream) -> String {
    let mut text = text.to_string();
    for _ in 0..stream.between(1, 2) {
        let mut place = |text: &str| {
            let at = stream.below(text.len() as u64 + 1) as usize;
            (0..=at)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0)
        };
        let (one, other) = (place(&text), place(&text));
        let (from, to) = (one.min(other), one.max(other).min(one.min(other) + 40));
        let to = (from..=to)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(from);
        match stream.below(3) {
            0 => text.insert_str(from, stream.pick(&PIECES)),
            1 => text.replace_range(from..to, ""),
            _ => {
                let part = text[from..to].to_string();
                text.insert_str(from, &part);
            }
        }
    }
    text
}

#[test]
fn damaged_configurations_are_read_or_refused() {
    let mut stream = Stream::new(1, "configurations", 0);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..4000 {
        let text = damaged(CONFIGURATION, &mut stream);
        match read_configurations("c.toml", &text, &Catalogue::of_claims()) {
            Ok(points) => {
                read += 1;
                for point in points.values() {
                    if let Ok(mut generator) = Generator::new(&point.workload, 1 << 30, 1) {
                        assert!(generator.next(0, u64::MAX).is_some());
                    }
                }
            }
            Err(refusal) => {
                refused += 1;
                let sentence = refusal.to_string();
                assert!(
                    sentence.starts_with("c.toml: ") && !sentence.ends_with('.'),
                    "{sentence}"
                );
                assert!(
                    !sentence.contains('\n') && sentence.len() < 600,
                    "{sentence}"
                );
            }
        }
    }
    assert!(
        read > 40 && refused > 1000,
        "{read} read, {refused} refused"
    );
}

#[test]
fn damaged_suites_are_read_or_refused() {
    let mut stream = Stream::new(2, "suites", 0);
    for _ in 0..1000 {
        let text = damaged(SUITE, &mut stream);
        match Suite::read("s.toml", &text) {
            Ok(suite) => assert!(!suite.steps(1).is_empty()),
            Err(refusal) => assert!(!refusal.to_string().contains('\n')),
        }
    }
}

#[test]
fn damaged_claims_are_read_or_refused() {
    let mut stream = Stream::new(3, "claims", 0);
    let (file, text) = FILES[2];
    for _ in 0..500 {
        let text = damaged(text, &mut stream);
        if let Err(refusal) = load(&[(file, &text)]) {
            assert!(!refusal.to_string().contains('\n'));
        }
    }
}

#[test]
fn damaged_expressions_are_read_or_refused() {
    let text =
        "min(a.iops / max(b.iops, 2.5e3), (c.latency_us.p99_9 - 1.0) * 3 / d.latency_us.mean)";
    let mut stream = Stream::new(4, "expressions", 0);
    let mut read = 0;
    for _ in 0..20_000 {
        if let Ok(expression) = Expression::parse(&damaged(text, &mut stream)) {
            read += 1;
            let _unit = expression.unit();
            let value = expression.evaluate(&|_, _| Some(2.0));
            assert!(value.is_none_or(f64::is_finite));
        }
    }
    assert!(read > 200, "{read}");
}

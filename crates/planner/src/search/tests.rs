use super::ask::Asked;
use super::bound::{BOUND_SLACK, bound, written_at_least};
use super::candidate::Candidate;
use super::draws::DRAWS_WITHOUT;
use super::report::Found;
use super::*;
use crate::files::add_drive;
use crate::plan::bands::drawn;
use crate::plan::size::SizeQuestion;
use crate::work::Quiet;
use lab::schema::setup::Reference;
use std::cell::Cell;
use std::path::Path;

const WORK: Work = Work {
    jobs: Some(2),
    remember: false,
};

/// Three drives with profiles, and one with a sheet.
const PRICES: &str = "schema = 1\ncurrency = \"EUR\"\n[drive]\np4510-1tb = 110\np4510-2tb = 210\np4800x-750gb = 700\n\
                      samsung-980-pro-1tb = 90\n[platform]\ns2600wft-6154-x16 = 5000\n";

/// The prices without the drive that has only a sheet, which takes twenty draws.
fn without_sheets() -> String {
    PRICES.replace("samsung-980-pro-1tb = 90\n", "")
}

/// A search among these prices on a machine with four bays.
fn asked(text: &str, prices: &Path) -> Asked {
    Asked {
        text: text.to_owned(),
        drive: None,
        levels: Vec::new(),
        count: None,
        chunk_kib: None,
        platform: "s2600wft-6154-x16".to_owned(),
        here: None,
        host: None,
        engine_cores: None,
        export: None,
        completion: None,
        threads: None,
        qd: None,
        state: None,
        size: SizeQuestion {
            prices: Some(prices.to_owned()),
            ..SizeQuestion::default()
        },
    }
}

/// Runs `change`d search; with `run_all`, nothing is ruled out by the calculator.
fn found(text: &str, prices: &str, run_all: bool, change: impl Fn(&mut Asked)) -> SearchReport {
    found_by(WORK, text, prices, run_all, change)
}

fn found_by(
    work: Work,
    text: &str,
    prices: &str,
    run_all: bool,
    change: impl Fn(&mut Asked),
) -> SearchReport {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prices.toml");
    std::fs::write(&file, prices).expect("it is written");
    let mut asked = asked(text, &file);
    change(&mut asked);
    let mut library = Library::default();
    let question = asked.question(&mut library);
    let (mut question, left_out) = question.unwrap_or_else(|error| panic!("{error:#}"));
    question.run_all = run_all;
    let report = search(&question, library, work, &Quiet, left_out);
    report.unwrap_or_else(|error| panic!("{error:#}"))
}

fn in_short(report: &SearchReport) -> Vec<(String, Level, u32, f64)> {
    let found = report.found.iter();
    found
        .map(|one| {
            let Bought {
                drive,
                level,
                count,
                price,
                ..
            } = &one.bought;
            (drive.clone(), *level, *count, *price)
        })
        .collect()
}

/// Every array of a machine with so many bays, each run on its own and judged by its margins: the fewest drives of each drive and level
/// that hold, the cheapest first.
fn by_brute_force(
    text: &str,
    prices: &str,
    (platform, bays): (&str, u32),
) -> Vec<(String, Level, u32, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prices.toml");
    std::fs::write(&file, prices).expect("it is written");
    let mut library = Library::default();
    let mut asked = asked(text, &file);
    asked.platform = platform.to_owned();
    let (question, _) = asked.question(&mut library).expect("it is possible");
    let limits = question.wanted.latencies.iter();
    let limits = limits.map(|limit| Metric::Latency(limit.statistic));
    let metrics: BTreeSet<Metric> = [Metric::Iops, Metric::BytesPerSecond, Metric::Watts]
        .into_iter()
        .chain(limits)
        .collect();
    let predictor = Virtual {
        quick: true,
        library,
        ..Virtual::default()
    };
    let library = &predictor.library;
    let holds = |configuration: &Configuration| {
        let margins_of = |one: &Configuration| {
            let answer = predictor.answer(one, &metrics).expect("it is modelled");
            let sizing = question.sizer.sized(one, &answer, None, library);
            of_run(
                &question.wanted,
                &answer,
                &sizing.expect("it can be created"),
                None,
            )
        };
        let all_hold = |one: &Configuration| margins_of(one).iter().all(Margin::holds);
        let failing = Cell::new(0);
        let draw_holds = |draw: &Configuration| {
            failing.set(failing.get() + usize::from(!all_hold(draw)));
            failing.get() <= DRAWS_WITHOUT
        };
        all_hold(configuration) && drawn(configuration, library).iter().all(draw_holds)
    };
    let mut all = Vec::new();
    for (drive, name) in question.drives.iter().enumerate() {
        let price = question.sizer.price(name).expect("it has one");
        for level in [Level::Raid1, Level::Raid5, Level::Raid10] {
            let counts: Vec<u32> = match level {
                Level::Raid1 => vec![2],
                Level::Raid5 => (3..=bays).collect(),
                _ => (4..=bays).step_by(2).collect(),
            };
            let fewest = counts.into_iter().find(|&count| {
                let candidate = Candidate {
                    price,
                    count,
                    drive,
                    level,
                };
                let chunks: &[Option<u32>] = match level {
                    Level::Raid1 => &[None],
                    _ => &[Some(128), Some(64), Some(32), Some(16)],
                };
                let mut chunks = chunks.iter();
                chunks.any(|chunk| holds(&question.configuration(&candidate, *chunk, true)))
            });
            let price = |count: u32| price * f64::from(count) + question.platform_price;
            all.extend(fewest.map(|count| (name.clone(), level, count, price(count))));
        }
    }
    all.sort_by(|one, other| one.3.total_cmp(&other.3));
    all.truncate(MOST_FOUND);
    all
}

#[test]
fn the_search_finds_what_brute_force_finds() {
    for (text, prices) in [
        (
            "8k 70/30 8k, p99 < 600us, 1.5 TB usable, two years",
            PRICES.to_owned(),
        ),
        ("300k reads 4k, 1 TB usable", without_sheets()),
        ("10k writes 4k, p99 < 500us", without_sheets()),
        ("4k writes 256k sequential", without_sheets()),
    ] {
        let expected = by_brute_force(text, &prices, ("s2600wft-6154-x16", 4));
        assert!(!expected.is_empty(), "{text}");
        let report = found(text, &prices, false, |_| {});
        assert_eq!(in_short(&report), expected, "{text}");
    }
}

#[test]
fn numbers_of_drives_that_are_passed_over_would_not_have_held() {
    let prices = "schema = 1\ncurrency = \"EUR\"\n[drive]\np4510-1tb = 110\n";
    // A RAID 5 holds from about eight drives on.
    let text = "120k writes 4k, p99 < 4ms";
    let expected = by_brute_force(text, prices, ("epyc-9554p-24", 24));
    assert!(!expected.is_empty());
    let report = found(text, prices, false, |asked| {
        asked.platform = "epyc-9554p-24".to_owned();
    });
    assert_eq!(in_short(&report), expected);
    assert!(report.simulated <= 14, "{report:?}");
}

#[test]
fn the_most_drives_are_the_nearest_of_those_that_are_given_up() {
    let prices = "schema = 1\ncurrency = \"EUR\"\n[drive]\np4510-1tb = 110\n";
    let report = found("5k 70/30 8k, p99 < 120us", prices, false, |asked| {
        asked.platform = "epyc-9554p-24".to_owned();
        asked.levels = vec![Level::Raid10];
    });
    assert!(report.found.is_empty(), "{report:?}");
    let nearest = report.nearest.expect("there is one");
    assert_eq!((nearest.bought.count, nearest.bought.price), (24, 2640.0));
    assert!(!nearest.margin.holds(), "{nearest:?}");
}

#[test]
fn bays_are_not_alike_where_more_drives_may_move_less() {
    let library = Library::default();
    let platform = library.platform(&"epyc-9554p-24".to_owned().into());
    let mut graph = platform.expect("it is there").clone();
    assert!(has_like_bays(&graph));
    // Of the four bays of the first port two are gone: four drives have half of them behind each of two ports, and five have three.
    graph.bays.drain(..2);
    assert!(!has_like_bays(&graph));
}

#[test]
fn no_run_exceeds_its_bounds() {
    let library = || {
        let mut library = Library::default();
        for drive in ["p4510-1tb", "p4800x-750gb"] {
            add_drive(&mut library, Path::new(""), &drive.to_owned().into()).expect("it is there");
        }
        library
    };
    let predictor = Virtual {
        quick: true,
        library: library(),
        ..Virtual::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prices.toml");
    std::fs::write(&file, PRICES).expect("it is written");
    for (text, level, count) in [
        ("1k writes 4k", Level::Raid5, 3),
        ("1k writes 4k", Level::Raid5, 8),
        ("1k writes 128k", Level::Raid5, 4),
        ("1k 70/30 8k", Level::Raid5, 3),
        ("1k 70/30 8k", Level::Raid10, 4),
    ] {
        let mut asked = asked(text, &file);
        asked.platform = "epyc-9554p-24".to_owned();
        // So that drives are the limit.
        asked.engine_cores = Some(8);
        let (question, _) = asked.question(&mut library()).expect("it is possible");
        for drive in 0..2 {
            let candidate = Candidate {
                price: 1.0,
                count,
                drive,
                level,
            };
            let configuration = question.configuration(&candidate, None, false);
            let what = format!("{text} {:?}", configuration.setup);
            let metrics = BTreeSet::from([Metric::Iops]);
            let answer = predictor
                .answer(&configuration, &metrics)
                .expect("it is modelled");
            let most = bound(&configuration, &predictor.library).expect("it has one");
            let iops = answer.summary[&Metric::Iops].value;
            assert!(
                iops <= most.iops * BOUND_SLACK,
                "{what}: {iops} {}",
                most.iops
            );
            let written = answer.written_per_written.expect("it writes");
            let least = written_at_least(&configuration);
            assert!(written * BOUND_SLACK >= least, "{what}: {written} {least}");
            assert!(written <= least * 1.6, "{what}: {written} {least}");
        }
    }
}

#[test]
fn the_report_does_not_depend_on_the_threads() {
    let prices = "schema = 1\ncurrency = \"EUR\"\n[drive]\nsamsung-980-pro-1tb = 90\n";
    let [one, eight] = [1, 8].map(|jobs| {
        let work = Work {
            jobs: Some(jobs),
            ..WORK
        };
        // The usual drive holds. The sixth draw decides that too few do; of those behind it, which only several threads have begun by
        // then, some have less.
        let report = found_by(work, "5k 70/30 8k, p99 < 125us", prices, false, |asked| {
            asked.levels = vec![Level::Raid1];
        });
        let margin = &report.failed[0].margin;
        assert!(margin.found.contains("in one of the drives"), "{margin:?}");
        serde_json::to_string(&report).expect("it has a form")
    });
    assert_eq!(one, eight);
}

#[test]
fn nothing_that_is_ruled_out_without_a_run_would_have_held() {
    let text = "300k reads 4k, 1 TB usable";
    let [bounded, all] =
        [false, true].map(|run_all| found(text, &without_sheets(), run_all, |_| {}));
    assert_eq!(in_short(&bounded), in_short(&all));
    assert_eq!(bounded.considered, all.considered);
    assert!(
        bounded.simulated < all.simulated,
        "{} {}",
        bounded.simulated,
        all.simulated
    );
}

#[test]
fn what_is_found_holds_and_says_what_fails_first() {
    let report = found(
        "60k 70/30 8k, p99 < 1ms, 1.5 TB usable, one year",
        PRICES,
        false,
        |_| {},
    );
    let prices: Vec<f64> = report.found.iter().map(|one| one.bought.price).collect();
    assert!(prices.is_sorted(), "{prices:?}");
    for one in &report.found {
        assert!(one.margins.iter().all(Margin::holds), "{one:?}");
        assert_eq!(one.margins.len(), 4, "{one:?}");
        let least = one.least().expect("there are margins").times;
        assert!(one.margins.iter().all(|margin| margin.times >= least));
        assert!(one.sizing.capacity.usable_bytes >= 1_500_000_000_000);
        assert!(!one.limited_by.is_empty());
        let is_sheet = one.bought.drive.starts_with("samsung");
        assert_eq!(one.draws.is_some(), is_sheet);
    }
    for one in &report.failed {
        assert!(!one.margin.holds(), "{one:?}");
        let is_there = |found: &Found| {
            (&found.bought.drive, found.bought.level) == (&one.bought.drive, one.bought.level)
        };
        assert!(!report.found.iter().any(is_there), "{one:?}");
    }
    assert_eq!(report.nearest, None);
}

#[test]
fn what_holds_beyond_the_calculator_is_found() {
    // The calculator counts collection, which fresh drives do not have, and parity of small writes, where whole stripes are written.
    let fresh = found("300k writes 4k", PRICES, false, |asked| {
        asked.drive = Some("p4510-1tb".to_owned());
        asked.levels = vec![Level::Raid10];
        asked.state = Some(State::Fresh);
    });
    assert_eq!(fresh.found.len(), 1, "{fresh:?}");
    let stripes = found("8k writes 256k", PRICES, false, |asked| {
        asked.drive = Some("p4510-1tb".to_owned());
        asked.levels = vec![Level::Raid5];
        asked.state = Some(State::Filled);
        asked.chunk_kib = Some(128);
    });
    assert_eq!(stripes.found.len(), 1, "{stripes:?}");
    assert!(stripes.found[0].bought.count <= 4);
}

#[test]
fn an_array_that_cannot_be_built_does_not_end_the_search() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("box.toml");
    let text = include_str!("../../../../profiles/platforms/s2600wft-8170.toml");
    // The second slot takes one drive.
    let parts: Vec<&str> = text.splitn(3, "split = \"by-itself\"").collect();
    let text = format!(
        "{}split = \"by-itself\"{}split = \"no\"{}",
        parts[0], parts[1], parts[2]
    );
    std::fs::write(&file, text).expect("it is written");
    let report = found(
        "1k reads 4k, 4.9 TB usable",
        &without_sheets(),
        false,
        |asked| {
            asked.platform = file.display().to_string();
            asked.levels = vec![Level::Raid5];
        },
    );
    let in_short = in_short(&report);
    assert_eq!(in_short.len(), 1, "{in_short:?}");
    assert_eq!((in_short[0].0.as_str(), in_short[0].2), ("p4510-2tb", 4));
    let impossible = report
        .failed
        .iter()
        .find(|one| one.bought.drive == "p4510-1tb");
    let margin = &impossible.expect("six drives are too many").margin;
    assert!(margin.found.contains("is not split"), "{margin:?}");
}

#[test]
fn notes_of_runs_and_slots_are_passed_on() {
    let report = found("1k reads 4k", &without_sheets(), false, |asked| {
        asked.platform = "x299-7960x".to_owned();
        asked.levels = vec![Level::Raid1];
        asked.drive = Some("p4510-1tb".to_owned());
    });
    let notes = &report.found[0].notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("by a setting of the firmware")),
        "{notes:?}"
    );
}

#[test]
fn a_drive_has_one_price_by_whatever_name() {
    let prices = "schema = 1\ncurrency = \"EUR\"\n[drive]\nintel-p4800x-750gb = 700\n";
    let report = found("1k reads 4k", prices, false, |asked| {
        asked.drive = Some("p4800x-750gb".to_owned());
        asked.levels = vec![Level::Raid1, Level::Raid1];
    });
    let expected = ("p4800x-750gb".to_owned(), Level::Raid1, 2, 1400.0);
    assert_eq!(in_short(&report), [expected]);
}

#[test]
fn if_nothing_holds_the_nearest_is_told() {
    // RAID 1 of two has a thousandth too little capacity, and serves 40 % of the rate; RAID 10 of four serves more.
    let report = found("180k writes 4k, 1 TB usable", PRICES, false, |asked| {
        asked.drive = Some("p4510-1tb".to_owned());
        asked.levels = vec![Level::Raid1, Level::Raid10];
    });
    let nearest = report.nearest.expect("there is one");
    assert_eq!(
        (nearest.bought.level, nearest.margin.key.as_str()),
        (Level::Raid10, "iops")
    );
    let report = found("10k reads 4k, 7 TB usable", PRICES, false, |_| {});
    assert!(report.found.is_empty());
    let nearest = report.nearest.expect("there is one");
    assert_eq!(
        (nearest.bought.drive.as_str(), nearest.bought.count),
        ("p4510-2tb", 4)
    );
    assert_eq!(nearest.bought.level, Level::Raid5);
    assert_eq!(nearest.margin.wanted, "7 TB usable");
    assert_eq!(report.simulated, 0);
}

#[test]
fn spares_take_bays_and_money() {
    let text = "10k reads 4k, 1.5 TB usable";
    let report = found(text, PRICES, false, |asked| {
        asked.drive = Some("p4510-1tb".to_owned());
        asked.levels = vec![Level::Raid5];
        asked.size.spares = 1;
    });
    assert_eq!(
        in_short(&report),
        [("p4510-1tb".to_owned(), Level::Raid5, 3, 5440.0)]
    );
    assert_eq!(report.found[0].bought.spares, 1);
}

#[test]
fn what_cannot_be_searched_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prices.toml");
    let refused = |prices: &str, change: &dyn Fn(&mut Asked)| {
        std::fs::write(&file, prices).expect("it is written");
        let mut asked = asked("10k reads 4k", &file);
        change(&mut asked);
        let refusal = asked.question(&mut Library::default());
        format!("{:#}", refusal.map(|_| ()).expect_err("it is impossible"))
    };
    let incomplete = "schema = 1\ncurrency = \"EUR\"\n[drive]\n\"samsung-pm1743-15.36tb\" = 1\n";
    for (prices, change, sentence) in [
        (
            PRICES,
            &(|asked: &mut Asked| asked.size.prices = None) as &dyn Fn(&mut Asked),
            "--for looks for the cheapest array, so it needs --prices",
        ),
        (
            PRICES,
            &|asked| asked.platform = "oakgat".to_owned(),
            "--platform does not know \"oakgat\"; nearest: \"oakgate\"",
        ),
        (
            PRICES,
            &|asked| asked.host = Some("linux".to_owned()),
            "--host does not know \"linux\"; nearest: ",
        ),
        (
            PRICES,
            &|asked| asked.drive = Some("p4510-4tb".to_owned()),
            "drive has no price of \"p4510-4tb\"",
        ),
        (
            PRICES,
            &|asked| asked.count = Some(5),
            "no array of --level and --count, with its spares, is possible in s2600wft-6154-x16",
        ),
        (
            PRICES,
            &|asked| asked.size.spares = u32::MAX,
            "no array of --level and --count, with its spares, is possible in s2600wft-6154-x16",
        ),
        (
            PRICES,
            &|asked| {
                asked.levels = vec![Level::Raid1];
                asked.count = Some(4);
            },
            "--count 4 is impossible: RAID 1 needs exactly 2 drives",
        ),
        (
            PRICES,
            &|asked| {
                asked.levels = vec![Level::Raid0];
                asked.size.spares = 1;
            },
            "--spares goes with RAID 1, 5 and 10 only",
        ),
        (
            "schema = 1\ncurrency = \"EUR\"\n[drive]\np4800x-750gb = 7\nintel-p4800x-750gb = 7\n",
            &|_| {},
            "drive.\"p4800x-750gb\" is the same drive as \"intel-p4800x-750gb\": give one price",
        ),
        (
            PRICES,
            &|asked| asked.levels = vec![Level::Single],
            "--for looks for arrays",
        ),
        (
            PRICES,
            &|asked| asked.chunk_kib = Some(7),
            "--chunk must be a power of two",
        ),
        (
            PRICES,
            &|asked| asked.text = "10k reads".to_owned(),
            "--for does not understand \"10k reads\"",
        ),
        (
            incomplete,
            &|_| {},
            "--prices has no drive that can be planned: the catalogue has no write_mb_s of samsung-pm1743-15.36tb",
        ),
    ] {
        let refusal = refused(prices, change);
        assert!(refusal.contains(sentence), "{refusal}\n{sentence}");
    }
}

#[test]
fn drives_are_known_before_they_are_priced() {
    // The names of the claims and of profiles are names of the catalogue too.
    let mut library = Library::default();
    let drive = Reference::Id("600p-512gb".to_owned());
    add_drive(&mut library, Path::new(""), &drive).expect("it is there");
    let prices = "schema = 1\ncurrency = \"EUR\"\n[drive]\n600p-512gb = 40\n";
    let report = found("1k reads 4k", prices, false, |asked| {
        asked.levels = vec![Level::Raid1]
    });
    assert_eq!(report.found.len(), 1);
    assert!(
        report.found[0]
            .draws
            .is_some_and(|(holding, draws)| holding >= 18 && draws == 20)
    );
}

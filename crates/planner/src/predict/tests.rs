//! How figures follow from a configuration, and that they depend on nothing but the configuration.

use super::many::{Answered, Wanted, answer_all, answer_until};
use super::*;
use lab::claims::book::{FILES, frozen, load};
use lab::schema::configuration::read_configurations;
use lab::schema::metric::Statistic;

/// A point on the appliance's platform, with these keys beside `bs`.
fn point(setup: &str, state: &str, workload: &str) -> Configuration {
    let text = format!(
        "schema = 1\n[setup.s]\nplatform = \"oakgate\"\nhost = \"appliance\"\n{setup}\n[points]\np = {{ setup = \"s\", \
         state = \"{state}\", workload = {{ bs = \"4k\", {workload} }} }}\n"
    );
    let catalogue = Library::default().catalogue();
    let points = read_configurations("p.toml", &text, &catalogue).expect(&text);
    points["p"].clone()
}

const ALONE: &str = "drive = \"p4510-8tb\"\ncount = 1\nlevel = \"none\"\nstack = \"none\"";

fn figures(configuration: &Configuration) -> BTreeMap<Metric, f64> {
    figures_of(&Virtual::default(), configuration)
}

/// Runs only as long as for a quick plan, where that shows the same.
fn quick() -> Virtual {
    Virtual {
        quick: true,
        ..Virtual::default()
    }
}

fn figures_of(predictor: &Virtual, configuration: &Configuration) -> BTreeMap<Metric, f64> {
    let wanted = BTreeSet::from([
        Metric::Iops,
        Metric::Latency(Statistic::Mean),
        Metric::Watts,
        Metric::CpuCores,
        Metric::DemandMet,
        Metric::SecondsHeld,
    ]);
    let answer = predictor.answer(configuration, &wanted);
    let metrics = answer.expect("it is modelled").prediction.metrics;
    let mean = |samples| match samples {
        Samples::Exact(value) => value,
        Samples::Runs(runs) => {
            assert_eq!(runs.len(), 5);
            runs.iter().sum::<f64>() / 5.0
        }
    };
    let means = metrics.into_iter();
    means
        .map(|(metric, samples)| (metric, mean(samples)))
        .collect()
}

#[test]
fn one_drive_reads_as_fast_as_it_is_asked_and_no_faster_than_it_can() {
    let at = |demand: u64| {
        let load = format!("op = \"randread\", threads = 1, qd = 256, demand_iops = {demand}");
        figures(&point(ALONE, "steady", &load))
    };
    let (slow, fast) = (at(100_000), at(700_000));
    assert!(
        (99_900.0..=100_100.0).contains(&slow[&Metric::Iops]),
        "{slow:?}"
    );
    assert_eq!(slow[&Metric::DemandMet], 1.0);
    assert_eq!(fast[&Metric::DemandMet], 0.0);
    // The rated reads of the drive.
    assert!((600e3..=637e3).contains(&fast[&Metric::Iops]), "{fast:?}");
    assert!(fast[&Metric::Watts] > slow[&Metric::Watts]);
    let mean_us = slow[&Metric::Latency(Statistic::Mean)];
    assert!((85.0..120.0).contains(&mean_us), "{mean_us}");
    assert!(
        !slow.contains_key(&Metric::CpuCores),
        "no processor is modelled"
    );
}

#[test]
fn the_long_run_of_writes_is_measured_without_waiting_for_it() {
    let load = "op = \"randwrite\", threads = 1, qd = 256, demand_iops = 200000";
    let long_run = figures(&point(ALONE, "steady", load));
    assert!(
        (146e3..=154e3).contains(&long_run[&Metric::Iops]),
        "{long_run:?}"
    );
    let later = figures(&point(
        ALONE,
        "steady",
        &format!("{load}, skip_seconds = 120, seconds = 60"),
    ));
    assert!((long_run[&Metric::Iops] / later[&Metric::Iops] - 1.0).abs() < 0.01);
    // At the start the pool still allows a rate that the drive cannot sustain.
    let start = figures(&point(ALONE, "steady", &format!("{load}, seconds = 2")));
    assert!(start[&Metric::Iops] > 190e3, "{start:?}");
    assert_eq!(start[&Metric::SecondsHeld], 2.0);
}

#[test]
fn the_long_run_of_a_drive_with_a_pseudo_slc_cache_is_without_its_burst_and_a_given_window_shows_it()
 {
    let name = "samsung-980-pro-1tb";
    let catalogue = catalogue::Catalogue::built_in();
    let entry = catalogue.with_id(name).expect("it is there");
    let family = catalogue::profile::family("catalogue", entry, catalogue::draw::Draw::Usual);
    let mut family = family.expect("it has all rates");
    family.members[0].ratings.burst_gb.value = 2.0;
    let mut library = Library::default();
    let sheet = library.add_sheet(name, "catalogue", entry);
    sheet.expect("it has all rates");
    library.replace(&family).expect("it is a drive");
    let predictor = Virtual { library, ..quick() };
    let answer = |state: &str, window: &str| {
        let text = format!(
            "schema = 1\n[setup.s]\nplatform = \"oakgate\"\nhost = \"appliance\"\ndrive = \"{name}\"\ncount = 1\nlevel = \
             \"none\"\nstack = \"none\"\n[points]\np = {{ setup = \"s\", state = \"{state}\", workload = {{ op = \
             \"write\", bs = \"128k\", threads = 1, qd = 32{window} }} }}\n"
        );
        let points = read_configurations("p.toml", &text, &predictor.library.catalogue());
        let points = points.expect(&text);
        let wanted = BTreeSet::from([Metric::BytesPerSecond]);
        let answer = predictor.answer(&points["p"], &wanted);
        let answer = answer.expect("it is modelled");
        let gb_per_s = answer.summary[&Metric::BytesPerSecond].value / 1e9;
        (gb_per_s, answer.notes.join(" "))
    };
    let (long_run, notes) = answer("filled", "");
    assert!((1.48..1.52).contains(&long_run), "{long_run}");
    assert!(
        notes.contains("an empty one takes 2 GB of its drive's writes at up to 4.5 GB/s"),
        "{notes}"
    );
    // 2 GB in 0.44 s, and 0.84 GB in the rest of the second.
    let (first_second, notes) = answer("filled", ", seconds = 1");
    assert!((2.75..2.9).contains(&first_second), "{first_second}");
    assert!(!notes.contains("pseudo-SLC"), "{notes}");
    let (steady, notes) = answer("steady", ", seconds = 1");
    assert!(steady < 1.52, "{steady}");
    assert!(!notes.contains("pseudo-SLC"), "{notes}");
}

#[test]
fn a_quick_plan_of_writes_says_how_far_it_may_be_from_the_long_run() {
    let setup = "drive = \"p4510-2tb\"\ncount = 2\nlevel = 0\nstack = \"fullstripe\"";
    let load = "op = \"randwrite\", threads = 1, qd = 16";
    let configuration = point(setup, "steady", load);
    let iops = |quick: bool| {
        let predictor = Virtual {
            quick,
            ..Virtual::default()
        };
        let answer = predictor.answer(&configuration, &BTreeSet::from([Metric::Iops]));
        let iops = answer.expect("it is modelled").summary[&Metric::Iops].clone();
        let interval = iops.interval.expect("five runs");
        (iops.value, (interval.high - interval.low) / 2.0)
    };
    let ((quick, quick_half), (long, long_half)) = (iops(true), iops(false));
    assert!(
        (quick - long).abs() <= quick_half + long_half,
        "{quick} {quick_half} {long} {long_half}"
    );
    // Each drive collects at its own times, so after 0.4 s the rate is not known to a thousandth.
    assert!(
        (0.002..0.1).contains(&(quick_half / quick)),
        "{quick} {quick_half}"
    );
}

#[test]
fn arrays_are_the_engine_itself() {
    let array = |level: u32, count: u32| {
        format!("drive = \"p4510-2tb\"\ncount = {count}\nlevel = {level}\nstack = \"fullstripe\"")
    };
    let load = "op = \"randread\", threads = 8, qd = 64";
    let alone = "drive = \"p4510-2tb\"\ncount = 1\nlevel = \"none\"\nstack = \"none\"";
    let one = figures_of(&quick(), &point(alone, "steady", load));
    let four = figures_of(&quick(), &point(&array(0, 4), "steady", load));
    let gain = four[&Metric::Iops] / one[&Metric::Iops];
    // Depth 512 keeps four drives busy, but not as busy as one.
    assert!((3.0..=4.0).contains(&gain), "{gain}");
    let load = "op = \"randwrite\", threads = 1, qd = 32";
    let raid5 = figures_of(&quick(), &point(&array(5, 4), "steady", load));
    let raid0 = figures_of(&quick(), &point(&array(0, 4), "steady", load));
    assert!(
        raid5[&Metric::Iops] < raid0[&Metric::Iops] / 1.9,
        "{raid5:?} {raid0:?}"
    );
}

#[test]
fn what_is_not_modelled_says_so() {
    let load = "op = \"randread\", threads = 1, qd = 1";
    let reason = |setup: &str| {
        let configuration = point(setup, "steady", load);
        let answer = Virtual::default().answer(&configuration, &BTreeSet::new());
        answer.expect_err(setup).reason
    };
    assert_eq!(
        reason("drive = \"600p-512gb\"\ncount = 1\nlevel = \"none\"\nstack = \"none\""),
        "there is no profile of the drive \"600p-512gb\""
    );
    assert_eq!(
        reason("drive = \"p4510-2tb\"\ncount = 4\nlevel = 0\nstack = \"rst-z270\""),
        "a RAID driver runs on the processors of a platform only"
    );
    assert_eq!(
        reason("drive = \"p4510-2tb\"\ncount = 4\nlevel = 0\nstack = \"md-2018\""),
        "md-2018 runs on the processors of a platform only"
    );
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let mut wanted = Wanted::new();
    for demand in [5_000, 10_000, 15_000] {
        let load = format!("op = \"randread\", threads = 2, qd = 8, demand_iops = {demand}");
        let metrics =
            BTreeSet::from([Metric::Iops, Metric::Latency(Statistic::P99), Metric::Watts]);
        wanted.insert(point(ALONE, "steady", &load), metrics);
    }
    let [one, three] = [1, 3].map(|jobs| {
        let answers = answer_all(&quick(), &wanted, jobs);
        answers
            .into_values()
            .map(|answer| answer.expect("modelled").prediction)
            .collect::<Vec<_>>()
    });
    assert_eq!(one, three);
    assert!(one.iter().all(|prediction| prediction.metrics.len() == 3));
}

#[test]
fn what_comes_before_an_answer_is_answered_and_no_more_is_begun_than_is_enough() {
    let metrics = BTreeSet::from([Metric::Iops]);
    let points: Vec<_> = [5_000, 6_000, 7_000, 8_000, 9_000]
        .iter()
        .map(|demand| format!("op = \"randread\", threads = 2, qd = 8, demand_iops = {demand}"))
        .map(|load| point(ALONE, "steady", &load))
        .collect();
    let order: Vec<_> = points.iter().map(|point| (point, &metrics)).collect();
    let answered = |known: Answered, jobs: usize| {
        let finished = |_: &_, _: &_, _: &_, _: u64| {};
        let is_enough = |answered: &Answered| answered.contains_key(&points[1]);
        answer_until(&quick(), &order, known, jobs, finished, is_enough)
    };
    let by_one = answered(Answered::new(), 1);
    assert_eq!(by_one.len(), 2);
    let by_two = answered(Answered::new(), 2);
    for point in &points[..2] {
        let [one, two] = [&by_one, &by_two].map(|all| all[point].as_ref().expect("modelled"));
        assert_eq!(one, two);
    }
    assert!(by_two.len() <= 4, "{by_two:?}");
    // What is known at first may be enough.
    assert_eq!(answered(by_one, 2).len(), 2);
}

/// The claims with all published values exchanged: each interval, text and nominal value is that of another row.
fn shuffled() -> Vec<(&'static str, String)> {
    let shuffle = |(file, text): &(&'static str, &str)| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for key in ["interval = ", "text = ", "nominal = "] {
            let places: Vec<usize> = (0..lines.len())
                .filter(|at| lines[*at].starts_with(key))
                .collect();
            let mut values: Vec<String> = places.iter().map(|at| lines[*at].clone()).collect();
            values.rotate_left(1);
            for (at, value) in places.into_iter().zip(values) {
                lines[at] = value;
            }
        }
        (*file, lines.join("\n"))
    };
    FILES.iter().map(shuffle).collect()
}

#[test]
fn published_values_do_not_reach_a_prediction() {
    let files = shuffled();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(file, text)| (*file, text.as_str()))
        .collect();
    let (frozen, book) = frozen().expect("the frozen claims");
    let (other, shuffled) = load(&files).expect("the form is kept");
    assert_ne!(book, shuffled, "shuffling changes the published values");
    // The questions to a predictor are the same, byte for byte. It has no other input, and its answers, computed anew
    // for each, are the same as well.
    assert_eq!(format!("{frozen:?}"), format!("{other:?}"));
    let drive = |configuration: &Configuration| configuration.setup.drive.text() == "p4510-8tb";
    let is_short = |configuration: &Configuration| {
        let is_short = configuration.workload.seconds.is_none();
        is_short && drive(configuration) && configuration.setup.host == "appliance"
    };
    let answers = |questions: &lab::claims::book::Questions| {
        let mut wanted = Wanted::new();
        for question in questions
            .values()
            .filter(|one| is_short(&one.configuration))
            .take(4)
        {
            wanted.insert(
                question.configuration.clone(),
                BTreeSet::from([Metric::Iops, Metric::Watts]),
            );
        }
        let answered = answer_all(&quick(), &wanted, 2);
        let shown = answered.values().map(|answer| {
            let answer = answer.as_ref();
            format!("{:?}", answer.map(|answer| &answer.prediction))
        });
        shown.collect::<Vec<String>>()
    };
    let told = answers(&frozen);
    assert_eq!(told, answers(&other));
    assert!(
        told.iter().any(|answer| answer.contains("Runs")),
        "{told:?}"
    );
}

#[test]
fn nothing_is_keyed_by_a_claim_a_level_or_a_count() {
    let (questions, book) = frozen().expect("the frozen claims");
    let library = Library::default();
    for id in library.catalogue().drives {
        assert_eq!(book.use_of(&id), None, "{id} is a claim");
        assert!(
            questions.keys().all(|(_, point)| *point != id),
            "{id} is a point"
        );
    }
    // A drive has one profile, whatever array it is part of.
    let drives: BTreeSet<String> = questions
        .values()
        .map(|question| question.configuration.setup.drive.text().to_owned())
        .collect();
    let known: Vec<&String> = drives
        .iter()
        .filter(|id| library.profile(&(*id).clone().into()).is_ok())
        .collect();
    assert!(known.len() >= 2, "{known:?}");
}

#[test]
fn a_file_describes_a_drive() {
    let text = include_str!("../../../../profiles/drives/p4510.toml");
    let mut library = Library::default();
    let refused = |reference: &str, text: &str| {
        let refusal = Library::default().add_file(reference, text);
        refusal.expect_err(reference).to_string()
    };
    assert_eq!(
        refused("d/p.toml", text),
        "d/p.toml: member describes 4 drives: name one, like \"d/p.toml#p4510-1tb\""
    );
    assert_eq!(
        refused("p.toml#p4510-3tb", text),
        "p.toml: member has no \"p4510-3tb\"; nearest: \"p4510-1tb\", \"p4510-2tb\" or \"p4510-4tb\""
    );
    let slow = text.replace("read_us = { value = 85", "read_us = { value = 1");
    let sentence = refused("p.toml#p4510-2tb", &slow);
    assert!(
        sentence.starts_with("p.toml: p4510-2tb.latency.read_us "),
        "{sentence}"
    );
    library
        .add_file("p.toml#p4510-2tb", text)
        .expect("it is one");
    let reference = "p.toml#p4510-2tb".to_owned().into();
    let own = library.profile(&reference).expect("it was added");
    assert_eq!(
        own,
        library
            .profile(&"p4510-2tb".to_owned().into())
            .expect("built in")
    );
}

#[test]
fn a_file_describes_a_platform() {
    let text = include_str!("../../../../profiles/platforms/s2600wft-6154-x8.toml");
    let mut library = Library::default();
    library
        .add_platform("mine/x8.toml", text)
        .expect("it is one");
    let [own, known] = ["mine/x8.toml", "s2600wft-6154-x8"].map(|name| {
        let platform = library.platform(&name.to_owned().into());
        platform.expect("it is there").clone()
    });
    assert_eq!(own, known);
    for (from, to, expected) in [
        (
            "lanes = { value = 8",
            "lanes = { value = 99",
            "is 99, but has to be from 1 to 64",
        ),
        (
            "sockets = { value = 2",
            "sockets = { value = 0",
            "is 0, but has to be from 1 to 32",
        ),
        ("[memory]", "[memories]", "memories"),
    ] {
        let refusal = library.add_platform("mine/x8.toml", &text.replacen(from, to, 1));
        let sentence = refusal.expect_err(from).to_string();
        assert!(sentence.starts_with("mine/x8.toml: "), "{sentence}");
        assert!(sentence.contains(expected), "{sentence}");
    }
}

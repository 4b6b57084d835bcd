use super::super::queue::SingleServer;
use super::*;
use repeatable::random::Stream;

#[test]
fn what_is_exact_is_exact_and_the_rest_to_three_digits() {
    let mut latencies = Latencies::default();
    assert_eq!(latencies.mean_ns(), None);
    assert_eq!(latencies.at_rank_ns(1), None);
    for micros in 1..=1000 {
        latencies.record(micros * 1000);
    }
    assert_eq!(latencies.count(), 1000);
    assert_eq!(latencies.mean_ns(), Some(500_500.0));
    assert_eq!(latencies.extremes_ns(), Some((1000, 1_000_000)));
    assert_eq!(latencies.at_rank_ns(1), Some(1000));
    assert_eq!(latencies.at_rank_ns(1000), Some(1_000_000));
    let median = latencies.at_rank_ns(500).expect("there is one");
    assert!(median.abs_diff(500_000) <= 500, "{median}");
    assert_eq!(latencies.at_rank_ns(1001), None);
}

#[test]
fn merged_histograms_are_as_if_counted_in_one() {
    let mut stream = Stream::new(1, "merge", 0);
    let (mut one, mut parts) = (
        Latencies::default(),
        [Latencies::default(), Latencies::default()],
    );
    for index in 0..10_000 {
        let latency_ns = stream.below(1 << (10 + index % 30));
        one.record(latency_ns);
        parts[index % 2].record(latency_ns);
    }
    let [mut first, second] = parts;
    first.merge(&second);
    assert_eq!(first.sum_ns(), one.sum_ns());
    assert_eq!(first.extremes_ns(), one.extremes_ns());
    for rank in (1..=10_000).step_by(97) {
        assert_eq!(first.at_rank_ns(rank), one.at_rank_ns(rank));
    }
}

#[test]
fn absurd_latencies_are_counted_too() {
    let mut latencies = Latencies::default();
    latencies.record(0);
    latencies.record(u64::MAX);
    assert_eq!(latencies.extremes_ns(), Some((0, 1 << 62)));
}

#[test]
fn few_samples_leave_the_interval_open() {
    let mut run = BatchedLatencies::default();
    assert_eq!(run.percentile(0.5), None);
    for latency_ns in 1..=100 {
        run.record(latency_ns);
    }
    let p99 = run.percentile(0.99).expect("there are samples");
    assert_eq!(p99.value_ns, 99.0);
    assert_eq!(p99.interval_ns, Interval::new(1.0, f64::INFINITY));
    assert!(!p99.is_supported);
}

/// How often the interval of a percentile of M/M/1 holds the closed form: times in the system are
/// exponential, so the quantile q lies at mean x -ln(1 - q).
fn held(load: f64, quantile: f64, logarithm: f64, samples: u32, runs: u64) -> usize {
    let truth_ns = load / (1.0 - load) * logarithm * 1e6;
    (0..runs)
        .filter(|run| {
            let mut queue = SingleServer::new(*run, load);
            let mut latencies = BatchedLatencies::default();
            (0..samples).for_each(|_| latencies.record((queue.next_sojourn() * 1e6) as u64));
            let found = latencies.percentile(quantile).expect("there are samples");
            found.interval_ns.holds(truth_ns)
        })
        .count()
}

#[test]
fn percentiles_of_a_queue_are_those_of_the_closed_form() {
    let median = held(0.5, 0.5, std::f64::consts::LN_2, 40_000, 200);
    assert!((180..=200).contains(&median), "median: {median} of 200");
    let p99 = held(0.5, 0.99, 4.605_170, 40_000, 200);
    assert!((180..=200).contains(&p99), "p99: {p99} of 200");
}

#[test]
fn samples_that_depend_on_each_other_count_less() {
    let mut stream = Stream::new(9, "independent", 0);
    let mut alone = BatchedLatencies::default();
    (0..100_000).for_each(|_| alone.record((stream.exponential() * 1e6) as u64));
    let mut queue = SingleServer::new(9, 0.8);
    let mut queued = BatchedLatencies::default();
    (0..100_000).for_each(|_| queued.record((queue.next_sojourn() * 1e6) as u64));
    let [alone, queued] = [alone, queued].map(|run| run.percentile(0.99).expect("samples"));
    assert!(alone.effective_samples > 40_000.0, "{alone:?}");
    assert!(queued.effective_samples < 10_000.0, "{queued:?}");
    assert!(alone.is_supported && queued.value_ns > 0.0);
}

#[test]
fn runs_joined_are_surer_than_one() {
    let run = |seed| {
        let mut queue = SingleServer::new(seed, 0.5);
        let mut latencies = BatchedLatencies::default();
        (0..40_000).for_each(|_| latencies.record((queue.next_sojourn() * 1e6) as u64));
        latencies
    };
    let runs: Vec<BatchedLatencies> = (0..5).map(run).collect();
    let all = JoinedLatencies::of(&runs);
    assert_eq!(all.all.count(), 200_000);
    let one = runs[0].percentile(0.99).expect("samples");
    let all = all.percentile(0.99).expect("samples");
    assert!(
        all.effective_samples > 2.0 * one.effective_samples,
        "{one:?}, {all:?}"
    );
    // The p99 is ln 100 times the mean of 1 ms.
    assert!(all.interval_ns.holds(4.605_170e6), "{all:?}");
}

#[test]
fn what_is_written_is_read_back_to_the_last_count() {
    let mut stream = Stream::new(2, "written", 0);
    let mut latencies = Latencies::default();
    let written = |latencies: &Latencies| serde_json::to_string(latencies).expect("it is written");
    let read = |text: &str| serde_json::from_str::<Latencies>(text);
    let empty = written(&latencies);
    assert_eq!(read(&empty).expect("it is read"), latencies);
    for index in 0..10_000 {
        latencies.record(stream.below(1 << (4 + index % 58)));
    }
    latencies.record(u64::MAX);
    let back = read(&written(&latencies)).expect("it is read");
    assert_eq!(back.extremes_ns(), latencies.extremes_ns());
    assert_eq!(back.count(), latencies.count());
    for rank in 1..=latencies.count() {
        assert_eq!(back.at_rank_ns(rank), latencies.at_rank_ns(rank), "{rank}");
    }
    assert_eq!(written(&back), written(&latencies));
    for (text, said) in [
        (
            r#"{"sum_ns":1,"min_ns":1,"max_ns":1,"counts":[[1,0]]}"#,
            "1 ns, 0 times",
        ),
        (
            r#"{"sum_ns":1,"min_ns":9,"max_ns":1,"counts":[[9,1]]}"#,
            "the extremes",
        ),
        (
            r#"{"sum_ns":1,"min_ns":1,"max_ns":1,"counts":[[1,9223372036854775808],[2,9223372036854775808]]}"#,
            "too many",
        ),
    ] {
        let why = read(text).expect_err(text).to_string();
        assert!(why.contains(said), "{why}");
    }
}

//! Files as fio writes them, made here from the figures of a test; the end-to-end tests read those of the real fio.

use super::file::Version;
use super::*;
use crate::compare;
use crate::statistics::interval::Interval;
use serde_json::{Value as Json, json};

/// Latencies of `count` requests that took `from_ns` and more, a nanosecond more each.
fn latency(from_ns: u64, count: u64, has_bins: bool) -> Json {
    let bins: serde_json::Map<String, Json> = (0..count)
        .map(|more| ((from_ns + more).to_string(), json!(1)))
        .collect();
    let mut latency = json!({
        "min": from_ns, "max": from_ns + count.max(1) - 1, "N": count,
        "mean": from_ns as f64 + (count.max(1) - 1) as f64 / 2.0, "stddev": 0.0,
        "percentile": { "50.000000": from_ns + count / 2, "99.000000": from_ns + count * 99 / 100 },
    });
    if has_bins {
        latency["bins"] = Json::Object(bins);
    }
    latency
}

fn nothing() -> Json {
    let none = json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    json!({ "io_bytes": 0, "iops": 0.0, "bw_bytes": 0, "total_ios": 0, "short_ios": 0, "lat_ns": none, "clat_ns": none })
}

/// A file with one job of reads, each of about 100 us.
fn file(iops: f64, options: Json) -> Json {
    let mut read = nothing();
    read["iops"] = json!(iops);
    read["bw_bytes"] = json!(iops * 4096.0);
    read["total_ios"] = json!(10_000);
    read["lat_ns"] = latency(100_000, 10_000, true);
    json!({
        "fio version": "fio-3.33",
        "global options": { "direct": "1", "ioengine": "io_uring" },
        "jobs": [{
            "jobname": "reads", "groupid": 0, "error": 0, "job options": options,
            "read": read, "write": nothing(), "trim": nothing(),
        }],
    })
}

fn usual() -> Json {
    json!({ "rw": "randread", "bs": "4k", "iodepth": "8" })
}

fn read(files: &[Json]) -> Vec<FioPoint> {
    let named = files.iter().enumerate();
    let named: Vec<(String, String)> = named
        .map(|(number, file)| (format!("{number}.json"), file.to_string()))
        .collect();
    points(&named).expect("these are results")
}

fn only(files: &[Json]) -> FioPoint {
    let mut points = read(files);
    assert_eq!(points.len(), 1, "{points:?}");
    points.remove(0)
}

fn marked(change: impl FnOnce(&mut Json)) -> Vec<String> {
    let mut one = file(10_000.0, usual());
    change(&mut one);
    only(&[one]).marks
}

#[test]
fn one_run_has_figures_and_percentiles_with_the_interval_of_their_order() {
    let point = only(&[file(10_000.0, usual())]);
    assert_eq!((point.requests, point.direction), (10_000, Direction::Read));
    assert_eq!(point.options["ioengine"], "io_uring");
    assert_eq!(point.metrics[&Metric::Iops].interval, None);
    let median = &point.metrics[&Metric::Latency(Statistic::P50)];
    assert!((median.value - 105.0).abs() < 0.2, "{median:?}");
    let Interval { low, high } = median.interval.expect("it has bins");
    assert!(
        low < median.value && median.value < high && high < 110.0,
        "{median:?}"
    );
    // Ten thousand requests in an unknown order are worth 39: too few to enclose a percentile far out from above.
    let far_out = &point.metrics[&Metric::Latency(Statistic::P99_9)];
    let interval = far_out.interval.expect("it has bins");
    assert!(
        (far_out.value - 109.9).abs() < 0.2 && interval.high == f64::INFINITY,
        "{far_out:?}"
    );
    // Only one of them is beyond 99.99 %.
    assert!(
        !point
            .metrics
            .contains_key(&Metric::Latency(Statistic::P99_99))
    );
    assert!((point.effective_queue_depth - 1.05).abs() < 0.01);
    assert_eq!(point.marks, Vec::<String>::new());
}

#[test]
fn runs_of_one_job_are_one_point_with_the_interval_of_its_runs() {
    let runs = [10_000.0, 10_100.0, 9_900.0, 10_050.0, 9_950.0];
    let point = only(&runs.map(|iops| file(iops, usual())));
    assert_eq!((point.runs.len(), point.requests), (5, 50_000));
    let iops = &point.metrics[&Metric::Iops];
    assert!((iops.value - 10_000.0).abs() < 1e-6);
    let Interval { low, high } = iops.interval.expect("five runs");
    // Student's t of four degrees of freedom, 2.776, times the standard error, 79.06 / sqrt(5).
    assert!(
        (high - 10_098.16).abs() < 0.1 && (low - 9_901.84).abs() < 0.1,
        "{iops:?}"
    );
    let four = only(&[10_000.0; 4].map(|iops| file(iops, usual())));
    assert_eq!(four.metrics[&Metric::Iops].interval, None);
    let mut deeper = usual();
    deeper["iodepth"] = json!("16");
    let mut logged = usual();
    logged["write_lat_log"] = json!("elsewhere");
    let points = read(&[file(1.0, usual()), file(2.0, deeper), file(3.0, logged)]);
    let files: Vec<usize> = points.iter().map(|point| point.runs.len()).collect();
    assert_eq!(
        files,
        [2, 1],
        "where logs go is no part of a load, the depth is"
    );
}

#[test]
fn threads_that_are_reported_one_by_one_are_added_up() {
    let mut two = file(10_000.0, usual());
    let mut other = two["jobs"][0].clone();
    other["read"]["lat_ns"] = latency(300_000, 10_000, true);
    two["jobs"].as_array_mut().expect("jobs").push(other);
    let point = only(&[two.clone()]);
    assert_eq!((point.requests, point.runs.len()), (20_000, 1));
    assert!((point.metrics[&Metric::Iops].value - 20_000.0).abs() < 1e-6);
    let mean = point.metrics[&Metric::Latency(Statistic::Mean)].value;
    assert!((mean - 205.0).abs() < 0.1, "{mean}");
    let p99 = point.metrics[&Metric::Latency(Statistic::P99)].value;
    assert!((p99 - 309.8).abs() < 0.5, "{p99}");
    // Another group is another run.
    two["jobs"][1]["groupid"] = json!(1);
    assert_eq!(only(&[two]).metrics[&Metric::Iops].value, 10_000.0);
}

#[test]
fn both_directions_of_a_mix_are_points() {
    let mut mix = file(7_000.0, json!({ "rw": "randrw", "rwmixread": "70" }));
    let mut write = mix["jobs"][0]["read"].clone();
    write["iops"] = json!(3_000.0);
    mix["jobs"][0]["write"] = write;
    let points = read(&[mix]);
    let rates: Vec<(Direction, f64)> = points
        .iter()
        .map(|point| (point.direction, point.metrics[&Metric::Iops].value))
        .collect();
    assert_eq!(
        rates,
        [(Direction::Read, 7_000.0), (Direction::Write, 3_000.0)]
    );
}

#[test]
fn without_a_histogram_fios_own_percentiles_have_no_interval_and_runs_have_none() {
    let mut plain = file(10_000.0, usual());
    plain["jobs"][0]["read"]["lat_ns"] = latency(100_000, 10_000, false);
    let point = only(&[plain.clone()]);
    let p99 = &point.metrics[&Metric::Latency(Statistic::P99)];
    assert_eq!((p99.value, p99.interval), (109.9, None));
    assert!(
        point.marks[0].contains("--output-format=json+"),
        "{:?}",
        point.marks
    );
    let two = only(&[plain.clone(), plain]);
    assert!(!two.metrics.contains_key(&Metric::Latency(Statistic::P99)));
    assert!(two.metrics.contains_key(&Metric::Latency(Statistic::Mean)));
}

#[test]
fn what_makes_figures_doubtful_is_said() {
    let with = |option: &'static str, value: &'static str| {
        marked(move |one| one["jobs"][0]["job options"][option] = json!(value))
    };
    for (marks, sentence) in [
        (
            marked(|one| one["fio version"] = json!("fio-3.28")),
            "fio 3.28 is older than 3.33",
        ),
        (
            with("sqthread_poll", "1"),
            "gets completion latencies wrong with sqthread_poll (mended in 3.34)",
        ),
        (
            with("io_submit_mode", "offload"),
            "io_submit_mode=offload is unreliable",
        ),
        (
            with("rate_iops", "5000"),
            "requests that should have waited are missing from the latencies",
        ),
        (
            with("steadystate", "iops:2%"),
            "one criterion, not the two of SNIA",
        ),
        (
            with("direct", "0"),
            "without direct=1 these are figures of the page cache",
        ),
        (
            marked(|one| one["jobs"][0]["error"] = json!(5)),
            "the job ended with error 5",
        ),
        (
            marked(|one| one["jobs"][0]["read"]["short_ios"] = json!(3)),
            "3 requests transferred less",
        ),
        (
            marked(|one| {
                let read = &mut one["jobs"][0]["read"];
                read["clat_ns"] = read["lat_ns"].take();
                read["lat_ns"] = latency(100_000, 10_000, false);
                read["lat_ns"]
                    .as_object_mut()
                    .expect("it is one")
                    .remove("percentile");
            }),
            "percentiles are from the kernel's acceptance to completion",
        ),
    ] {
        assert!(
            marks.len() == 1 && marks[0].contains(sentence),
            "{sentence}: {marks:?}"
        );
    }
    let missed = with("rate_iops", "20000");
    assert!(
        missed[1].contains("20000 requests a second were demanded and 10000 were done"),
        "{missed:?}"
    );
    let newer = marked(|one| {
        one["fio version"] = json!("fio-3.34-7-gabc");
        one["jobs"][0]["job options"]["sqthread_poll"] = json!("1");
    });
    assert_eq!(newer, Vec::<String>::new());
    // A million requests a second of 105 us each are 105 at once.
    let impossible = only(&[file(1e6, usual())]).marks;
    let sentence = "together they mean 105.0 outstanding requests, and at most 8 were allowed";
    assert!(impossible[0].contains(sentence), "{impossible:?}");
}

#[test]
fn rates_of_each_direction_and_of_all_threads_count() {
    let mix = |rates: &str| {
        let options = json!({ "rw": "randrw", "rate_iops": rates, "numjobs": "2", "iodepth": "8" });
        only(&[file(7_000.0, options)]).marks
    };
    let is_missed = |marks: Vec<String>| marks.iter().any(|mark| mark.contains("were demanded"));
    assert!(!is_missed(mix("3500,9000")));
    assert!(is_missed(mix("3600,1")));
    assert!(is_missed(mix("3600")));
    assert!(!is_missed(mix(",9000")));
}

#[test]
fn other_files_are_refused_in_one_sentence() {
    for (text, sentence) in [
        (
            "",
            "is no result of fio: run fio with --output-format=json+",
        ),
        (
            "iops,1\n",
            "is no result of fio: run fio with --output-format=json+",
        ),
        (
            "{}",
            "is no result of fio that is understood: missing field `fio version`",
        ),
        (
            r#"{"fio version": "bench 2"}"#,
            "was written by \"bench 2\", which is no version of fio",
        ),
        (r#"{"fio version": "fio-3.33", "jobs": []}"#, "has no jobs"),
        (
            r#"{"fio version": "fio-3.33", "jobs": [{"#,
            "is no result of fio that is understood",
        ),
    ] {
        let refused = points(&[("f.json".to_owned(), text.to_owned())])
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("f.json") && refused.contains(sentence),
            "{refused}"
        );
    }
}

#[test]
fn text_of_engines_before_the_json_is_passed_over() {
    let text = format!("connected to NBD server\n{}\n", file(10_000.0, usual()));
    let points = points(&[("f.json".to_owned(), text)]).expect("it is a result");
    assert_eq!(points.len(), 1);
}

#[test]
fn versions_are_compared_by_number() {
    let of = |text| Version::of(text).expect("it is a version");
    assert!(of("fio-3.9") < of("fio-3.33") && of("fio-3.33") < of("fio-4.0"));
    assert_eq!(of("fio-3.36-12-gabc").to_string(), "3.36");
    for none in ["3.33", "fio", "fio-x.1", "fio-3", "fio-3."] {
        assert_eq!(Version::of(none), None, "{none}");
    }
}

/// Runs of one job with these rates.
fn runs(name: &str, rates: &[f64]) -> Vec<Json> {
    let one = |rate: &f64| {
        let mut one = file(*rate, json!({ "rw": "randread", "filename": name }));
        one["jobs"][0]["jobname"] = json!("reads");
        one
    };
    rates.iter().map(one).collect()
}

fn comparable(files: &[Json]) -> Vec<compare::Comparable> {
    read(files).iter().map(compare::of_fio).collect()
}

#[test]
fn sets_of_runs_are_compared_wherever_they_ran() {
    let before = comparable(&runs(
        "/dev/a",
        &[1000.0, 1010.0, 990.0, 1005.0, 995.0, 1002.0],
    ));
    let after = comparable(&runs(
        "/dev/b",
        &[1200.0, 1190.0, 1210.0, 1205.0, 1195.0, 1202.0],
    ));
    let found = compare::compare(&before, &after, 0.02);
    assert_eq!((found.comparisons.len(), found.alone.len()), (2, 0));
    let [rate, latency] = &found.comparisons[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (rate.metric, rate.verdict, rate.runs),
        (Metric::Iops, compare::Verdict::Higher, (6, 6))
    );
    assert!(
        (rate.ratio - 1.2).abs() < 0.01 && rate.interval.low > 1.18,
        "{rate:?}"
    );
    // All runs of the test have the same latencies.
    assert_eq!(latency.verdict, compare::Verdict::Same);
    let back = compare::compare(&after, &before, 0.02);
    assert_eq!(back.comparisons[0].verdict, compare::Verdict::Lower);
    // Within a wide margin, even a certain difference does not matter.
    assert_eq!(
        compare::compare(&before, &after, 0.3).comparisons[0].verdict,
        compare::Verdict::Same
    );
}

#[test]
fn too_few_or_scattered_runs_are_undecided_and_other_jobs_stand_alone() {
    let before = comparable(&runs("/dev/a", &[1000.0, 1010.0, 990.0]));
    let after = comparable(&runs("/dev/a", &[1200.0, 1190.0, 1210.0]));
    let verdict = |found: &compare::Compared| found.comparisons[0].verdict;
    let few = compare::compare(&before, &after, 0.02);
    assert_eq!(verdict(&few), compare::Verdict::Undecided, "{few:?}");
    assert_eq!(few.comparisons[0].interval.high, f64::INFINITY);
    let scattered = comparable(&runs(
        "/dev/a",
        &[700.0, 1300.0, 800.0, 1200.0, 900.0, 1100.0],
    ));
    let other = comparable(&runs(
        "/dev/a",
        &[750.0, 1350.0, 850.0, 1250.0, 950.0, 1150.0],
    ));
    assert_eq!(
        verdict(&compare::compare(&scattered, &other, 0.02)),
        compare::Verdict::Undecided
    );
    let mut renamed = runs("/dev/a", &[1000.0]);
    renamed[0]["jobs"][0]["jobname"] = json!("others");
    let found = compare::compare(&before, &comparable(&renamed), 0.02);
    assert!(found.comparisons.is_empty());
    let alone: Vec<&str> = found.alone.iter().map(|what| what.name.as_str()).collect();
    assert_eq!(alone, ["reads", "others"]);
}

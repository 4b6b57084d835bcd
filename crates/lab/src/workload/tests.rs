use super::*;

/// A workload from its TOML, in which ' stands for quotes.
pub(super) fn workload(text: &str) -> Workload {
    let workload: Workload = toml::from_str(text).expect("the form is right");
    workload.check().expect("the rules are kept");
    workload
}

#[test]
fn the_claims_form_is_read_and_written_back() {
    let text =
        "op = 'randread'\nbs = '4k'\nthreads = 8\nqd = 64\napi = 'async'\ncompletion = 'interrupt'";
    let parsed = workload(text);
    assert_eq!(parsed.total_depth(), 512);
    assert_eq!(parsed.read_percent(), Some(100));
    let json = serde_json::to_string(&parsed).expect("it can be written");
    assert_eq!(
        json,
        r#"{"op":"randread","bs":"4k","threads":8,"qd":64,"api":"async","completion":"interrupt"}"#
    );
    assert_eq!(
        serde_json::from_str::<Workload>(&json).expect("and read"),
        parsed
    );
    workload("op = 'act'\nthreads = 64");
}

#[test]
fn each_rule_names_its_key() {
    for (text, key, rule) in [
        ("op = 'read'\nthreads = 1\nqd = 1", "bs", "is missing"),
        ("op = 'read'\nbs = '4k'\nthreads = 1", "qd", "is missing"),
        ("op = 'act'\nthreads = 1\nqd = 1", "qd", "act"),
        (
            "op = 'act'\nthreads = 1\ndemand_iops = 1",
            "demand_iops",
            "act",
        ),
        (
            "op = 'randmix'\nbs = '4k'\nthreads = 1\nqd = 1",
            "read_pct",
            "is missing",
        ),
        (
            "op = 'read'\nread_pct = 5\nbs = '4k'\nthreads = 1\nqd = 1",
            "read_pct",
            "randmix",
        ),
        (
            "op = 'seqmix'\nread_pct = 101\nbs = '4k'\nthreads = 1\nqd = 1",
            "read_pct",
            "101",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 0\nqd = 1",
            "threads",
            "from 1 to 4096, is 0",
        ),
        ("op = 'read'\nbs = '4k'\nthreads = 1\nqd = 0", "qd", "is 0"),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_iops = 0",
            "demand_iops",
            "is 0",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\narrivals = 'paced'",
            "arrivals",
            "demand_iops",
        ),
        ("op = 'replay'\nthreads = 1\nqd = 1", "trace", "is missing"),
        (
            "op = 'replay'\ntrace = 'x'\nbs = '4k'\nthreads = 1\nqd = 1",
            "bs",
            "whose trace has the requests",
        ),
        (
            "op = 'read'\nbs = '4k'\nspeed_pct = 50\nthreads = 1\nqd = 1",
            "speed_pct",
            "goes with op = \"replay\" only",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\non_ms = 5\noff_ms = 5",
            "on_ms",
            "demand_iops or demand_pct",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_iops = 5\non_ms = 5",
            "off_ms",
            "is missing",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_iops = 5\non_ms = 0\noff_ms = 5",
            "on_ms",
            "from 1 to 60000, is 0",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_pct = 101",
            "demand_pct",
            "from 1 to 100, is 101",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_pct = 50\ndemand_iops = 5",
            "demand_pct",
            "one of them",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 2\napi = 'sync'",
            "qd",
            "must be 1",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\nseconds = 0",
            "seconds",
            "is 0",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\nalign = '1536'",
            "align",
            "divide bs (4k)",
        ),
        (
            "op = 'randread'\nbs = '4k'\nthreads = 1\nqd = 1\nhot_span_pct = 5",
            "hot_access_pct",
            "is missing",
        ),
        (
            "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\nhot_span_pct = 5\nhot_access_pct = 90",
            "hot_access_pct",
            "random",
        ),
    ] {
        let parsed: Workload = toml::from_str(text).expect("the form is right");
        let broken = parsed.check().expect_err(text);
        assert_eq!(broken.key, key, "{text}");
        assert!(broken.rule.contains(rule), "{text}: {}", broken.rule);
    }
}

#[test]
fn a_rate_that_has_to_be_measured_is_no_load_yet() {
    let share = workload("op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_pct = 50");
    assert!(share.is_open() && share.mean_demand().is_none());
    let broken = share.check_known().expect_err("it is not known");
    assert_eq!(broken.key, "demand_pct");
    let known = workload(
        "op = 'read'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_iops = 400\non_ms = 20\noff_ms = 60",
    );
    assert_eq!(known.mean_demand().map(Rate::iops), Some(100.0));
}

use super::super::book::{Questions, frozen, load};
use super::super::predictor::{NotModelled, answer_all};
use super::*;
use crate::schema::configuration::Configuration;

const CLAIMS: &str = r#"
    schema = 1
    seed = "A"
    title = "t"
    file = "f"
    date = "d"

    [setup.one]
    drive = "p4510-2tb"
    count = 1
    level = "none"
    platform = "oakgate"
    host = "appliance"
    stack = "none"

    [setup.four]
    drive = "p4510-2tb"
    count = 4
    level = 0
    platform = "oakgate"
    host = "appliance"
    stack = "md-2018"

    [points]
    one = { setup = "one", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 64 } }
    four = { setup = "four", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 64 } }
    again = { setup = "four", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 64 } }

    [[claim]]
    id = "A-01"
    use = "V"
    fact = "A-scaling"
    kind = "ratio"
    text = "t"
    where = "A: t"
    value = "max(four.iops, again.iops) / one.iops"
    interval = [2.9, 3.4]
    unit = "1"
    nominal = 3.0
    mechanism = "host-cpu"

    [[claim]]
    id = "A-02"
    use = "V"
    fact = "A-scaling"
    kind = "order"
    text = "t"
    where = "A: t"
    value = "four.iops / one.iops"
    interval = [1.02, inf]
    unit = "1"
    mechanism = "link"

    [[claim]]
    id = "A-03"
    use = "V"
    fact = "A-power"
    kind = "number"
    text = "t"
    where = "A: t"
    value = "one.watts"
    interval = [5.0, 10.0]
    unit = "W"
    mechanism = "media"

    [[claim]]
    id = "A-04"
    use = "C"
    fact = "A-one"
    kind = "number"
    text = "t"
    where = "A: t"
    value = "one.iops"
    interval = [90.0, 110.0]
    unit = "IOPS"
    nominal = 100.0

    [[claim]]
    id = "A-05"
    use = "F"
    fact = "A-rule"
    kind = "rule"
    text = "t"
    where = "A: t"
    scope = "model"
    rule = "t"
"#;

fn book() -> (Questions, Book) {
    load(&[("a.toml", CLAIMS)]).expect("it has the form")
}

/// A predictor that answers from a table: the IOPS of one drive and of four, run by run.
fn table(one: Vec<f64>, four: Vec<f64>) -> Scorecard {
    table_of(book(), one, four)
}

fn table_of((questions, book): (Questions, Book), one: Vec<f64>, four: Vec<f64>) -> Scorecard {
    let mut asked = 0;
    let mut predictor = |configuration: &Configuration, wanted: &BTreeSet<Metric>| {
        asked += 1;
        assert!(wanted.contains(&Metric::Iops));
        let is_one = configuration.setup.count == 1;
        let runs = if is_one { one.clone() } else { four.clone() };
        Ok(Prediction {
            metrics: BTreeMap::from([(Metric::Iops, Samples::Runs(runs))]),
            limited_by: Some(if is_one { "controller" } else { "processor" }.to_string()),
        })
    };
    let answers = answer_all(&questions, &mut predictor);
    assert_eq!(
        asked, 2,
        "points with the same configuration are asked once"
    );
    assert_eq!(answers.len(), 3);
    score(
        &book,
        &answers,
        &BTreeMap::from([("A-05".to_string(), true)]),
    )
}

fn verdicts(card: &Scorecard) -> Vec<Verdict> {
    card.rows.iter().map(|row| row.verdict).collect()
}

#[test]
fn rows_become_facts_and_facts_a_score() {
    let card = table(vec![100.0; 5], vec![310.0; 5]);
    use Verdict::{NotModelled, Pass};
    assert_eq!(verdicts(&card), [Pass, Pass, NotModelled, Pass]);
    let scaling = &card.rows[0];
    assert_eq!(scaling.predicted, Some(3.1));
    assert!((scaling.error.expect("there is a figure") - 0.032_790).abs() < 1e-6);
    assert_eq!(scaling.limited_by.as_deref(), Some("processor"));
    assert_eq!((card.rows[1].error, card.rows[2].predicted), (None, None));
    let evidence = &card.totals.validation;
    assert_eq!(
        (evidence.facts, evidence.passed, evidence.not_modelled),
        (2, 1, 1)
    );
    assert_eq!(
        evidence.failed,
        BTreeMap::from([("A-power".to_string(), NotModelled)])
    );
    assert_eq!(evidence.throughput_error_median, scaling.error);
    assert_eq!(
        (card.totals.fitted.facts, card.totals.fitted.passed),
        (1, 1)
    );
    assert_eq!((card.totals.rules.facts, card.totals.rules.passed), (1, 1));
}

#[test]
fn an_interval_that_straddles_is_marginal_and_its_fact_has_not_passed() {
    // The ratio of single runs lies between 2.7 and 3.3, and its mean is 3.0 +- 0.29.
    let card = table(vec![100.0; 5], vec![270.0, 285.0, 300.0, 315.0, 330.0]);
    assert_eq!(verdicts(&card)[..2], [Verdict::Marginal, Verdict::Pass]);
    assert_eq!(card.totals.validation.marginal, 1);
    assert_eq!(card.totals.validation.passed, 0);
}

#[test]
fn what_can_never_be_above_one_is_not_marginal_at_one() {
    let saturated = CLAIMS
        .replace(
            "\"four.iops / one.iops\"",
            "\"four.iops / max(one.iops, four.iops)\"",
        )
        .replace("[1.02, inf]", "[0.95, 1.0]");
    let book = load(&[("a.toml", &saturated)]).expect("it has the form");
    let of = |four: Vec<f64>| verdicts(&table_of(book.clone(), vec![100.0; 5], four))[1];
    // One run is a little lower, so the interval of the mean would end above 1 if it were not limited.
    assert_eq!(of(vec![110.0, 110.0, 110.0, 110.0, 99.0]), Verdict::Pass);
    assert_eq!(
        of(vec![110.0, 99.0, 91.0, 90.0, 99.0]),
        Verdict::Marginal,
        "the interval's lower end is not limited"
    );
    assert_eq!(of(vec![80.0; 5]), Verdict::Miss);
}

#[test]
fn common_random_numbers_make_a_ratio_sure() {
    // Both figures vary by a fifth, but together, so their ratio does not vary at all.
    let one = vec![90.0, 95.0, 100.0, 105.0, 110.0];
    let card = table(one.clone(), one.iter().map(|iops| iops * 3.0).collect());
    assert_eq!(verdicts(&card)[0], Verdict::Pass);
    // The figure alone varies little enough to lie between 90 and 110.
    assert_eq!(verdicts(&card)[3], Verdict::Pass);
    // In another order the runs do not vary together, so the ratio is uncertain.
    let card = table(one, vec![330.0, 270.0, 315.0, 285.0, 300.0]);
    assert_eq!(verdicts(&card)[0], Verdict::Marginal);
}

#[test]
fn a_miss_weighs_more_than_anything_else_in_its_fact() {
    let card = table(vec![100.0; 5], vec![400.0; 5]);
    assert_eq!(verdicts(&card)[..2], [Verdict::Miss, Verdict::Pass]);
    assert_eq!(card.totals.validation.missed, 1);
    assert_eq!(card.totals.validation.failed["A-scaling"], Verdict::Miss);
}

#[test]
fn what_a_plainer_prediction_does_not_pass_is_what_counts() {
    let own = table(vec![100.0; 5], vec![310.0; 5]).rows;
    let plainer = table(vec![100.0; 5], vec![400.0; 5]).rows;
    // Of the three V rows, the plainer prediction misses one and does not model another. C rows do not count.
    let found = Beyond::of(&own, &plainer);
    assert_eq!((found.not_passed_by_the_plainer, found.passed), (2, 1));
    let found = Beyond::of(&plainer, &own);
    assert_eq!((found.not_passed_by_the_plainer, found.passed), (1, 0));
}

#[test]
fn fewer_than_five_runs_decide_nothing() {
    let card = table(vec![100.0; 4], vec![310.0; 4]);
    assert_eq!(verdicts(&card)[0], Verdict::Marginal);
    assert!(card.rows[0].predicted.is_some());
    let card = table(Vec::new(), vec![310.0; 5]);
    assert_eq!(verdicts(&card)[0], Verdict::NotModelled);
    let card = table(vec![0.0; 5], vec![310.0; 5]);
    assert_eq!(
        verdicts(&card)[0],
        Verdict::NotModelled,
        "a division by zero gives no figure"
    );
}

#[test]
fn the_json_has_the_agreed_keys() {
    let card = table(vec![100.0; 5], vec![310.0; 5]);
    let json: serde_json::Value = serde_json::from_str(&card.to_json()).expect("it is JSON");
    let row = &json["rows"][1];
    let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
    let mut agreed = [
        "id",
        "use",
        "fact",
        "interval",
        "predicted",
        "error",
        "verdict",
        "limited_by",
        "mechanism",
    ];
    agreed.sort_unstable();
    assert_eq!(keys, agreed);
    assert_eq!(row["interval"], serde_json::json!([1.02, null]));
    assert_eq!(
        (&row["use"], &row["verdict"]),
        (&"V".into(), &"pass".into())
    );
    assert_eq!(json["rows"][2]["verdict"], "not-modelled");
    assert_eq!(json["rows"][0]["mechanism"], "host-cpu");
    assert_eq!(json["totals"]["V"]["passed"], 1);
    assert_eq!(json["claims_sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn who_models_nothing_passes_nothing() {
    let (questions, book) = frozen().expect("they have the form");
    let mut nobody = |_: &Configuration, _: &BTreeSet<Metric>| {
        let reason = "nothing is modelled".to_string();
        Err(NotModelled { reason })
    };
    let card = score(
        &book,
        &answer_all(&questions, &mut nobody),
        &BTreeMap::new(),
    );
    assert_eq!(card.rows.len(), 201);
    let totals = &card.totals;
    for (tally, facts) in [
        (&totals.fitted, 72),
        (&totals.validation, 46),
        (&totals.rules, 14),
    ] {
        assert_eq!(
            (tally.facts, tally.passed, tally.not_modelled),
            (facts, 0, facts)
        );
    }
}

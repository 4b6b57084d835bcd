use super::*;

/// Figures of points a, b and c: 2, 3 and 5 IOPS, and latencies of 20, 30 and 50 us.
fn figure(point: &str, metric: Metric) -> Option<f64> {
    let base = match point {
        "a" => 2.0,
        "b" => 3.0,
        "c" => 5.0,
        _ => return None,
    };
    match metric.unit() {
        "IOPS" => Some(base),
        "us" => Some(base * 10.0),
        _ => None,
    }
}

fn value(text: &str) -> Option<f64> {
    Expression::parse(text).expect(text).evaluate(&figure)
}

#[test]
fn operators_bind_as_they_do_everywhere() {
    for (text, expected) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 4 - 3", 3.0),
        ("16 / 4 / 2", 2.0),
        ("614.0e3 / 1e+3 - 2.5e-1", 613.75),
        ("a.iops * b.iops", 6.0),
        ("max(a.iops, b.iops, c.iops) / min(a.iops,b.iops)", 2.5),
        ("max(a.iops / b.iops, 0.5) + 1", 2.0 / 3.0 + 1.0),
        ("a.latency_us.p99_9 / b.latency_us.mean", 2.0 / 3.0),
    ] {
        assert_eq!(value(text), Some(expected), "{text}");
    }
}

#[test]
fn what_cannot_be_computed_is_nothing() {
    assert_eq!(value("d.iops + 1"), None);
    assert_eq!(value("a.watts"), None);
    assert_eq!(value("a.iops / (b.iops - 3)"), None);
    assert_eq!(
        value("max(c.iops, d.iops)"),
        None,
        "a missing figure is not skipped"
    );
}

#[test]
fn quantities_are_not_mixed() {
    let unit = |text: &str| Expression::parse(text).expect(text).unit();
    assert_eq!(unit("max(a.iops, b.iops) * 2"), Ok(Some("IOPS")));
    assert_eq!(unit("a.iops / b.iops"), Ok(Some("1")));
    assert_eq!(unit("a.iops / b.iops * c.watts"), Ok(Some("W")));
    assert_eq!(unit("1 - a.demand_met"), Ok(Some("1")));
    assert_eq!(unit("3 / 4"), Ok(None));
    assert_eq!(
        unit("a.iops + b.watts"),
        Err("mixes IOPS and W".to_string())
    );
    assert_eq!(
        unit("min(a.iops, b.bytes_per_s)"),
        Err("mixes IOPS and B/s".to_string())
    );
    assert_eq!(
        unit("a.iops * b.iops"),
        Err("joins IOPS with IOPS".to_string())
    );
    assert_eq!(
        unit("1 / a.iops"),
        Err("joins a number with IOPS".to_string())
    );
}

#[test]
fn the_figures_that_it_needs_are_known_before() {
    let mut needed = BTreeMap::new();
    let text = "max(a.iops, b.iops) / a.latency_us.p99 * 2";
    Expression::parse(text).expect(text).figures(&mut needed);
    assert_eq!(needed.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(needed["a"].len(), 2);
}

#[test]
fn the_deciding_point_is_the_chosen_one() {
    for (text, expected) in [
        ("max(a.iops, b.iops) / c.iops", Some("b")),
        ("min(a.iops, b.iops) / c.iops", Some("a")),
        ("1 - c.iops / a.iops", Some("c")),
        ("2 * 3", None),
    ] {
        let expression = Expression::parse(text).expect(text);
        assert_eq!(expression.deciding_point(&figure), expected, "{text}");
    }
}

#[test]
fn what_is_no_expression_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "needs a point, a number or '(' at character 1"),
        ("a.iops +", "at character 9"),
        (
            "a.iops b.iops",
            "needs an operator or the end at character 8",
        ),
        ("(a.iops", "needs ')' at character 8"),
        ("max(a.iops)", "needs ',' at character 11"),
        (
            "a",
            "needs a point with a figure, like a.iops at character 1",
        ),
        ("a.iop", "there is no figure \"iop\"; nearest: \"iops\""),
        ("-1", "at character 1"),
        ("1e", "needs a number at character 1"),
        ("1e999", "needs a number at character 1"),
        ("a.iops ** 2", "at character 9"),
        ("ä.iops", "ASCII"),
        (&"(".repeat(40), "nested deeper than 32"),
        (&"1+".repeat(3000), "at most 4096"),
    ] {
        let message = Expression::parse(text).expect_err(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn what_no_figure_can_change_is_known() {
    let range = |text: &str| Expression::parse(text).expect(text).range();
    let any = Interval::new(0.0, f64::INFINITY);
    let share = Interval::new(0.0, 1.0);
    for (text, expected) in [
        ("a.iops", any),
        ("3", Interval::exact(3.0)),
        ("a.iops / b.iops", any),
        ("a.iops / a.iops", share),
        ("a.iops / max(a.iops, b.iops)", share),
        ("a.iops / max(b.iops, c.iops)", any),
        ("a.iops / min(a.iops, b.iops)", any),
        ("min(a.iops, b.iops) / max(c.iops, b.iops)", share),
        ("min(a.iops, b.iops) / b.iops", share),
        ("max(a.iops, b.iops) / b.iops", any),
        (
            "max(a.iops / max(a.iops, b.iops), b.iops / max(a.iops, b.iops))",
            share,
        ),
        (
            "(a.iops / max(a.iops, b.iops) + b.iops / max(b.iops, c.iops)) / 2",
            share,
        ),
        ("a.iops * 2", any),
        (
            "a.iops - b.iops",
            Interval::new(f64::NEG_INFINITY, f64::INFINITY),
        ),
        (
            "(a.iops - b.iops) / a.iops",
            Interval::new(f64::NEG_INFINITY, f64::INFINITY),
        ),
    ] {
        assert_eq!(range(text), expected, "{text}");
    }
}

use super::*;
use std::path::Path;
use std::process::Command;

#[test]
fn the_copy_is_the_frozen_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../claims");
    // Without -B python would leave compiled files beside the data.
    let check = Command::new("python3")
        .arg("-B")
        .arg(folder.join("check.py"))
        .output()
        .expect("python3 runs: it computes the hash of the claims");
    let printed = String::from_utf8_lossy(&check.stdout);
    assert!(
        check.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&check.stderr)
    );
    assert_eq!(frozen_hash().len(), 64);
    let last = printed
        .lines()
        .rfind(|line| line.starts_with("content sha256: "));
    assert_eq!(
        last,
        Some(format!("content sha256: {}", frozen_hash()).as_str())
    );
}

#[test]
fn the_frozen_claims_are_those_that_their_readme_counts() {
    let (questions, book) = frozen().expect("they have the form");
    assert_eq!((book.rows(), questions.len()), (265, 411));
    let count = |usage| book.uses.values().filter(|found| **found == usage).count();
    assert_eq!(
        [Use::S, Use::C, Use::V, Use::F, Use::U].map(count),
        [30, 127, 74, 14, 20]
    );
    let facts = |usage| {
        let of_use = book.claims.iter().filter(|claim| claim.usage == usage);
        of_use
            .map(|claim| &claim.fact)
            .collect::<BTreeSet<_>>()
            .len()
    };
    assert_eq!(
        [facts(Use::C), facts(Use::V), book.rules.len()],
        [72, 46, 14]
    );
    // Every point is needed for at least one figure.
    assert!(
        questions
            .values()
            .all(|question| !question.wanted.is_empty())
    );
    assert_eq!(book.use_of("A-26"), Some(Use::V));
    assert_eq!(book.use_of("A-99"), None);
    assert!(
        book.inputs("A-02")
            .is_some_and(|inputs| inputs.contains_key("rand_read_kiops"))
    );
}

#[test]
fn published_figures_reach_no_question() {
    let (questions, book) = frozen().expect("they have the form");
    // Changes everything published: intervals and notes, and removes nominal values.
    let mut changed = Vec::new();
    for (file, text) in FILES {
        let mut table: toml::Table = text.parse().expect("it is TOML");
        let claims = table.get_mut("claim").and_then(toml::Value::as_array_mut);
        for claim in claims.expect("there are claims") {
            let claim = claim.as_table_mut().expect("a table");
            if claim.contains_key("interval") {
                let other = vec![toml::Value::Float(1.0), toml::Value::Float(7e9)];
                claim.insert("interval".into(), toml::Value::Array(other));
                claim.remove("nominal");
            }
            claim.insert("note".into(), toml::Value::String("changed".into()));
        }
        let form = FileForm::deserialize(toml::Value::Table(table)).expect("it has the form");
        changed.push((file, form));
    }
    let (mut others, mut other_book) = (Questions::new(), Book::default());
    for (file, form) in changed {
        let points = resolve(file, &form.setup, &form.points, &Catalogue::of_claims());
        for (name, configuration) in points.expect("unchanged") {
            let wanted = BTreeSet::new();
            others.insert(
                (form.seed.clone(), name),
                Question {
                    configuration,
                    wanted,
                },
            );
        }
        for claim in form.claim {
            enter(file, &form.seed, claim, &mut others, &mut other_book).expect("it has the form");
        }
    }
    assert_eq!(questions, others);
    assert_ne!(book, other_book);
}

/// The error about a small file with one claim, in which `from` is replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    const GOOD: &str = r#"
        schema = 1
        seed = "A"
        title = "t"
        file = "f"
        date = "d"
        [setup.d]
        drive = "p4510-2tb"
        count = 1
        level = "none"
        platform = "oakgate"
        host = "appliance"
        stack = "none"
        [points]
        rr = { setup = "d", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 1 } }
        [[claim]]
        id = "A-01"
        use = "V"
        fact = "A-one"
        kind = "number"
        text = "t"
        where = "A: t"
        value = "rr.iops"
        interval = [1.0, inf]
        unit = "IOPS"
        mechanism = "media"
    "#;
    assert!(load(&[("a.toml", GOOD)]).is_ok());
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    load(&[("a.toml", &text)]).expect_err(to).to_string()
}

#[test]
fn a_row_that_lacks_something_is_refused() {
    for (from, to, expected) in [
        (
            "mechanism = \"media\"",
            "",
            "a.toml: A-01.mechanism is missing: a V row says what must produce it",
        ),
        ("value = \"rr.iops\"", "", "a.toml: A-01.value is missing"),
        (
            "rr.iops",
            "rw.iops",
            "a.toml: A-01.value names the point \"rw\", which is not in this file",
        ),
        (
            "rr.iops",
            "rr.watts",
            "a.toml: A-01.value is in W, but unit says IOPS",
        ),
        (
            "[1.0, inf]",
            "[2.0, 1.0]",
            "a.toml: A-01.interval must be ordered and not below 0",
        ),
        (
            "[1.0, inf]",
            "[nan, 1.0]",
            "a.toml: A-01.interval must be ordered and not below 0",
        ),
    ] {
        assert_eq!(refused(from, to), expected);
    }
    assert!(
        refused("\"media\"", "\"medium\"").contains("does not know \"medium\"; nearest: \"media\"")
    );
    assert!(refused("fact = ", "facts = ").contains("facts is not a key here; nearest: \"fact\""));
}

#[test]
fn a_part_of_the_book_needs_a_part_of_the_answers() {
    let (questions, book) = frozen().expect("they have the form");
    let part = book.only(&["M".to_string()], &[Use::C]);
    assert_eq!(part.rows(), 19);
    assert!(part.claims.iter().all(|claim| claim.seed == "M"));
    assert!(part.rules.is_empty() && part.specifications().count() == 0);
    let needed = part.needed(&questions);
    assert!(needed.keys().all(|(seed, _)| seed == "M"));
    assert!(needed.len() >= 20 && needed.len() <= 25, "{}", needed.len());
    let uplink = part.orderings(Mechanism::Link);
    assert_eq!(
        (uplink.rows(), uplink.claims.len()),
        (0, 0),
        "C rows are not orderings"
    );
    let orderings = Mechanism::ALL.map(|word| book.orderings(word).rows());
    let all = book
        .claims
        .iter()
        .filter(|claim| claim.usage == Use::V && claim.kind == Kind::Order);
    assert_eq!(orderings.iter().sum::<usize>(), all.count());
    assert_eq!((book.remarks().count(), part.remarks().count()), (20, 0));
    let inputs = book.only(&["A".to_string(), "M".to_string()], &[Use::S]);
    assert_eq!((inputs.rows(), inputs.specifications().count()), (13, 13));
    assert!(inputs.needed(&questions).is_empty());
}

use super::*;

const FEW: Limits = Limits {
    every_up_to: 3,
    drawn: 8,
    torn: 1,
};

fn outcome(level: Level, kind: Kind) -> Outcome {
    let begun = std::time::Instant::now();
    let outcome = look_at(&scene(level, kind).unwrap(), FEW);
    eprintln!("{:?} {outcome:?}", begun.elapsed());
    assert_eq!(outcome.failure, None, "{outcome:?}");
    outcome
}

#[test]
fn no_power_cut_loses_anything() {
    for level in LEVELS {
        for kind in KINDS {
            if scene(level, kind).is_some() { outcome(level, kind); }
        }
    }
}

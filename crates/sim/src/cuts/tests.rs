use super::*;

const FEW: Limits = Limits {
    every_up_to: 2,
    drawn: 4,
    torn: 1,
    starts: 1,
};

fn outcome(level: Level, kind: Kind) -> Outcome {
    look_at(&scene(level, kind).expect("there is one"), FEW)
}

#[test]
fn no_power_cut_loses_anything() {
    let classes = [
        (Level::Raid0, Kind::Durable),
        (Level::Raid1, Kind::SpareActivation),
        (Level::Raid10, Kind::Metadata),
        (Level::Raid5, Kind::Partial),
        (Level::Raid5, Kind::Create),
    ];
    for (level, kind) in classes {
        let outcome = outcome(level, kind);
        assert_eq!(outcome.failure, None, "{outcome:?}");
        assert!(outcome.cuts > 10 && outcome.judged > 10, "{outcome:?}");
    }
}

#[test]
fn the_same_scene_gives_the_same_result() {
    let one = outcome(Level::Raid1, Kind::CleanAndDirty);
    let other = outcome(Level::Raid1, Kind::CleanAndDirty);
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

/// A client that was told of a flush that no drive has got: the oracle has to notice what is gone.
#[test]
fn a_lost_flush_is_noticed() {
    let scene = scene(Level::Raid10, Kind::Durable).expect("there is one");
    let mut looker = Looker::new(&scene, FEW);
    let noticed = moments(&scene.history, scene.window.clone(), |mut moment| {
        for oracle in &mut moment.oracles {
            let began = oracle.flush_begins();
            oracle.flush_ends(began);
        }
        looker.look(&moment)
    });
    assert!(
        matches!(noticed, Err(Failure::WrongBytes(_))),
        "{noticed:?}"
    );
}

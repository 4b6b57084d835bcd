use super::*;

const FEW: Limits = Limits {
    every_up_to: 2,
    drawn: 4,
    torn: 1,
    starts: 1,
};

fn outcome(level: Level, kind: Kind) -> CutsOutcome {
    look_at(&scene(level, kind).expect("there is such a scene"), FEW, 0).0
}

#[test]
fn some_states_are_kept_and_the_others_looked_at_all_the_same() {
    let scene = scene(Level::Raid5, Kind::Partial).expect("there is such a scene");
    let (with, samples) = look_at(&scene, FEW, 3);
    let (without, none) = look_at(&scene, FEW, 0);
    assert_eq!(format!("{with:?}"), format!("{without:?}"));
    assert_eq!((samples.len(), none.len()), (3, 0));
    for sample in samples {
        assert!(sample.cut >= 1 && sample.cut <= with.cuts && sample.state >= 1);
        assert_eq!(sample.drives.len(), 4);
        // The first page holds data, the last one the record.
        let drive = &sample.drives[1];
        assert_eq!(drive.serial, "/dev/loop1");
        assert!(drive.pages.first().is_some_and(|(at, _)| *at == 0));
        assert!(
            drive
                .pages
                .last()
                .is_some_and(|(at, _)| at + 4096 == drive.size_bytes)
        );
        let start = sample.start.expect("the sample has an array to start");
        assert_eq!((start.members, start.missing, start.syncs), (4, 0, false));
        assert!(start.anything.is_empty());
        let bytes = scene.history.topology.size_bytes(0) as usize;
        assert!(start.contents.iter().all(|content| content.len() == bytes));
        // Outside the ranges that the scene writes, only one content is possible, and it is not zeros.
        let last = bytes - 512..bytes;
        assert!(
            start
                .contents
                .iter()
                .all(|content| content[last.clone()] == start.contents[0][last.clone()])
        );
        assert!(start.contents[0][last].iter().any(|&byte| byte != 0));
    }
}

#[test]
fn no_power_cut_loses_anything() {
    let classes = [
        (Level::Raid0, Kind::Durable),
        (Level::Raid1, Kind::SpareActivation),
        (Level::Raid10, Kind::Metadata),
        (Level::Raid5, Kind::Partial),
        (Level::Raid5, Kind::Create),
        (Level::Raid1, Kind::Marked),
        (Level::Raid10, Kind::Attach),
        (Level::Raid5, Kind::StartDegraded),
        (Level::Raid10, Kind::StartMarked),
        (Level::Raid5, Kind::StartUpdate),
        (Level::Raid5, Kind::StartRebuild),
        (Level::Raid10, Kind::StartSpare),
        (Level::Raid1, Kind::StartReturn),
        (Level::Raid5, Kind::Replace),
        (Level::Raid10, Kind::StartReplace),
    ];
    for (level, kind) in classes {
        let outcome = outcome(level, kind);
        assert_eq!(outcome.failure, None, "{outcome:?}");
        assert!(outcome.cuts > 10 && outcome.judged > 10, "{outcome:?}");
    }
}

/// A mirror that lacks a member writes nothing until it serves, so its records are written only then.
#[test]
fn starts_are_followed_until_their_records_have_moved_on() {
    let starts = KINDS.into_iter().filter(|kind| kind.is_start());
    let outcomes: Vec<CutsOutcome> = starts.map(|kind| outcome(Level::Raid1, kind)).collect();
    assert_eq!(outcomes.len(), 8);
    for outcome in outcomes {
        assert_eq!(outcome.failure, None, "{outcome:?}");
        assert!(outcome.cuts > 4 && outcome.open_most > 0, "{outcome:?}");
    }
}

/// Empty logs are a MiB of zeros on each drive, most of them over zeros. Writes that change nothing need no draws.
#[test]
fn writes_that_make_no_difference_are_not_combined() {
    let outcome = outcome(Level::Raid5, Kind::Create);
    assert!(outcome.cuts > 64, "{outcome:?}");
    assert!(outcome.open_most <= 4, "{outcome:?}");
}

#[test]
fn the_same_scene_gives_the_same_result() {
    let one = outcome(Level::Raid1, Kind::CleanAndDirty);
    let other = outcome(Level::Raid1, Kind::CleanAndDirty);
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

/// The client is told that a flush has succeeded, but no drive got one: the oracle has to notice the loss.
#[test]
fn a_lost_flush_is_noticed() {
    let scene = scene(Level::Raid10, Kind::Durable).expect("there is such a scene");
    let mut looker = Looker::new(&scene, FEW, 0);
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

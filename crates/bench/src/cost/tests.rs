use super::bytes::BytePrices;
use super::catalogue::{LEVELS, UNPRICED, checks, of};
use super::count::Sample;
use super::scene::{self, Done, Scene, WORLD_COMMANDS, WORLD_REQUESTS};
use super::table::{LevelPrices, SCHEMA, Table, WorldPrices, is_bytes};
use engine::layout::Level;
use engine::stats::Stats;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The work of each scene, by name.
type Works = Vec<(String, Done)>;

/// The work of all scenes of a level, run once for all tests: scenes that prices are fitted to, and scenes that check.
fn works(number: u8) -> &'static [Works; 2] {
    static WORKS: OnceLock<BTreeMap<u8, [Works; 2]>> = OnceLock::new();
    let run = |scene: Scene| (scene.name.clone(), scene::run(&scene.name, 40).unwrap());
    let all = |(level, number)| {
        let scenes = [of(level), checks(level)];
        (
            number,
            scenes.map(|scenes| scenes.into_iter().map(run).collect()),
        )
    };
    &WORKS.get_or_init(|| LEVELS.into_iter().map(all).collect())[&number]
}

/// Samples as if every class had a known price.
fn samples(works: &[(String, Done)], price: impl Fn(&str) -> f64) -> Vec<(String, Sample)> {
    let sample = |(name, work): &(String, Done)| {
        let paid = work.counters.iter().filter(|(class, _)| !is_bytes(class));
        let sample = Sample {
            instructions: paid.map(|(name, count)| price(name) * *count as f64).sum(),
            work: work.clone(),
        };
        (name.clone(), sample)
    };
    works.iter().map(sample).collect()
}

fn table(price: impl Fn(&str) -> f64) -> Table {
    let world = WorldPrices {
        instructions_per_request: price(WORLD_REQUESTS),
        instructions_per_command: price(WORLD_COMMANDS),
    };
    let level = |(_, number)| {
        let [priced, judging] = works(number).each_ref().map(|works| samples(works, &price));
        LevelPrices::new(number, world, &priced, &judging, BytePrices::default())
    };
    Table {
        schema: SCHEMA,
        fullstripe: "1.2.3".to_owned(),
        build: "debug".to_owned(),
        machine: "a \"quoted\" machine".to_owned(),
        parity_by: "hand".to_owned(),
        method: "known prices".to_owned(),
        world,
        unpriced: UNPRICED.map(str::to_owned).to_vec(),
        levels: LEVELS.into_iter().map(level).collect(),
    }
}

/// Classes that the engine counts but no level prices.
fn missing(table: &Table) -> Vec<&'static str> {
    let classes = table.levels.iter().flat_map(|level| &level.classes);
    let priced: BTreeSet<&str> = classes.map(|price| price.name.as_str()).collect();
    let counted = Stats::default().fields();
    let names = counted.into_iter().map(|(name, _)| name);
    names.filter(|name| !priced.contains(name)).collect()
}

#[test]
fn every_class_that_the_engine_counts_is_priced_or_said_not_to_be() {
    let table = table(|_| 100.0);
    assert_eq!(missing(&table), UNPRICED);
    for level in &table.levels {
        assert!(level.worst_relative_error < 0.01, "{level:?}");
        assert!(level.worst_check() < 0.02, "{:?}", level.checks);
    }
}

#[test]
fn a_class_without_a_scene_is_missed() {
    let mut table = table(|_| 100.0);
    for level in &mut table.levels {
        level.classes.retain(|price| price.name != "merges");
    }
    let missed = missing(&table);
    assert!(
        missed.contains(&"merges") && missed.len() == UNPRICED.len() + 1,
        "{missed:?}"
    );
}

#[test]
fn prices_that_can_be_told_apart_are_found() {
    let truth = |name: &str| match name {
        "member_reads" => 60.0,
        "request_errors" => 33.0,
        "sweeps" => 5000.0,
        "turns" => 400.0,
        WORLD_REQUESTS | WORLD_COMMANDS => 20.0,
        _ => 250.0,
    };
    let table = table(truth);
    let raid5 = table.levels.iter().find(|level| level.level == 5).unwrap();
    for class in ["request_errors", "sweeps", "turns"] {
        let price = raid5.classes.iter().find(|price| price.name == class);
        let share = price.unwrap().instructions / truth(class);
        assert!((0.9..1.1).contains(&share), "{class}: {price:?}");
    }
}

/// A cost that occurs in no scene of the fit shows as an error in the checks.
#[test]
fn checks_are_not_fitted() {
    let price = |_: &str| 100.0;
    let [priced, judging] = works(1).each_ref().map(|works| samples(works, price));
    let dearer = |(name, mut sample): (String, Sample)| {
        sample.instructions *= 2.0;
        (name, sample)
    };
    let judging: Vec<_> = judging.into_iter().map(dearer).collect();
    let world = WorldPrices::default();
    let level = LevelPrices::new(1, world, &priced, &judging, BytePrices::default());
    assert!(level.worst_relative_error < 0.01, "{level:?}");
    assert!(!level.checks.is_empty());
    for check in &level.checks {
        assert!((0.45..0.55).contains(&check.relative_error), "{check:?}");
    }
}

#[test]
fn the_file_has_every_class_and_is_read_back_as_it_was_written() {
    let table = table(|_| 100.0);
    let text = serde_json::to_string_pretty(&table).unwrap();
    let again: Table = serde_json::from_str(&text).unwrap();
    assert_eq!(missing(&again), again.unpriced);
    assert_eq!(serde_json::to_string_pretty(&again).unwrap(), text);
    for level in &again.levels {
        assert!([0, 1, 5, 10].contains(&level.level));
        for class in &level.classes {
            assert!(
                class.instructions >= 0.0 && class.samples > 0,
                "{}: {class:?}",
                level.level
            );
        }
    }
    let raid5 = again.levels.iter().find(|level| level.level == 5).unwrap();
    let touched = |name: &str| {
        let price = raid5.classes.iter().find(|price| price.name == name);
        price.map(|price| (price.bytes_read, price.bytes_written))
    };
    assert_eq!(touched("xor_bytes"), Some((1.0, 0.0)));
    assert_eq!(touched("xor_written_bytes"), Some((0.0, 1.0)));
    assert_eq!(touched("log_bytes"), Some((1.0, 1.0)));
    assert_eq!(touched("member_write_bytes"), Some((0.0, 0.0)));
}

#[test]
fn only_classes_of_the_engine_are_priced() {
    let known = Stats::default().fields().map(|(name, _)| name.to_owned());
    for level in &table(|_| 100.0).levels {
        for class in &level.classes {
            assert!(known.contains(&class.name), "{class:?}");
        }
    }
}

#[test]
fn a_scene_does_the_same_work_every_time_and_more_for_twice_the_units() {
    for scene in of(Level::Raid5).into_iter().chain(checks(Level::Raid5)) {
        let once = scene::run(&scene.name, 40).unwrap();
        let again = scene::run(&scene.name, 40).unwrap();
        let twice = scene::run(&scene.name, 80).unwrap();
        assert_eq!(once.counters, again.counters, "{}", scene.name);
        let sum = |done: &Done| done.counters.values().sum::<u64>();
        assert!(sum(&twice) > sum(&once), "{}", scene.name);
    }
}

#[test]
fn scenes_do_what_their_names_say() {
    let done = |name: &str| scene::run(name, 100).unwrap().counters;
    let mixed = done("raid5-of-6-check-mix-8k");
    assert_eq!(mixed["reads"] + mixed["writes"], 100);
    assert!((50..90).contains(&mixed["reads"]), "{mixed:?}");
    let degraded = done("raid5-of-6-check-mix-degraded");
    assert!(degraded["plans_reconstruct"] > 0, "{degraded:?}");
    let logged = done("raid5-of-6-check-mix-logged");
    assert_eq!(logged["log_entries"], logged["writes"], "{logged:?}");
    let full = done("raid5-of-4-write-row");
    assert_eq!((full["member_reads"], full["member_writes"]), (0, 400));
    let alone = done("raid0-of-4-read-4k-alone");
    assert!(alone["turns"] >= 100, "{alone:?}");
}

#[test]
fn an_unknown_scene_is_named() {
    let error = scene::run("raid7", 1).unwrap_err();
    assert_eq!(error.to_string(), "there is no scene raid7");
}

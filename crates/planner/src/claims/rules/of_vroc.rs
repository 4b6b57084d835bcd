//! F rows about Intel VROC: keys and the trial, which arrays firmware boots from, drives behind VMD, and slots.

use crate::predict::built_in::machines;
use crate::slots::unsplit;
use catalogue::Catalogue;
use models::platform::domain::Domain;
use models::platform::{Machine, Split};
use std::collections::BTreeSet;
use vroc::keys::{KeyAnswer, Verdict};
use vroc::{Answer, Array, Member, Place, Policy, Purpose};

const LEVELS: [u8; 4] = [0, 1, 5, 10];
/// Drives of the catalogue: of Intel for data centres, of Intel for consumers, and of another maker.
const DATA_CENTRE: &str = "p4510-2tb";
const CONSUMER: &str = "intel-600p-512gb";
const FOREIGN: &str = "samsung-960-pro-512gb";
/// The machine whose slots A-72 is about, and one that has a switch in such a slot.
const SPLIT: &str = "s2600wft-6154-x16";
const SWITCHED: &str = "s2600wft-6154-x8";

/// The rows, with what breaks each.
pub(super) fn all() -> [(&'static str, Option<String>); 5] {
    let policy = Policy::built_in();
    [
        ("A-70", keys_differ(&policy)),
        ("A-71", machines().iter().find_map(is_ungrouped)),
        ("A-72", slots_differ(&machines())),
        ("P-02", boot_differs(&policy)),
        ("P-33", trial_differs(&policy)),
    ]
}

fn array(level: u8, drive: &str, domains: &[&str], purpose: Purpose) -> Array {
    let catalogue = Catalogue::built_in();
    let family = catalogue.with_id(drive).expect("a test checks it").family;
    let members = domains.iter().map(|domain| Member {
        name: drive.to_owned(),
        title: Some(family.name.clone()),
        maker: Some(family.maker.clone()),
        purpose: Some(family.purpose),
        place: Place::Behind((*domain).to_owned()),
    });
    Array {
        level,
        chunk_kib: None,
        volumes: 1,
        purpose,
        members: members.collect(),
    }
}

/// What the rows that `is_meant` says of an array of four drives.
fn said(
    policy: &Policy,
    level: u8,
    drive: &str,
    is_meant: impl Fn(&KeyAnswer) -> bool,
) -> Vec<Verdict> {
    let array = array(level, drive, &["vmd"; 4], Purpose::Data);
    let answer = Answer::of(policy, &array);
    let meant = answer.keys.iter().filter(|row| is_meant(row));
    meant.map(|row| row.verdict).collect()
}

/// A key, its levels, and which drives of [`DATA_CENTRE`], [`CONSUMER`] and [`FOREIGN`] it takes; `None` if that is not stated.
type Published<'a> = (&'a str, &'a [u8], Option<[bool; 3]>);

/// the keys of that publication.
fn keys_differ(policy: &Policy) -> Option<String> {
    let any = Some([true; 3]);
    let published: [Published; 4] = [
        ("none", &[], Some([false; 3])),
        ("standard", &[0, 1, 10], None),
        ("intel-ssd-only", &[0, 1, 10, 5], Some([true, false, false])),
        ("premium", &[0, 1, 10, 5], any),
    ];
    for (key, levels, drives) in published {
        for level in LEVELS {
            for (at, drive) in [DATA_CENTRE, CONSUMER, FOREIGN].into_iter().enumerate() {
                let found = said(policy, level, drive, |row| {
                    row.publication == "anandtech" && row.key == key
                });
                let is_as_published = match (levels.contains(&level), drives) {
                    (false, _) => found == [Verdict::Refuses],
                    (true, None) => found == [Verdict::NotSaid],
                    (true, Some(takes)) if takes[at] => found == [Verdict::Accepts],
                    (true, Some(_)) => found.len() == 1 && found != [Verdict::Accepts],
                };
                if !is_as_published {
                    return Some(format!(
                        "of the key {key}, RAID {level} of {drive} is said to be {found:?}"
                    ));
                }
            }
        }
    }
    None
}

/// P-33: days and levels of the trial, and that its tools differ in the drives that they take.
fn trial_differs(policy: &Policy) -> Option<String> {
    let trial: Vec<_> = policy
        .keys
        .iter()
        .filter(|row| row.key == "trial")
        .collect();
    let has_levels =
        |levels: &Vec<u8>| BTreeSet::from_iter(levels.iter().copied()) == BTreeSet::from(LEVELS);
    for row in &trial {
        if row.days != Some(90) || !row.levels.as_ref().is_some_and(has_levels) {
            return Some(format!("the trial is {row:?}"));
        }
    }
    for (tool, drive, is_taken) in [
        ("firmware configuration", CONSUMER, true),
        ("firmware configuration", FOREIGN, false),
        ("Windows interface", CONSUMER, true),
        ("Windows interface", FOREIGN, true),
    ] {
        let found = said(policy, 0, drive, |row| {
            row.key == "trial" && row.tool.as_deref() == Some(tool)
        });
        let expected = match is_taken {
            true => Verdict::Accepts,
            false => Verdict::Refuses,
        };
        if found != [expected] {
            return Some(format!(
                "in the trial, {tool} of {drive} is said to be {found:?}"
            ));
        }
    }
    None
}

/// P-02: a boot array is of one VMD, also of more than four drives; a data array spans VMDs and sockets.
fn boot_differs(policy: &Policy) -> Option<String> {
    // The VMDs of s2600wft-8170: two on the first socket, one on the second.
    let two = ["vmd-0", "vmd-0", "vmd-1", "vmd-1"];
    let sockets = ["vmd-0", "vmd-0", "vmd-2", "vmd-2"];
    let cases: [(Purpose, &[&str], bool); 5] = [
        (Purpose::Data, &sockets, true),
        (Purpose::Boot, &["vmd-0"; 4], true),
        (Purpose::Boot, &["vmd-0"; 8], true),
        (Purpose::Boot, &two, false),
        (Purpose::Data, &two, true),
    ];
    cases
        .into_iter()
        .find_map(|(purpose, domains, is_allowed)| {
            let answer = Answer::of(policy, &array(5, DATA_CENTRE, domains, purpose));
            let found = answer.refused().is_none();
            (found != is_allowed)
                .then(|| format!("an array for {purpose:?} behind {domains:?}: allowed is {found}"))
        })
}

/// A-71, for one machine: the bay whose VMD in the checked tree is not that of the domain which lists it.
fn is_ungrouped(machine: &Machine) -> Option<String> {
    differ_from_tree(machine, &machine.vmd_domains())
}

fn differ_from_tree(machine: &Machine, domains: &[Domain]) -> Option<String> {
    let graph = machine.graph().expect("a test checks every platform");
    graph.bays.iter().find_map(|bay| {
        let inside = domains
            .iter()
            .filter(|domain| domain.bays.contains(&bay.name));
        let inside: Vec<&str> = inside.map(|domain| domain.vmd.as_str()).collect();
        let expected: Vec<&str> = bay.vmd.as_deref().into_iter().collect();
        (inside != expected).then(|| {
            format!(
                "{}: {} is in the domains {inside:?}, not {expected:?}",
                machine.platform, bay.name
            )
        })
    })
}

/// the slots of that board, and that four drives in an unsplit one are refused unless there is a switch.
fn slots_differ(machines: &[Machine]) -> Option<String> {
    let find = |id: &str| machines.iter().find(|machine| machine.platform == id);
    let (Some(split), Some(switched)) = (find(SPLIT), find(SWITCHED)) else {
        return Some(format!("{SPLIT} or {SWITCHED} is missing"));
    };
    let published = [
        (16, Some("four-port retimer"), Some(Split::ByItself)),
        (16, Some("ASUS Hyper M.2 X16"), Some(Split::BySetting)),
        (8, None, Some(Split::No)),
    ];
    let slots = split.slots.iter();
    let found: Vec<_> = slots
        .map(|slot| (slot.lanes, slot.card.as_deref(), slot.split))
        .collect();
    if found != published {
        return Some(format!("{SPLIT} has the slots {found:?}"));
    }
    let mut unset = split.clone();
    unset.slots[0].split = Some(Split::No);
    let cases = [(split, false), (switched, false), (&unset, true)];
    cases.into_iter().find_map(|(machine, is_refused)| {
        let graph = machine.graph().expect("a test checks every platform");
        let found = unsplit(&graph, 4);
        (found.is_some() != is_refused)
            .then(|| format!("four drives in {}: {found:?}", machine.platform))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vroc::policy::FILE;

    #[test]
    fn every_rule_holds() {
        for (id, broken) in all() {
            assert_eq!(broken, None, "{id}");
        }
    }

    #[test]
    fn another_table_breaks_the_rules() {
        for (old, new, rule) in [
            ("levels = [0, 1, 10]", "levels = [0, 1, 5, 10]", 0),
            ("drives = \"any\"\n", "", 0),
            ("days = 90", "days = 30", 4),
            ("refuses = [\"960 PRO\"]", "", 4),
            ("domains = [1, 1]", "domains = [1, 2]", 3),
            ("domains = [0, 256]", "domains = [0, 1]", 3),
        ] {
            assert!(FILE.1.contains(old), "{old}");
            let text = FILE.1.replacen(old, new, 1);
            let policy = Policy::read("my.toml", &text).expect(old);
            let broken = [
                keys_differ(&policy),
                None,
                None,
                boot_differs(&policy),
                trial_differs(&policy),
            ];
            assert!(broken[rule].is_some(), "{old}: {broken:?}");
        }
    }

    #[test]
    fn other_machines_break_the_rules() {
        let mut all = machines();
        let two_sockets = all
            .iter()
            .find(|machine| machine.platform == "s2600wft-8170");
        let two_sockets = two_sockets.expect("it comes with the program");
        let mut domains = two_sockets.vmd_domains();
        let moved = domains[1].bays.remove(0);
        assert!(differ_from_tree(two_sockets, &domains).is_some_and(|what| what.contains(&moved)));
        domains[2].bays.push(moved);
        assert!(differ_from_tree(two_sockets, &domains).is_some());
        assert!(slots_differ(&[]).is_some_and(|what| what.contains("missing")));
        let at = all.iter().position(|machine| machine.platform == SPLIT);
        let split = &mut all[at.expect("it comes with the program")];
        split.slots[2].split = Some(Split::BySetting);
        assert!(slots_differ(&all).is_some_and(|what| what.contains("slots")));
    }
}

use crate::array::{Array, Member, Place, Purpose};
use crate::keys::Verdict;
use crate::policy::{FILE, Policy};
use crate::{Answer, shapes};
use catalogue::Catalogue;

fn member(id: &str, name: &str, place: Place) -> Member {
    let catalogue = Catalogue::built_in();
    let family = catalogue.with_id(id).expect("it is there").family;
    Member {
        name: name.to_owned(),
        title: Some(family.name.clone()),
        maker: Some(family.maker.clone()),
        purpose: Some(family.purpose),
        place,
    }
}

/// An array of drives of the catalogue, the place of each given.
fn array(level: u8, id: &str, places: &[Place]) -> Array {
    let members = places.iter().enumerate();
    Array {
        level,
        chunk_kib: Some(128),
        volumes: 1,
        purpose: Purpose::Data,
        members: members
            .map(|(at, place)| member(id, &format!("nvme{at}"), place.clone()))
            .collect(),
    }
}

fn behind(name: &str, drives: usize) -> Vec<Place> {
    vec![Place::Behind(name.to_owned()); drives]
}

/// What a publication says of a key for an array: the verdicts of its rows.
fn verdicts(policy: &Policy, array: &Array, publication: &str, key: &str) -> Vec<Verdict> {
    let answer = Answer::of(policy, array);
    let rows = answer.keys.iter();
    rows.filter(|row| row.publication == publication && row.key == key)
        .map(|row| row.verdict)
        .collect()
}

#[test]
fn each_key_of_a_review_has_the_levels_that_it_says() {
    let policy = Policy::built_in();
    for (key, levels) in [
        ("none", &[][..]),
        ("standard", &[0, 1, 10][..]),
        ("intel-ssd-only", &[0, 1, 10, 5][..]),
        ("premium", &[0, 1, 10, 5][..]),
    ] {
        for level in [0, 1, 5, 10] {
            let array = array(level, "p4510-2tb", &behind("vmd", 4));
            let verdicts = verdicts(&policy, &array, "anandtech", key);
            let is_refused = verdicts.contains(&Verdict::Refuses);
            assert_eq!(verdicts.len(), 1, "{key}");
            assert_eq!(!is_refused, levels.contains(&level), "{key}, RAID {level}");
        }
    }
}

#[test]
fn a_key_accepts_only_if_its_drives_are_said_too() {
    let policy = Policy::built_in();
    for (drive, key, expected) in [
        ("p4510-2tb", "intel-ssd-only", Verdict::Accepts),
        ("intel-600p-512gb", "intel-ssd-only", Verdict::NotSaid),
        ("samsung-960-pro-512gb", "intel-ssd-only", Verdict::Refuses),
        ("samsung-960-pro-512gb", "premium", Verdict::Accepts),
        ("p4510-2tb", "standard", Verdict::NotSaid),
    ] {
        let array = array(0, drive, &behind("vmd", 2));
        let verdicts = verdicts(&policy, &array, "anandtech", key);
        assert_eq!(verdicts, [expected], "{key}, {drive}");
    }
    let mut unknown = array(0, "p4510-2tb", &behind("vmd", 2));
    unknown.members[1].maker = None;
    let verdicts = verdicts(&policy, &unknown, "anandtech", "intel-ssd-only");
    assert_eq!(verdicts, [Verdict::NotSaid]);
}

#[test]
fn in_the_trial_the_tool_decides_which_drives_are_taken() {
    let policy = Policy::built_in();
    for level in [0, 1, 5, 10] {
        for (drive, firmware) in [
            ("intel-600p-512gb", Verdict::Accepts),
            ("samsung-960-pro-512gb", Verdict::Refuses),
        ] {
            let answer = Answer::of(&policy, &array(level, drive, &behind("vmd", 4)));
            let trial = answer.keys.iter().filter(|row| row.key == "trial");
            for row in trial {
                assert_eq!(row.days, Some(90));
                let expected = match row.tool.as_deref() {
                    Some("firmware configuration") => firmware,
                    Some("Windows interface") => Verdict::Accepts,
                    other => panic!("{other:?}"),
                };
                assert_eq!(row.verdict, expected, "{drive}: {}", row.because);
            }
        }
    }
}

#[test]
fn publications_that_contradict_each_other_are_told() {
    let policy = Policy::built_in();
    let mut raid0 = array(0, "p4510-2tb", &behind("vmd", 4));
    let without = |array: &Array| verdicts(&policy, array, "pcper", "none");
    assert_eq!(without(&raid0), [Verdict::Refuses, Verdict::NotSaid]);
    raid0.level = 5;
    assert_eq!(without(&raid0), [Verdict::Refuses, Verdict::Refuses]);
    let consumer = array(0, "samsung-960-pro-512gb", &behind("vmd", 2));
    assert_eq!(Answer::of(&policy, &consumer).disputed(), ["none", "trial"]);
    let because = |array: &Array, place: &str| {
        let answer = Answer::of(&policy, array);
        let mut rows = answer.keys.into_iter();
        rows.find(|row| row.r#where.contains(place))
            .expect(place)
            .because
    };
    assert_eq!(
        because(&consumer, "ASUS"),
        "it has level 0, and does not say which drives"
    );
}

#[test]
fn another_key_is_a_row_of_the_file_and_nothing_else() {
    let row = "\n[[key]]\npublication = \"mdadm\"\nwhere = \"here\"\nkey = \"new\"\nlevels = [6]\ndrives = \"any\"\n";
    let more = format!("{}{row}", FILE.1);
    let policy = Policy::read(FILE.0, &more).expect("it is of the form");
    let array = array(6, "p4510-2tb", &behind("vmd", 4));
    let said = verdicts(&policy, &array, "mdadm", "new");
    assert_eq!(said, [Verdict::Accepts]);
}

#[test]
fn firmware_boots_an_array_only_of_drives_behind_one_vmd() {
    let policy = Policy::built_in();
    let two = [behind("vmd-0", 2), behind("vmd-1", 2)].concat();
    let outside = [behind("vmd-0", 3), vec![Place::Outside]].concat();
    let unseen = [behind("vmd-0", 3), vec![Place::Unseen]].concat();
    for (places, purpose, expected) in [
        (&behind("vmd-0", 4), Purpose::Boot, None),
        // A switch behind the VMD has more.
        (&behind("vmd-0", 8), Purpose::Boot, None),
        (
            &two,
            Purpose::Boot,
            Some((true, "its drives are behind vmd-0 and vmd-1")),
        ),
        (&two, Purpose::Data, None),
        (
            &outside,
            Purpose::Boot,
            Some((true, "nvme3 is behind no VMD")),
        ),
        (
            &unseen,
            Purpose::Boot,
            Some((false, "it cannot be seen where nvme3 is connected")),
        ),
        (
            &unseen,
            Purpose::Data,
            Some((false, "it cannot be seen where nvme3 is connected")),
        ),
        (
            &outside,
            Purpose::Data,
            Some((true, "nvme3 is behind no VMD")),
        ),
    ] {
        let mut array = array(5, "p4510-2tb", places);
        array.purpose = purpose;
        let broken = shapes::broken(&policy, &array);
        let of_review = broken.iter().find(|rule| rule.publication == "pcper");
        let found = of_review.map(|rule| (rule.is_certain, rule.because.as_str()));
        assert_eq!(found, expected, "{places:?}");
    }
}

#[test]
fn shapes_that_are_refused_are_named_with_what_breaks_the_rule() {
    let policy = Policy::built_in();
    let first = |array: &Array| {
        let broken = shapes::broken(&policy, array).into_iter().next();
        broken.map(|rule| rule.because)
    };
    let plain = |level, drives| array(level, "p4510-2tb", &behind("vmd", drives));
    assert_eq!(first(&plain(5, 24)), None);
    for (array, because) in [
        (plain(6, 4), "this one has level 6"),
        (plain(1, 3), "this one has 3 drives"),
        (plain(10, 5), "this one has 5 drives"),
        (plain(5, 2), "this one has 2 drives"),
        (plain(5, 25), "this one has 25 drives"),
        (
            Array {
                chunk_kib: Some(256),
                ..plain(0, 2)
            },
            "this one has chunks of 256 KiB",
        ),
        (
            Array {
                volumes: 3,
                ..plain(0, 2)
            },
            "this one would have 3",
        ),
        (
            Array {
                purpose: Purpose::Boot,
                ..plain(10, 6)
            },
            "this one has 6 drives",
        ),
    ] {
        assert_eq!(first(&array).as_deref(), Some(because));
    }
    assert_eq!(
        first(&Array {
            chunk_kib: None,
            ..plain(1, 2)
        }),
        None
    );
    let mixed = [behind("vmd", 2), vec![Place::Outside]].concat();
    let mixed = shapes::broken(&policy, &array(5, "p4510-2tb", &mixed));
    let mixed: Vec<&str> = mixed.iter().map(|rule| rule.because.as_str()).collect();
    assert_eq!(
        mixed,
        [
            "nvme2 is behind no VMD",
            "nvme2 is behind no VMD, and others are"
        ]
    );
    let outside = first(&array(5, "p4510-2tb", &vec![Place::Outside; 3]));
    assert_eq!(outside.as_deref(), Some("nvme0 is behind no VMD"));
    let both = [behind("vmd", 2), vec![Place::Unseen]].concat();
    let both = shapes::broken(&policy, &array(5, "p4510-2tb", &both));
    assert!(both.len() == 2 && both.iter().all(|rule| !rule.is_certain));
}

#[test]
fn an_answer_cites_each_publication_that_it_rests_on() {
    let policy = Policy::built_in();
    let answer = Answer::of(&policy, &array(1, "p4510-2tb", &behind("vmd", 3)));
    assert_eq!(
        answer.refused().map(|rule| rule.publication.as_str()),
        Some("intel-levels")
    );
    let cited = answer.publications.get("intel-levels");
    assert!(
        cited.is_some_and(|title| title.contains("000100500")),
        "{cited:?}"
    );
    for row in &answer.keys {
        assert!(answer.publications.contains_key(&row.publication));
    }
}

#[test]
fn names_of_drives_in_the_file_are_those_of_the_catalogue() {
    let catalogue = Catalogue::built_in();
    let policy = Policy::built_in();
    let rows = policy.keys.iter();
    for word in rows
        .clone()
        .flat_map(|row| row.takes.iter().chain(&row.refuses))
    {
        let is_known = catalogue
            .entries()
            .any(|entry| entry.family.name.contains(word));
        assert!(is_known, "{word}");
    }
    for maker in rows.flat_map(|row| &row.makers) {
        assert!(
            catalogue
                .entries()
                .any(|entry| entry.family.maker == *maker),
            "{maker}"
        );
    }
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_key() {
    for (old, new, expected) in [
        ("schema = 1", "schema = 2", "schema is 2"),
        (
            "publication = \"intel-levels\"",
            "publication = \"mdadm\"",
            "publication \"intel-levels\" is cited by no row",
        ),
        (
            "id = \"lenovo\"",
            "id = \"pcper\"",
            "publication.id \"pcper\" is given twice",
        ),
        (
            "publication = \"lenovo\"",
            "publication = \"lenova\"",
            "key.publication is \"lenova\", which is not in the file",
        ),
        (
            "drives = [2, 2]\n",
            "",
            "shape \"RAID 1 has exactly two drives\" refuses nothing",
        ),
        (
            "makers = [\"Intel\"]\n",
            "",
            "key \"intel-ssd-only\".drives and makers go together",
        ),
        (
            "date = \"2017\"",
            "date = \"then\"",
            "publication \"pcper\".date is \"then\"",
        ),
    ] {
        // A publication is cited by several rows.
        let times = if old.contains("intel-levels") { 9 } else { 1 };
        let text = FILE.1.replacen(old, new, times);
        let refusal = Policy::read("my.toml", &text)
            .expect_err(expected)
            .to_string();
        assert!(
            refusal.starts_with(&format!("my.toml: {expected}")),
            "{refusal}"
        );
    }
}

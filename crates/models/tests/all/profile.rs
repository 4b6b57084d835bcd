//! The P4510's profile: sources of numbers, counts of constants, and the messages about wrong numbers.

use crate::support::claims::{claims, wrong_rows};
use crate::support::{Load, closed_loop, drive_of, family, profile_text};
use models::library::FAMILIES;
use models::profile::{Family, NOT_STATED, Use};
use models::tables::Tables;
use repeatable::random::Stream;
use std::collections::BTreeMap;

/// All figures of a profile that cite a row whose use does not allow that.
fn wrong_sources(family: &Family, uses: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    family.each_figure(&mut |table, key, figure| {
        let found = wrong_rows(figure, uses);
        wrong.extend(found.map(|id| format!("{table}.{key}: {id}")));
    });
    wrong
}

/// Every family that comes with the program.
fn families() -> Vec<Family> {
    let texts = FAMILIES.iter();
    texts
        .map(|(file, text)| toml::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}")))
        .collect()
}

#[test]
fn no_number_comes_from_what_the_model_is_judged_by() {
    let uses = claims();
    for family in families() {
        let wrong = wrong_sources(&family, &uses);
        assert_eq!(wrong, Vec::<String>::new(), "{}", family.family);
    }
    // The check itself works: it finds a validation row that is cited as a source.
    let judged = uses
        .iter()
        .find(|(_, r#use)| *r#use == "V")
        .expect("there are some")
        .0;
    let mut cheating = family();
    cheating.media.read_unit_us.source = format!("fit: {judged}");
    assert_eq!(
        wrong_sources(&cheating, &uses),
        [format!("media.read_unit_us: {judged}")]
    );
}

#[test]
fn fewer_constants_are_fitted_than_half_the_facts() {
    let mut fitted = Vec::new();
    let mut unfounded = Vec::new();
    family().each_figure(&mut |table, key, figure| {
        if figure.r#use == Use::C {
            fitted.push(format!("{table}.{key}"));
        }
        if figure.source.trim().len() < 4 {
            unfounded.push(format!("{table}.{key}"));
        }
    });
    assert_eq!(unfounded, Vec::<String>::new());
    // Ten rows are published about one P4510, as numbers or ratios, M-01, 02, 03, 06, 07, 09 and 10.
    // Half of ten is five, so no more than five constants may be fitted.
    assert_eq!(
        fitted,
        [
            "media.read_unit_us",
            "media.unit_transfer_mb_s",
            "stalls.short_per_write",
            "p4510-8tb.steady_write_kiops",
            "p4510-8tb.pool_mb"
        ]
    );
}

#[test]
fn every_member_is_sound() {
    for id in ["p4510-1tb", "p4510-2tb", "p4510-4tb", "p4510-8tb"] {
        let profile = family()
            .member(id)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(profile.amplification_per_mille > 3000);
        assert_eq!(profile.units % 12, 0);
    }
}

#[test]
fn every_family_states_its_sources_and_is_sound() {
    for family in families() {
        family.each_figure(&mut |table, key, figure| {
            assert!(figure.source.trim().len() >= 4, "{table}.{key}");
            assert_ne!(
                figure.source, NOT_STATED,
                "{}: {table}.{key}",
                family.family
            );
        });
        for member in &family.members {
            let profile = family.member(&member.id);
            profile.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn what_a_drive_without_buffer_cannot_have_is_told() {
    for (key, value, sentence) in [
        (
            "media.program_kib",
            64.0,
            "p4800x-375gb: media.program_kib has to be 4 without a buffer (controller.buffer_kib), when map units are \
             programmed in place",
        ),
        (
            "media.partial_write_factor",
            0.5,
            "p4800x-375gb: media.partial_write_factor has to be from 1 to 100",
        ),
        (
            "latency.write_us",
            3.0,
            "p4800x-375gb: latency.write_us is below its floor: the stages alone take 5 us",
        ),
    ] {
        let mut families = families().into_iter();
        let optane = families.find(|family| family.family == "p4800x");
        let mut optane = optane.expect("it comes with the program");
        optane.figure_mut(key).expect(key).value = value;
        let told = optane.member("p4800x-375gb").expect_err(key);
        assert_eq!(told.to_string(), sentence);
    }
}

#[test]
fn a_wrong_number_is_told_in_one_sentence() {
    for (name, value, sentence) in [
        (
            "p4510-2tb.read_kiops",
            2000.0,
            "p4510-2tb: ratings.read_kiops needs 8192 MB/s, but the link has 3938 MB/s",
        ),
        (
            "p4510-2tb.write_mb_s",
            -1.0,
            "p4510-2tb: ratings.write_mb_s is -1, but must not be negative",
        ),
        (
            "latency.read_us",
            50.0,
            "p4510-2tb: latency.read_us is below its floor: the stages alone take 65 us",
        ),
        (
            "p4510-2tb.steady_write_kiops",
            600.0,
            "p4510-2tb: ratings.steady_write_kiops times media.map_unit_kib is more than ratings.write_mb_s",
        ),
        (
            "p4510-2tb.units",
            12.5,
            "p4510-2tb: ratings.units is 12.5, but has to be a whole number",
        ),
        (
            "media.program_us",
            0.0,
            "p4510-2tb: media.program_us is 0, but has to be above 0",
        ),
        (
            "stalls.long_per_read",
            1.5,
            "p4510-2tb: stalls.long_per_read is 1.5, but has to be at most 1",
        ),
        (
            "controller.buffer_kib",
            64.0,
            "p4510-2tb: controller.buffer_kib has to hold the largest command (limits.command_max_kib), or be 0 for writes that \
             are done when the medium has them",
        ),
    ] {
        let mut family = family();
        family
            .figure_mut(name)
            .unwrap_or_else(|| panic!("no {name}"))
            .value = value;
        let error = family.member("p4510-2tb").expect_err(name);
        assert_eq!(error.to_string(), sentence);
    }
    let unknown = family().member("p4510-3tb").expect_err("there is none");
    assert_eq!(
        unknown.to_string(),
        "p4510: p4510-3tb is not a drive of this family, which has \
         p4510-1tb, p4510-2tb, p4510-4tb, p4510-8tb"
    );
}

#[test]
fn any_number_makes_a_drive_or_a_sentence() {
    let names = {
        let mut names = Vec::new();
        family().each_figure(&mut |table, key, _| names.push(format!("{table}.{key}")));
        names
    };
    let values = [
        0.0,
        1e-300,
        1e-9,
        0.5,
        1.0,
        4096.0,
        1e9,
        1e300,
        -1.0,
        f64::NAN,
        f64::INFINITY,
    ];
    let mut drives = 0;
    for name in &names {
        for value in values {
            let mut family = family();
            family
                .figure_mut(name)
                .unwrap_or_else(|| panic!("no {name}"))
                .value = value;
            for id in ["p4510-1tb", "p4510-8tb"] {
                if let Ok(profile) = family.member(id) {
                    let mut drive = drive_of(&profile, models::drive::State::Steady);
                    let load = Load::random(50, 2, 2);
                    closed_loop(&mut drive, load, 0, 1);
                    drives += 1;
                }
            }
        }
    }
    assert!(drives > 100, "{drives}");
}

/// The family in a profile with some bytes changed, if it can still be parsed.
fn mutated(text: &str, stream: &mut Stream) -> Option<Family> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..stream.between(1, 4) {
        let at = stream.below(bytes.len() as u64) as usize;
        match stream.below(4) {
            0 => bytes[at] = stream.draw() as u8,
            1 => bytes[at] = b"0123456789.-e"[stream.below(13) as usize],
            2 => bytes.insert(at, b"0123456789.-e"[stream.below(13) as usize]),
            _ => {
                bytes.remove(at);
            }
        }
    }
    toml::from_str(std::str::from_utf8(&bytes).ok()?).ok()
}

#[test]
fn changed_files_make_a_drive_or_an_error_and_never_a_panic() {
    let text = profile_text();
    // The sources are left out, because most changes would otherwise fall into their text.
    let bare: String = text
        .lines()
        .map(
            |line| match (line.find("source = \""), line.find("\", use")) {
                (Some(from), Some(to)) => format!("{}source = \"{}\n", &line[..from], &line[to..]),
                _ => format!("{line}\n"),
            },
        )
        .collect();
    let mut stream = Stream::new(1, "mutations", 0);
    let (mut parsed, mut drives) = (0, 0);
    for _ in 0..4000 {
        let Some(family) = mutated(&bare, &mut stream) else {
            continue;
        };
        parsed += 1;
        for member in &family.members {
            if let Ok(profile) = family.member(&member.id) {
                let mut drive = drive_of(&profile, models::drive::State::Steady);
                let load = Load::random(50, 2, 2);
                closed_loop(&mut drive, load, 0, 1);
                drives += 1;
            }
        }
    }
    assert!(parsed > 200 && drives > 200, "{parsed} {drives}");
}

#[test]
fn unknown_and_missing_keys_are_refused() {
    let text = profile_text();
    let misspelt = text.replace("read_unit_us", "read_unit_ms");
    let error = toml::from_str::<Family>(&misspelt)
        .expect_err("an unknown key")
        .to_string();
    assert!(error.contains("read_unit_ms"), "{error}");
    let more = text.replace("use = \"S\"", "use = \"S\", spread = 1");
    assert!(toml::from_str::<Family>(&more).is_err());
    let judged = text.replacen("use = \"S\"", "use = \"V\"", 1);
    assert!(toml::from_str::<Family>(&judged).is_err());
}

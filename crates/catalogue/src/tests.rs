use super::*;
use crate::filter::Filter;
use crate::sheet::{Class, Kind, Purpose, Rating};
use std::path::Path;

const EXAMPLE: &str = r#"
schema = 1
name = "Example E1"
maker = "Example"
class = "tlc"
purpose = "data-centre"
generation = { value = 4, source = "brief" }
lanes = { value = 4, source = "brief" }

[[source]]
id = "brief"
kind = "sheet"
title = "Example E1 product brief"
address = "https://example.com/e1.pdf"
date = "2023-08"

[[source]]
id = "review"
kind = "reported"
title = "Example E1 reviewed"
address = "https://example.org/e1"
date = "2023-09-01"

[[drive]]
id = "example-e1-4tb"

[drive.ratings]
capacity_gb = { value = 3840, source = "brief" }
read_kiops = { value = [900, 930.5], source = ["brief", "review"] }
read_mb_s = { value = 6500, source = "brief" }
write_mb_s = { value = 5000, source = "review", burst = true }
read_us = { value = 85, source = "brief" }
"#;

fn refusal(text: &str) -> String {
    let read = Catalogue::read(&[("e1.toml", text)]);
    read.expect_err("a mistake").to_string()
}

#[test]
fn a_family_is_read_with_the_source_of_each_value() {
    let catalogue = Catalogue::read(&[("e1.toml", EXAMPLE)]).unwrap();
    let entry = catalogue.with_id("example-e1-4tb").unwrap();
    let reads = &entry.drive.ratings[&Rating::ReadKiops];
    let said: Vec<_> = reads.said().collect();
    assert_eq!(said, [(900.0, "brief"), (930.5, "review")]);
    assert_eq!((reads.low(), reads.high()), (900.0, 930.5));
    assert!(!reads.is_burst && entry.drive.ratings[&Rating::WriteMbS].is_burst);
    assert_eq!(entry.family.source("review").unwrap().kind, Kind::Reported);
    assert_eq!(
        catalogue.with_id("example-e1-5tb").unwrap_err().to_string(),
        "profiles/catalogue: \"example-e1-5tb\" is no drive of the catalogue; nearest: \"example-e1-4tb\""
    );
}

#[test]
fn a_number_without_a_source_is_refused() {
    for (from, to, expected) in [
        (
            "{ value = 6500, source = \"brief\" }",
            "{ value = 6500 }",
            "e1.toml: drive.ratings.read_mb_s.source is missing",
        ),
        (
            "{ value = 6500, source = \"brief\" }",
            "6500",
            "e1.toml: drive.ratings.read_mb_s must be ",
        ),
        (
            "{ value = 6500, source = \"brief\" }",
            "{ value = 6500, source = \"brochure\" }",
            "e1.toml: drive \"example-e1-4tb\".read_mb_s names the source \"brochure\", which is not in the file",
        ),
        (
            "[900, 930.5]",
            "900",
            "e1.toml: drive.ratings.read_kiops is refused: 1 value and 2 sources: each value has one source",
        ),
        (
            "address = \"https://example.com/e1.pdf\"",
            "address = \"my shelf\"",
            "e1.toml: source \"brief\".address is \"my shelf\": give an http or https address, or \"unknown\"",
        ),
        (
            "\"2023-08\"",
            "\"2023-13\"",
            "e1.toml: source \"brief\".date is \"2023-13\": give YYYY, YYYY-MM, YYYY-MM-DD or \"unknown\"",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let text = EXAMPLE.replacen(from, to, 1);
        let said = refusal(&text);
        assert!(said.starts_with(expected), "{said}");
    }
    let unused = EXAMPLE
        .replace("[900, 930.5]", "900")
        .replace("[\"brief\", \"review\"]", "\"brief\"");
    let unused = unused.replace("source = \"review\"", "source = \"brief\"");
    assert_eq!(
        refusal(&unused),
        "e1.toml: source \"review\" is the source of no figure: remove it"
    );
}

#[test]
fn a_sheet_that_contradicts_itself_names_both_figures() {
    for (from, to, expected) in [
        (
            "[900, 930.5]",
            "[1700, 1800]",
            "drive \"example-e1-4tb\".read_kiops is 1700, which with 4 KiB each is 6963 MB/s; but read_mb_s is 6500",
        ),
        (
            "value = 6500",
            "value = 7900",
            "drive \"example-e1-4tb\".read_mb_s is 7900; but the link carries 7877",
        ),
        (
            "value = 85",
            "value = 35",
            "drive \"example-e1-4tb\".read_us is 35; but class is tlc, and the fastest such drives take more than 40",
        ),
        (
            "generation = { value = 4",
            "generation = { value = 7",
            "generation is 7; drives have 3 to 6",
        ),
        (
            "lanes = { value = 4",
            "lanes = { value = 3",
            "lanes is 3; drives have 1, 2, 4, 8 or 16",
        ),
        (
            "read_us = { value = 85, source = \"brief\" }",
            "idle_w = { value = 12, source = \"brief\" }\nactive_w = { value = 8, source = \"brief\" }",
            "drive \"example-e1-4tb\".idle_w is 12; but active_w is 8",
        ),
        (
            "capacity_gb = { value = 3840, source = \"brief\" }",
            "",
            "drive \"example-e1-4tb\".capacity_gb is missing",
        ),
        (
            "read_us = { value = 85,",
            "burst_write_mb_s = { value = 6000,",
            "drive \"example-e1-4tb\".burst_write_mb_s is 6000; but write_mb_s is a burst too",
        ),
        (
            "source = \"review\", burst = true }\nread_us = { value = 85,",
            "source = \"review\" }\nburst_write_mb_s = { value = 4000,",
            "drive \"example-e1-4tb\".burst_write_mb_s is 4000; but write_mb_s is 5000",
        ),
        (
            "source = \"review\", burst = true }\nread_us = { value = 85,",
            "source = \"review\" }\nburst_write_mb_s = { value = 9000,",
            "drive \"example-e1-4tb\".burst_write_mb_s is 9000; but the link carries 7877",
        ),
        (
            "read_us = { value = 85,",
            "burst_gb = { value = 4000,",
            "drive \"example-e1-4tb\".burst_gb is 4000; but capacity_gb is 3840",
        ),
        (
            "read_us = { value = 85,",
            "map_unit_kib = { value = 12,",
            "drive \"example-e1-4tb\".map_unit_kib is 12: give a power of two from 4 to 1024",
        ),
        (
            "read_us = { value = 85,",
            "io_queues = { value = 8.5,",
            "drive \"example-e1-4tb\".io_queues is 8.5: give a whole number from 1 to 65535",
        ),
        (
            "read_us = { value = 85,",
            "write_size_kib = { value = 2048,",
            "drive \"example-e1-4tb\".write_size_kib is 2048: give a power of two from 4 to 1024",
        ),
        (
            "read_us = { value = 85, source = \"brief\" }",
            "write_size_kib = { value = 16, source = \"brief\" }\nwrite_kiops = { value = 400, source = \"brief\" }",
            "drive \"example-e1-4tb\".write_kiops is 400, which with 16 KiB each is 6554 MB/s; but write_mb_s is 5000",
        ),
        (
            "value = 85",
            "value = -85",
            "drive.ratings.read_us is refused: -85 is no figure of a drive",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let text = EXAMPLE.replacen(from, to, 1);
        assert_eq!(refusal(&text), format!("e1.toml: {expected}"));
    }
}

#[test]
fn two_drives_have_two_names() {
    let twice = Catalogue::read(&[("e1.toml", EXAMPLE), ("e2.toml", EXAMPLE)]);
    assert_eq!(
        twice.unwrap_err().to_string(),
        "e2.toml: \"example-e1-4tb\" is the name of a drive of e1.toml too"
    );
}

#[test]
fn filters_choose() {
    let catalogue = Catalogue::read(&[("e1.toml", EXAMPLE)]).unwrap();
    let entry = catalogue.entries().next().unwrap();
    let all = Filter::default();
    assert!(all.wants(entry));
    let fits = Filter {
        maker: Some("EXAMPLE".to_string()),
        class: Some(Class::Tlc),
        purpose: Some(Purpose::DataCentre),
        generation: Some(4),
        at_least_tb: Some(3.84),
        at_most_tb: Some(3.84),
    };
    assert!(fits.wants(entry));
    let all_but = |change: fn(&mut Filter)| {
        let mut filter = fits.clone();
        change(&mut filter);
        filter
    };
    for other in [
        all_but(|filter| filter.maker = Some("Exam".to_string())),
        all_but(|filter| filter.class = Some(Class::Qlc)),
        all_but(|filter| filter.purpose = Some(Purpose::Consumer)),
        all_but(|filter| filter.generation = Some(5)),
        all_but(|filter| filter.at_least_tb = Some(3.9)),
        all_but(|filter| filter.at_most_tb = Some(3.8)),
    ] {
        assert!(!other.wants(entry), "{other:?}");
    }
}

#[test]
fn every_file_of_the_folder_is_built_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/catalogue");
    let mut there: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| format!("profiles/catalogue/{}", file.unwrap().file_name().display()))
        .collect();
    there.sort();
    let built_in: Vec<&str> = FILES.iter().map(|(file, _)| *file).collect();
    assert_eq!(built_in, there);
}

#[test]
fn the_catalogue_has_what_it_promises() {
    let catalogue = Catalogue::built_in();
    let entries: Vec<_> = catalogue.entries().collect();
    assert!(entries.len() >= 24, "{} drives", entries.len());
    assert!(FILES.len() >= 10, "{} families", FILES.len());
    for Entry { family, drive } in entries {
        let id = &drive.id;
        let rates = [
            Rating::ReadKiops,
            Rating::WriteKiops,
            Rating::ReadMbS,
            Rating::WriteMbS,
        ];
        let known = rates.iter().filter(|rate| drive.ratings.contains_key(rate));
        assert!(known.count() >= 3, "{id}");
        let is_plain = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter)
        };
        assert!(id.chars().all(is_plain), "{id}");
        assert!(!family.name.is_empty() && !family.maker.is_empty(), "{id}");
        for source in &family.sources {
            assert_ne!(source.address, check::UNKNOWN, "{id}: {}", source.id);
        }
    }
}

/// A drive that has a profile too is the same drive: what both say of it agrees.
#[test]
fn profiles_and_catalogue_agree() {
    let catalogue = Catalogue::built_in();
    let mut compared = 0;
    for profile in models::library::all() {
        let Ok(Entry { family, drive }) = catalogue.with_id(&profile.id) else {
            continue;
        };
        assert_eq!(
            drive.capacity_gb() * 1e9,
            profile.capacity_bytes as f64,
            "{}",
            profile.id
        );
        assert_eq!(family.generation.low(), 3.0);
        compared += 1;
    }
    assert!(compared > 0, "no drive has both");
}

#[test]
fn drives_are_found_by_what_they_call_themselves() {
    let catalogue = Catalogue::built_in();
    let id = |model| {
        catalogue
            .with_model(model)
            .map(|entry| entry.drive.id.as_str())
    };
    assert_eq!(id("INTEL SSDPE2KX020T8"), Some("p4510-2tb"));
    assert_eq!(id("Samsung SSD 980 PRO 1TB"), Some("samsung-980-pro-1tb"));
    assert_eq!(id("Samsung SSD 980 1TB"), None);
    // No model is a part of another drive's.
    let all: Vec<(&str, &str)> = catalogue
        .entries()
        .flat_map(|entry| {
            entry
                .drive
                .models
                .iter()
                .map(move |model| (entry.drive.id.as_str(), model.as_str()))
        })
        .collect();
    assert!(all.len() >= 29, "{}", all.len());
    for (drive, model) in &all {
        assert_eq!(id(model), Some(*drive), "{model}");
        let parts = all.iter().filter(|(_, other)| model.contains(other));
        assert_eq!(parts.count(), 1, "{model}");
    }
}

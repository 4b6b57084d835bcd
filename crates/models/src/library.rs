//! Drives by name: an id of a drive that comes with the program, or a file of the user's.
//!
//! A name with a slash or with `.toml` is a file, which may describe several drives: `FILE#ID` is one of them. The
//! caller reads the file.

use crate::document::{Refusal, read};
use crate::nearest::nearest;
use crate::profile::{Family, Profile};
use alloc::format;
use alloc::vec::Vec;

/// The families that come with the program: file and text.
pub const FAMILIES: [(&str, &str); 9] = [
    (
        "profiles/drives/p4510.toml",
        include_str!("../../../profiles/drives/p4510.toml"),
    ),
    (
        "profiles/drives/p4800x.toml",
        include_str!("../../../profiles/drives/p4800x.toml"),
    ),
    (
        "profiles/drives/900p.toml",
        include_str!("../../../profiles/drives/900p.toml"),
    ),
    (
        "profiles/drives/optane-memory.toml",
        include_str!("../../../profiles/drives/optane-memory.toml"),
    ),
    (
        "profiles/drives/p3700.toml",
        include_str!("../../../profiles/drives/p3700.toml"),
    ),
    (
        "profiles/drives/p3608.toml",
        include_str!("../../../profiles/drives/p3608.toml"),
    ),
    (
        "profiles/drives/p3608-whole.toml",
        include_str!("../../../profiles/drives/p3608-whole.toml"),
    ),
    (
        "profiles/drives/9100max.toml",
        include_str!("../../../profiles/drives/9100max.toml"),
    ),
    (
        "profiles/drives/960pro.toml",
        include_str!("../../../profiles/drives/960pro.toml"),
    ),
];

/// Whether a drive, platform or host with this name is described by a user's file.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.contains('/') || name.contains(".toml")
}

/// The path and the id of `PATH#ID`, or the path alone.
#[must_use]
pub fn path_and_id(name: &str) -> (&str, Option<&str>) {
    match name.split_once(".toml#") {
        Some((stem, id)) => (&name[..stem.len() + ".toml".len()], Some(id)),
        None => (name, None),
    }
}

/// Every drive that comes with the program.
#[must_use]
pub fn all() -> Vec<Profile> {
    let families = FAMILIES.iter().map(|&(file, text)| {
        let family: Family = read(file, text).expect("a test reads every profile");
        (file, family)
    });
    let profiles = families.flat_map(|(file, family)| {
        let ids = family.members.iter().map(|member| member.id.as_str());
        let checked =
            ids.map(|id| checked(file, &family, id).expect("a test checks every profile"));
        checked.collect::<Vec<_>>()
    });
    profiles.collect()
}

/// The drive with this id, of those that come with the program.
///
/// # Errors
///
/// If there is none; the error names the nearest ids.
pub fn with_id(id: &str) -> Result<Profile, Refusal> {
    let mut all = all();
    match all.iter().position(|profile| profile.id == id) {
        Some(at) => Ok(all.swap_remove(at)),
        None => {
            let offered = nearest(id, all.iter().map(|profile| profile.id.as_str()));
            let rule = format!("is no drive with a profile; nearest: {offered}");
            Err(Refusal::new("profiles/drives", format!("\"{id}\""), rule))
        }
    }
}

/// The drive called `name` (`PATH`, or `PATH#ID`). `text` describes its family.
///
/// # Errors
///
/// If the text is not a family, has a number that no drive can have, or does not say which drive is meant.
pub fn in_file(name: &str, text: &str) -> Result<Profile, Refusal> {
    let (file, id) = path_and_id(name);
    let family: Family = read(file, text)?;
    let ids: Vec<&str> = family
        .members
        .iter()
        .map(|member| member.id.as_str())
        .collect();
    let id = ids[which(file, "member", id, &ids)?];
    checked(file, &family, id)
}

/// The place of the drive that is meant among the `ids` of a file's list `key`: the one called `id`, or the only one.
///
/// # Errors
///
/// If there is no such drive, or several and no id.
pub fn which(file: &str, key: &str, id: Option<&str>, ids: &[&str]) -> Result<usize, Refusal> {
    match (id, ids) {
        (Some(id), _) => ids.iter().position(|known| *known == id).ok_or_else(|| {
            let rule = format!(
                "has no \"{id}\"; nearest: {}",
                nearest(id, ids.iter().copied())
            );
            Refusal::new(file, key, rule)
        }),
        (None, [_]) => Ok(0),
        (None, several) => {
            let rule = format!(
                "describes {} drives: name one, like \"{file}#{}\"",
                several.len(),
                several.first().unwrap_or(&"ID")
            );
            Err(Refusal::new(file, key, rule))
        }
    }
}

fn checked(file: &str, family: &Family, id: &str) -> Result<Profile, Refusal> {
    let profile = family.member(id);
    profile.map_err(|error| Refusal::new(file, format!("{}.{}", error.name, error.key), error.rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_that_come_with_the_program_are_known_by_id() {
        let all = all();
        assert!(all.len() >= 4, "{} drives", all.len());
        for profile in &all {
            assert_eq!(with_id(&profile.id).as_ref(), Ok(profile));
            assert!(!is_file(&profile.id));
        }
        assert_eq!(
            with_id("p4510-3tb").unwrap_err().to_string(),
            "profiles/drives: \"p4510-3tb\" is no drive with a profile; nearest: \"p4510-1tb\", \
             \"p4510-2tb\" or \"p4510-4tb\""
        );
    }

    #[test]
    fn a_file_says_which_of_its_drives_is_meant() {
        let (_, text) = FAMILIES[0];
        let found = in_file("mine/p4510.toml#p4510-4tb", text).expect("it is there");
        assert_eq!(Ok(found), with_id("p4510-4tb"));
        for (name, text, expected) in [
            (
                "a.toml",
                text,
                "a.toml: member describes 4 drives: name one, like \"a.toml#p4510-1tb\"",
            ),
            (
                "a.toml#p4510-9tb",
                text,
                "a.toml: member has no \"p4510-9tb\"; nearest: \"p4510-1tb\", ",
            ),
            ("a.toml", "schema = 1", "a.toml: family is missing"),
        ] {
            let refusal = in_file(name, text).expect_err(name).to_string();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
        assert!(is_file("./a") && is_file("a.toml#b"));
    }
}

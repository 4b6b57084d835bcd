//! Parses the name of a new volume, and detects that it was left out, so that the first drive stands in its place.

use anyhow::{Result, bail};
use metadata::imsm::VolumeName;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use words::quoted_for_shell;

/// Usual extensions of files that hold a drive's content.
const IMAGE_EXTENSIONS: [&str; 8] = ["img", "raw", "bin", "qcow2", "vmdk", "vdi", "iso", "disk"];
/// Prefixes of members without a path.
const SCHEMES: [&str; 2] = ["ram:", "null:"];
/// Prefixes of Linux's block device names that are followed by a number.
const NUMBERED_DEVICES: [&str; 6] = ["nvme", "loop", "mmcblk", "nbd", "pmem", "dm-"];
/// Prefixes that are followed by letters: sda, vdb1, xvdc.
const LETTERED_DEVICES: [&str; 4] = ["sd", "hd", "vd", "xvd"];

/// The name `text`, if it cannot be a drive; the error shows the command line `words` as it should have been typed.
///
/// # Errors
/// The text is a drive, looks like one, or has characters that a name must not have.
pub(super) fn parse(text: &str, words: &[String]) -> Result<VolumeName> {
    if let Some(what) = drive_in(text) {
        bail!(
            "\"{text}\" {what}, and the volume's name comes first: {}",
            with_name(words)
        );
    }
    let Some(name) = VolumeName::new(text) else {
        bail!(
            "\"{text}\" cannot be a volume's name: use 1 to 16 letters, digits, dots, underscores or \
             hyphens, and no dot or hyphen first"
        );
    };
    Ok(name)
}

/// Which kind of drive `text` names.
fn drive_in(text: &str) -> Option<&'static str> {
    let is_drive = |kind: FileType| kind.is_file() || kind.is_block_device();
    if std::fs::metadata(text).is_ok_and(|found| is_drive(found.file_type())) {
        return Some("is a drive's path");
    }
    let has_scheme = SCHEMES.iter().any(|scheme| text.starts_with(scheme));
    let has_option = text.contains(',') && text.contains('=');
    if has_scheme || has_option {
        return Some("describes a drive");
    }
    let extension = Path::new(text).extension().unwrap_or_default();
    let mut images = IMAGE_EXTENSIONS.iter();
    if text.contains('/') || images.any(|known| extension.eq_ignore_ascii_case(known)) {
        return Some("looks like a drive's path");
    }
    is_device(text).then_some("is a device's name")
}

/// Whether this may be Linux's name of a block device.
fn is_device(text: &str) -> bool {
    let is_numbered = |rest: &str| {
        let of_partition = |one: char| one.is_ascii_digit() || matches!(one, 'n' | 'p' | 'c');
        rest.starts_with(|first: char| first.is_ascii_digit()) && rest.chars().all(of_partition)
    };
    let is_lettered = |rest: &str| {
        let letters = rest.trim_end_matches(|one: char| one.is_ascii_digit());
        // At most two letters: no machine has enough disks for three, and ordinary words begin like that.
        (1..=2).contains(&letters.len()) && letters.bytes().all(|one| one.is_ascii_lowercase())
    };
    let rest_of = |beginning: &&str| text.strip_prefix(*beginning);
    NUMBERED_DEVICES.iter().filter_map(rest_of).any(is_numbered)
        || LETTERED_DEVICES.iter().filter_map(rest_of).any(is_lettered)
}

/// The command line `words` with a placeholder for the name after `create`, quoted for a shell.
fn with_name(words: &[String]) -> String {
    let rest = words.iter().skip(2).map(|word| quoted_for_shell(word));
    let line: Vec<String> = ["fullstripe", "create", "NAME"]
        .map(str::to_owned)
        .into_iter()
        .chain(rest)
        .collect();
    line.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(text, &words).unwrap_err().to_string()
    }

    #[test]
    fn what_looks_like_a_drive_is_no_name() {
        for (text, what) in [
            ("a.img", "looks like a drive's path"),
            ("DISK.QCOW2", "looks like a drive's path"),
            ("/dev/nvme9n9", "looks like a drive's path"),
            ("images/a", "looks like a drive's path"),
            ("ram:1g", "describes a drive"),
            ("null:1g", "describes a drive"),
            ("a,serial=S", "describes a drive"),
            ("nvme0n1", "is a device's name"),
            ("nvme0n1p2", "is a device's name"),
            ("sda", "is a device's name"),
            ("sdab12", "is a device's name"),
            ("xvdc", "is a device's name"),
            ("loop0", "is a device's name"),
            ("dm-3", "is a device's name"),
        ] {
            let line = format!("/opt/fullstripe create --level 1 {text} b.img");
            let wanted = format!(
                "\"{text}\" {what}, and the volume's name comes first: fullstripe create NAME \
                 --level 1 {text} b.img"
            );
            assert_eq!(said(text, &line), wanted);
        }
    }

    #[test]
    fn a_file_is_no_name_and_a_folder_may_be_one() {
        let file = std::env::current_exe().unwrap();
        let text = file.to_str().unwrap();
        assert!(said(text, "x create").contains("is a drive's path"));
        // Tests run in the crate's folder, where this file exists.
        assert!(said("Cargo.toml", "x create").contains("is a drive's path"));
        assert!(parse("src", &[]).is_ok());
    }

    #[test]
    fn names_that_only_begin_like_devices_are_names() {
        for text in [
            "data",
            "vol",
            "v1.2",
            "sd",
            "sdcards",
            "vdisks",
            "nvme",
            "nvme-pool",
            "loop",
            "md0",
            "loops",
            "hdd-pool",
            "backup.2024",
            "nbd",
        ] {
            assert!(parse(text, &[]).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_line_to_type_is_quoted_for_the_shell() {
        let words = ["x", "create", "my disk.img", "it's.img", "--level", "1"].map(str::to_owned);
        let error = parse("my disk.img", &words).unwrap_err().to_string();
        let line = "fullstripe create NAME 'my disk.img' 'it'\\''s.img' --level 1";
        assert!(error.ends_with(line), "{error}");
        assert!(said("a b", "x create a").contains("cannot be a volume's name"));
    }
}

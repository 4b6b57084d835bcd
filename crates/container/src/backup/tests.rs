//! A backup can be read back unchanged, and any damage is detected.

use super::*;

fn sample() -> Backup {
    let mut backup = Backup::new("test");
    let content = vec![vec![1u8; 700], vec![2u8; 5]];
    let area = |(at, bytes): (usize, &Vec<u8>)| Area {
        offset_bytes: at as u64 * 4096,
        length_bytes: bytes.len() as u64,
        crc32c: crc32c(bytes),
    };
    backup.header.drives.push(DriveCopy {
        name: "d0.img".to_owned(),
        serial: "D0".to_owned(),
        size_bytes: 1 << 30,
        sector_bytes: 512,
        areas: content.iter().enumerate().map(area).collect(),
    });
    backup.content.push(content);
    backup
}

#[test]
fn a_backup_comes_back_as_it_was() {
    let backup = sample();
    assert_eq!(Backup::from_bytes(&backup.to_bytes()), Ok(backup));
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let whole = sample().to_bytes();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x04;
        assert!(Backup::from_bytes(&damaged).is_err(), "byte {at}");
        assert!(Backup::from_bytes(&whole[..at]).is_err(), "cut at {at}");
    }
    let mut longer = whole;
    longer.push(0);
    assert!(Backup::from_bytes(&longer).is_err());
}

#[test]
fn other_files_and_newer_versions_are_named() {
    let error = |bytes: &[u8]| Backup::from_bytes(bytes).unwrap_err();
    assert!(error(b"").contains("no metadata backup"));
    assert!(error(b"hello\n").contains("no metadata backup"));
    assert!(error(b"fullstripe-backup 2 00000000 2\n{}\n").contains("version 2"));
    assert!(error(b"fullstripe-backup 1 00000000 99999999999\n").contains("damaged"));
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.backup");
    sample().write_new(&path).unwrap();
    assert_eq!(Backup::read(&path).unwrap(), sample());
    let error = sample().write_new(&path).unwrap_err();
    assert!(format!("{error:#}").contains("one.backup"), "{error:#}");
}

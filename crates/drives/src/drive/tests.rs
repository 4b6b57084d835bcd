use super::*;
use crate::holders::holders;
use crate::spec::MemberSpec;
use engine::policy::ErrorClass;
use std::io::Write;
use std::path::{Path, PathBuf};

mod direct;
mod durable;
pub(crate) mod special;

fn image(folder: &Path, name: &str, size_bytes: u64) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path)
        .unwrap()
        .set_len(size_bytes)
        .unwrap();
    path
}

fn spec(text: impl AsRef<Path>) -> MemberSpec {
    text.as_ref().to_str().unwrap().parse().unwrap()
}

fn open(text: impl AsRef<Path>) -> Drive {
    Drive::open(&spec(text), Access::Exclusive).unwrap()
}

fn refused(text: impl AsRef<Path>) -> String {
    Drive::open(&spec(text), Access::Exclusive)
        .unwrap_err()
        .to_string()
}

/// Bytes that differ by position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
}

fn check_blocking_io(drive: &Drive) {
    let size = drive.size_bytes();
    for (offset, length) in [
        (0, 512),
        (3, 10),
        (511, 2),
        (4096, 10_000),
        (size - 100, 100),
    ] {
        let before = drive.read_at(0, size as usize).unwrap();
        let bytes = pattern(length);
        drive.write_at(offset, &bytes).unwrap();
        assert_eq!(drive.read_at(offset, length).unwrap(), bytes);
        let mut wanted = before;
        wanted[offset as usize..][..length].copy_from_slice(&bytes);
        assert!(
            drive.read_at(0, size as usize).unwrap() == wanted,
            "neighbours changed"
        );
    }
    drive.flush().unwrap();
    let error = drive.read_at(size - 1, 2).unwrap_err();
    assert_eq!(error.error.class, ErrorClass::Misuse);
    assert!(error.to_string().contains(drive.name()), "{error}");
    assert!(drive.write_at(u64::MAX, b"x").is_err());
    drive.is_alive().unwrap();
}

#[test]
fn files_read_back_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for (name, sector) in [("a.img", 512), ("b.img", 4096)] {
        let path = image(folder.path(), name, 1 << 20);
        let drive = open(format!("{},sector={sector}", path.display()));
        assert_eq!(
            (drive.size_bytes(), drive.sector_bytes()),
            (1 << 20, sector)
        );
        assert!(drive.volatile_cache());
        assert_eq!(drive.serial(), name);
        println!("direct I/O on the temporary folder: {}", drive.direct());
        check_blocking_io(&drive);
    }
}

#[test]
fn ram_reads_back_and_null_forgets() {
    let ram = open("ram:1m,serial=R1");
    check_blocking_io(&ram);
    assert_eq!(ram.serial(), "R1");
    assert!(ram.name().starts_with("RAM"));
    assert!(!ram.volatile_cache());
    let null = open("null:1m");
    null.write_at(0, b"gone").unwrap();
    assert_eq!(null.read_at(0, 4).unwrap(), [0; 4]);
    assert!(null.serial().starts_with("NULL"));
    assert_ne!(open("ram:4k").serial(), open("ram:4k").serial());
}

#[test]
fn a_file_in_memory_works_with_or_without_direct_io() {
    // tmpfs refuses O_DIRECT on kernels before 6.6.
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    let drive = open(image(folder.path(), "shm.img", 1 << 20));
    assert_eq!(drive.notes().is_empty(), drive.direct());
    check_blocking_io(&drive);
}

#[test]
fn exclusive_means_once_and_looking_is_always_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let first = open(&path);
    let message = refused(&path);
    assert!(
        message.contains("is in use by another process"),
        "{message}"
    );
    let looker = Drive::open(&spec(&path), Access::ReadOnly).unwrap();
    assert_eq!(looker.read_at(0, 16).unwrap(), [0; 16]);
    assert!(looker.write_at(0, b"x").is_err());
    drop(first);
    open(&path);
}

/// A process briefly has a copy of the descriptor when another of its threads starts a program: from fork to exec.
#[test]
fn a_lock_that_is_let_go_in_a_moment_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let inherited = open(&path).fd().unwrap().try_clone_to_owned().unwrap();
    let child = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(inherited);
    });
    open(&path);
    child.join().unwrap();
}

#[test]
fn what_is_only_read_is_held_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let reader = Drive::open(&spec(&path), Access::ExclusiveReadOnly).unwrap();
    let fd = reader.fd().unwrap();
    let mode = rustix::fs::fcntl_getfl(fd).unwrap() & rustix::fs::OFlags::RWMODE;
    assert_eq!(mode, rustix::fs::OFlags::RDONLY);
    assert_eq!(reader.read_at(0, 16).unwrap(), [0; 16]);
    assert!(reader.write_at(0, b"x").is_err());
    for access in [Access::Exclusive, Access::ExclusiveReadOnly] {
        let error = Drive::open(&spec(&path), access).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    }
    drop(reader);
    let _writer = open(&path);
    assert!(Drive::open(&spec(&path), Access::ExclusiveReadOnly).is_err());
}

#[test]
fn a_shrunken_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let drive = open(&path);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 19)
        .unwrap();
    assert_eq!(drive.is_alive().unwrap_err().class, ErrorClass::Gone);
    let error = drive.read_at(1 << 19, 512).unwrap_err();
    assert_eq!(error.error.class, ErrorClass::Gone);
    assert!(
        error
            .to_string()
            .contains("cannot read 512 bytes at byte 524288"),
        "{error}"
    );
}

#[test]
fn a_file_that_nothing_names_any_more_is_deleted_and_alive() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let drive = open(&path);
    let other = folder.path().join("d1.img");
    assert!(!drive.is_deleted());
    std::fs::rename(&path, &other).unwrap();
    std::fs::hard_link(&other, &path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(!drive.is_deleted());
    // Another file takes its name.
    std::fs::rename(image(folder.path(), "new.img", 1 << 20), &other).unwrap();
    assert!(drive.is_deleted());
    check_blocking_io(&drive);
    assert!(!open("ram:1m").is_deleted());
}

#[test]
fn what_cannot_be_a_member_is_said_plainly() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::File::create(&small)
        .unwrap()
        .write_all(&[0; 511])
        .unwrap();
    for (text, wanted) in [
        (folder.path().join("none"), "does not exist"),
        (
            folder.path().to_owned(),
            "is a folder; a member is a block device or a regular file",
        ),
        (PathBuf::from("/dev/null"), "is a character device"),
        (small, "has 0 bytes in sectors of 512"),
        (PathBuf::from("ram:8191999t"), "cannot map"),
    ] {
        let message = refused(&text);
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn odd_sizes_are_rounded_down_to_sectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "odd.img", 10_000);
    assert_eq!(open(&path).size_bytes(), 9728);
    assert_eq!(
        open(format!("{},sector=4096", path.display())).size_bytes(),
        8192
    );
}

#[test]
fn serials_follow_the_rules_of_the_metadata() {
    assert_eq!(serial_from("PHN1234:56789ABCDEF0"), "234;56789ABCDEF0");
    assert_eq!(serial_from("  S3 EV NX0J  "), "S3EVNX0J");
    assert_eq!(serial_from("café.img"), "caf.img");
    assert_eq!(serial_from("  "), "UNNAMED");
    let drive = open("ram:4k").with_serial("KEPT");
    assert_eq!(drive.serial(), "KEPT");
}

#[test]
fn links_stand_for_what_they_point_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d7.img", 1 << 20);
    let link = folder.path().join("by-name");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(open(&link).serial(), "d7.img");
}

/// A loop device over a file, removed again when dropped.
pub(crate) struct Loop(pub String);

impl Loop {
    pub fn over(path: &Path) -> Option<Loop> {
        Loop::with(path, &[])
    }

    /// With more options of losetup.
    pub fn with(path: &Path, options: &[&str]) -> Option<Loop> {
        let output = std::process::Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(path)
            .output();
        let name = String::from_utf8(output.ok().filter(|o| o.status.success())?.stdout).ok()?;
        Some(Loop(name.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup")
            .args(["--detach", &self.0])
            .status();
    }
}

#[test]
fn loop_devices_are_block_devices() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "loop-d3.img", 1 << 20);
    let Some(device) = Loop::over(&path) else {
        println!("skipped: no loop device available (not root, or no losetup)");
        return;
    };
    let drive = open(&device.0);
    assert_eq!(drive.size_bytes(), 1 << 20);
    assert!(drive.direct() && drive.block_device().is_some());
    assert_eq!(drive.serial(), "loop-d3.img");
    let flags = rustix::fs::fcntl_getfl(drive.fd().unwrap()).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::DIRECT));
    assert_eq!(drive.volatile_cache(), drive.volatile_cache_now());
    check_blocking_io(&drive);
    let message = refused(&device.0);
    assert!(message.contains("is in use by"), "{message}");
    let message = refused(format!("{},sector=4096", device.0));
    assert!(
        message.contains("in use") || message.contains("sectors of 512"),
        "{message}"
    );
    let users = holders(&path);
    assert_eq!(users, [format!("loop device {}", device.0)]);
    drop(drive);
    let message = refused(format!("{},sector=4096", device.0));
    assert!(
        message.contains("has sectors of 512 bytes; leave out sector="),
        "{message}"
    );
}

#[test]
fn what_cannot_be_modelled_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.toml").display().to_string();
    let broken = folder.path().join("broken.toml").display().to_string();
    std::fs::write(&broken, "schema = 1\n").unwrap();
    for (text, wanted) in [
        (
            "null:9t,model=p4510-8tb,serial=A".to_owned(),
            "has 9895604649984 bytes, and a p4510-8tb has 8000000000000: name a smaller member"
                .to_owned(),
        ),
        (
            format!("null:1m,model={none}"),
            format!("cannot be modelled: cannot read the profile {none}: No such file"),
        ),
        (
            format!("null:1m,model={broken}"),
            format!("cannot be modelled: {broken}: family is missing"),
        ),
    ] {
        let message = refused(&text);
        assert!(
            message.starts_with("NULL") && message.contains(&wanted),
            "{message}"
        );
        assert!(!message.ends_with('.'), "{message}");
    }
}

#[test]
fn a_profile_of_the_users_will_do() {
    let text = include_str!("../../../../profiles/drives/p4510.toml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).unwrap();
    let drive = open(format!("ram:1m,model={}#p4510-4tb", path.display()));
    check_blocking_io(&drive);
    assert!(refused(format!("ram:1m,model={}", path.display())).contains("name one, like"));
}

/// The file may have been cut: the kernel carries out a write beyond its end like any other.
#[test]
fn the_answers_of_a_file_without_helpers_are_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(image(folder.path(), "d0.img", 1 << 20));
    assert!(file.helpers().is_none() && file.is_guarded());
    let looked_at = open(image(folder.path(), "d1.img", 1 << 20)).with_io_path(IoPath::Helpers);
    assert!(looked_at.helpers().is_some() && !looked_at.is_guarded());
    assert!(!open("ram:4k").is_guarded());
}

#[test]
fn the_cache_below_a_file_stays_volatile() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(image(folder.path(), "d0.img", 1 << 20));
    assert!(file.volatile_cache() && file.volatile_cache_now());
    let ram = open("ram:4k");
    assert_eq!(ram.volatile_cache_now(), ram.volatile_cache());
}

use super::*;

#[test]
fn a_block_device_is_claimed_for_service_and_used_past_the_page_cache() {
    for (access, mode, is_claimed) in [
        (Access::Exclusive, OFlags::RDWR, true),
        (Access::ExclusiveReadOnly, OFlags::RDONLY, true),
        (Access::ReadOnly, OFlags::RDONLY, false),
    ] {
        let flags = device_mode_of(access);
        assert_eq!(flags & OFlags::RWMODE, mode, "{access:?}");
        assert_eq!(flags.contains(OFlags::EXCL), is_claimed, "{access:?}");
        assert!(
            flags.contains(OFlags::DIRECT | OFlags::CLOEXEC),
            "{access:?}"
        );
    }
}

#[test]
fn a_file_is_never_to_be_made_among_the_devices() {
    let said = |path: &str| {
        let error = Drive::open(&path.parse().unwrap(), Access::ReadOnly).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        said("/dev/nvme99n1"),
        "/dev/nvme99n1 does not exist; `ls /dev/disk/by-id` shows the drives that are there, and \
         `fullstripe list` those with arrays"
    );
    assert_eq!(
        said("no-such.img"),
        "no-such.img does not exist; name a block device or an existing file (truncate -s 1G \
         no-such.img makes one)"
    );
}

#[test]
fn a_local_file_in_the_page_cache_has_helpers_for_its_flushes() {
    let through = |io_path| [true, false].map(|direct| io_path_through(io_path, direct));
    assert_eq!(through(IoPath::Ring), [IoPath::Ring, IoPath::Helpers]);
    assert_eq!(through(IoPath::Inline), [IoPath::Inline; 2]);
    assert_eq!(through(IoPath::Helpers), [IoPath::Helpers; 2]);
}

#[test]
fn a_file_that_needs_helpers_has_them_once_it_is_held() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let spec = file.path().to_str().unwrap().parse().unwrap();
    for (io_path, has) in [(IoPath::Ring, false), (IoPath::Helpers, true)] {
        let mut drive = Drive::open(&spec, Access::ReadOnly).unwrap();
        let Backing::File(fd) = &drive.backing else {
            panic!("the member is a file");
        };
        let fd = fd.clone();
        drive.io_path = io_path;
        drive.hold(&fd, Some("FUSE")).unwrap();
        assert_eq!(drive.helpers().is_some(), has);
        let noted = drive.notes.iter().any(|note| note.contains("FUSE"));
        assert_eq!(noted, has);
    }
}

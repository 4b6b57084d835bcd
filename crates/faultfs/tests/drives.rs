//! How `drives` handles answers that an ordinary file system does not give on request.
//!
//! Like the tests of the kernel, these need root and /dev/fuse, and fail with a sentence without them.

use drives::drive::{Access, Drive};
use faultfs::{Fault, FaultFs, Operation, Options};

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

/// The kernel reports lost data only once, and an interrupted flush may have been that report: a second fdatasync would
/// succeed although data are lost.
#[test]
fn a_flush_that_a_signal_interrupts_has_failed_and_is_not_repeated() {
    for (access, errno) in [
        (Access::Exclusive, EINTR),
        (Access::Exclusive, EAGAIN),
        (Access::ReadOnly, EINTR),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("files");
        let fs = FaultFs::mount(&place, &[("d0", 1 << 20)], Options::default());
        let fs = fs.unwrap_or_else(|error| panic!("{error}"));
        let spec = fs.path(0).to_str().expect("a name").parse();
        let drive = Drive::open(&spec.expect("a member"), access).expect("the drive opens");
        if access == Access::Exclusive {
            drive
                .write_at(4096, &[5; 4096])
                .expect("the drive takes the write");
        }
        fs.inject(Fault {
            loses: true,
            ..Fault::once(0, Operation::Sync, errno)
        });
        let told = drive.flush().map_err(|error| error.error.errno);
        assert_eq!(told, Err(errno), "{access:?}");
        let mut asked = fs.journal();
        asked.retain(|entry| entry.operation == Operation::Sync);
        assert_eq!(asked.len(), 1, "{access:?}");
        // The file system can be unmounted once the file is closed.
        drop(drive);
        drop(fs);
    }
}

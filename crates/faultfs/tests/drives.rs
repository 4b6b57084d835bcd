//! What `drives` makes of a file system's answers that no ordinary one gives when it is asked to.
//!
//! As the tests of the kernel, these need root and /dev/fuse, and fail with a sentence without.

use drives::drive::{Access, Drive};
use faultfs::{Fault, FaultFs, Operation, Options};

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

/// The kernel tells once that data were lost, and a signal is no reason to believe that nothing was: a second fdatasync
/// would say that all is well.
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
        let drive = Drive::open(&spec.expect("a member"), access).expect("it opens");
        if access == Access::Exclusive {
            drive.write_at(4096, &[5; 4096]).expect("it is written");
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
        // Unmounted when nobody holds it.
        drop(drive);
        drop(fs);
    }
}

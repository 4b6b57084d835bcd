//! Loop devices and mounts. They need root; a test that needs them and is not root prints that it is skipped.

use super::process::{Guarded, run, tool};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Whether this process may make loop devices and mount. If not, prints that the test is skipped.
pub fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: skipped, it needs root for loop devices and mounts");
    }
    root
}

/// Whether this process may present files by FUSE. If not, prints that the test is skipped.
pub fn has_fuse(test: &str) -> bool {
    let fuse = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if let Err(error) = &fuse {
        println!("{test}: skipped, it needs /dev/fuse: {error}");
    }
    fuse.is_ok()
}

/// A loop device over a file.
pub struct Loop {
    device: PathBuf,
}

impl Loop {
    /// Sets up a loop device over `file`, with its partitions.
    #[track_caller]
    pub fn over(file: &Path, options: &[&str]) -> Loop {
        let mut command = tool("losetup");
        command.args(["--find", "--show"]).args(options).arg(file);
        let said = run(&mut command, 20).ok();
        Loop {
            device: PathBuf::from(said.out.trim()),
        }
    }

    /// The device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Detaches the device, although a process may still have it open.
    pub fn detach(&self) {
        run(tool("losetup").arg("--detach").arg(&self.device), 20);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.detach();
    }
}

/// A mounted file system.
pub struct Mount {
    place: PathBuf,
}

impl Mount {
    /// Makes the folder `place` and mounts there with `options`, which include the device.
    #[track_caller]
    pub fn new(options: &[&str], place: &Path) -> Mount {
        std::fs::create_dir_all(place).expect("a folder to mount at");
        run(tool("mount").args(options).arg(place), 30).ok();
        Mount {
            place: place.to_owned(),
        }
    }

    /// Where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Unmounts it.
    #[track_caller]
    pub fn end(self) {
        run(tool("umount").arg(&self.place), 60).ok();
        std::mem::forget(self);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run(tool("umount").arg("--lazy").arg(&self.place), 30);
    }
}

/// A volume that nbdfuse presents as a file.
pub struct Fuse {
    process: Guarded,
    file: PathBuf,
}

impl Fuse {
    /// Presents the export of the NBD server at `uri` as the file `disk` in the folder `place`.
    #[track_caller]
    pub fn new(uri: &str, place: &Path) -> Fuse {
        std::fs::create_dir_all(place).expect("a folder for the file");
        let file = place.join("disk");
        std::fs::write(&file, []).expect("a file to mount over");
        // If the server is killed, nbdfuse aborts and prints messages that do not matter to the test.
        let mut command = tool("nbdfuse");
        command
            .arg(&file)
            .arg(uri)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Guarded::start(&mut command);
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::fs::metadata(&file).map_or(0, |found| found.len()) == 0 {
            assert!(
                process.runs() && Instant::now() < deadline,
                "nbdfuse does not serve {uri}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Fuse { process, file }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Stops nbdfuse until the returned value is dropped. Processes that wait for the file cannot end
    /// before that, so drop the value before waiting for their end.
    pub fn freeze(&self) -> Frozen<'_> {
        self.process.signal(Signal::STOP);
        // If one of its threads still took a request, the process that waits for the answer could not be killed.
        self.process.wait_stopped();
        Frozen(&self.process)
    }

    /// Unmounts it and waits until everything is written.
    #[track_caller]
    pub fn end(mut self) {
        run(tool("fusermount3").arg("-u").arg(&self.file), 30).ok();
        self.process.wait(Duration::from_secs(30));
    }
}

/// See [`Fuse::freeze`].
pub struct Frozen<'a>(&'a Guarded);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // The mount remains even if nbdfuse itself has died. After an orderly end this fails, which is ignored.
        run(tool("fusermount3").args(["-u", "-z"]).arg(&self.file), 30);
    }
}

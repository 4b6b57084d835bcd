//! A drive whose faults the test switches on and off: a small NBD server over a file, presented as a
//! file by nbdfuse. Members that are files behave like it, except for the faults.

use super::bed::Bed;
use super::machine::{Frozen, Fuse, Loop};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// What is wrong with the drive.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    /// Bytes that cannot be read until they are written, as on a drive that remaps bad sectors.
    pub unreadable: Vec<Range<u64>>,
    /// Bytes that cannot be written.
    pub unwritable: Vec<Range<u64>>,
    /// Flushes fail.
    pub no_flush: bool,
    /// The drive answers nothing as long as this is set.
    pub hung: bool,
    /// Writes beyond this many bytes from the start fail for lack of space.
    pub room_bytes: Option<u64>,
}

struct Shared {
    faults: Mutex<Faults>,
    changed: Condvar,
}

/// A drive with faults, presented as a file by nbdfuse.
pub struct FaultyDrive {
    shared: Arc<Shared>,
    fuse: Option<Fuse>,
    file: PathBuf,
}

const EIO: u32 = 5;
const ENOSPC: u32 = 28;

impl FaultyDrive {
    /// A drive over the file `backing`, presented in the new folder `place`.
    #[track_caller]
    pub fn new(backing: &Path, place: &Path) -> FaultyDrive {
        std::fs::create_dir_all(place).expect("a folder for the drive");
        let socket = place.join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(backing)
            .expect("the backing file opens");
        let shared = Arc::new(Shared {
            faults: Mutex::default(),
            changed: Condvar::new(),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            // nbdfuse connects once, and reconnects only if its own options say so.
            for stream in listener.incoming().flatten() {
                let (serving, file) = (serving.clone(), file.try_clone());
                let Ok(file) = file else { return };
                std::thread::spawn(move || serve(stream, &file, &serving));
            }
        });
        let fuse = Fuse::new(&format!("nbd+unix:///?socket={}", socket.display()), place);
        let file = fuse.file().to_owned();
        FaultyDrive {
            shared,
            fuse: Some(fuse),
            file,
        }
    }

    /// The drive as a file.
    pub fn path(&self) -> PathBuf {
        self.file.clone()
    }

    /// Changes the faults.
    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.shared.faults.lock().expect("no holder panics"));
        self.shared.changed.notify_all();
    }

    /// Stops nbdfuse, so that no request for the file is answered, not even one for its size.
    pub fn freeze(&self) -> Frozen<'_> {
        self.fuse.as_ref().expect("it is mounted").freeze()
    }

    /// The present faults.
    pub fn faults(&self) -> Faults {
        self.shared.faults.lock().expect("no holder panics").clone()
    }
}

impl Drop for FaultyDrive {
    fn drop(&mut self) {
        // A process that waits in the kernel for an answer cannot end before the answer arrives.
        self.set(|faults| *faults = Faults::default());
        drop(self.fuse.take());
    }
}

impl Shared {
    /// Waits while the drive hangs, then returns the error number of a fault that the request meets, or 0.
    fn fault(&self, command: u16, range: &Range<u64>) -> u32 {
        let mut faults = self.faults.lock().expect("no holder panics");
        while faults.hung {
            faults = self.changed.wait(faults).expect("no holder panics");
        }
        let meets = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
        match command {
            0 if faults.unreadable.iter().any(meets) => EIO,
            1 if faults.unwritable.iter().any(meets) => EIO,
            1 if faults.room_bytes.is_some_and(|room| range.end > room) => ENOSPC,
            1 => {
                let healed = |bad: &Range<u64>| range.start <= bad.start && bad.end <= range.end;
                faults.unreadable.retain(|bad| !healed(bad));
                0
            }
            3 if faults.no_flush => EIO,
            _ => 0,
        }
    }
}

/// Serves one connection until it ends. The end of the connection is not an error.
fn serve(mut stream: UnixStream, file: &File, shared: &Shared) {
    let _ = negotiate(&mut stream, file).and_then(|()| transmit(&mut stream, file, shared));
}

fn negotiate(stream: &mut UnixStream, file: &File) -> io::Result<()> {
    let size_bytes = file.metadata()?.len();
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    stream.read_exact(&mut [0; 4])?;
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let option = u32::from_be_bytes(header[8..12].try_into().expect("4"));
        let length = u32::from_be_bytes(header[12..].try_into().expect("4"));
        io::copy(&mut stream.take(u64::from(length)), &mut io::sink())?;
        let mut reply = |kind: u32, data: &[u8]| {
            let mut bytes = 0x0003_E889_0455_65A9_u64.to_be_bytes().to_vec();
            bytes.extend(option.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend((data.len() as u32).to_be_bytes());
            bytes.extend(data);
            stream.write_all(&bytes)
        };
        const GO: u32 = 7;
        const ACK: u32 = 1;
        const INFO: u32 = 3;
        const UNSUPPORTED: u32 = (1 << 31) | 1;
        if option != GO {
            reply(UNSUPPORTED, &[])?;
            continue;
        }
        let mut export = vec![0, 0];
        export.extend(size_bytes.to_be_bytes());
        // Has flags, and flush.
        export.extend(5u16.to_be_bytes());
        reply(INFO, &export)?;
        return reply(ACK, &[]);
    }
}

fn transmit(stream: &mut UnixStream, file: &File, shared: &Shared) -> io::Result<()> {
    loop {
        let mut header = [0; 28];
        stream.read_exact(&mut header)?;
        let command = u16::from_be_bytes(header[6..8].try_into().expect("2"));
        let offset = u64::from_be_bytes(header[16..24].try_into().expect("8"));
        let length = u32::from_be_bytes(header[24..].try_into().expect("4"));
        let mut data = vec![0; if command < 2 { length as usize } else { 0 }];
        if command == 1 {
            stream.read_exact(&mut data)?;
        }
        if command == 2 {
            return Ok(());
        }
        let error = shared.fault(command, &(offset..offset + u64::from(length)));
        if error == 0 {
            match command {
                0 => file.read_exact_at(&mut data, offset)?,
                1 => file.write_all_at(&data, offset)?,
                _ => {}
            }
        }
        let mut reply = 0x6744_6698_u32.to_be_bytes().to_vec();
        reply.extend(error.to_be_bytes());
        reply.extend(&header[8..16]);
        if command == 0 && error == 0 {
            reply.extend(&data);
        }
        stream.write_all(&reply)?;
    }
}

/// A bed in which drive `at` can be made to fail.
pub fn with_faulty(count: usize, at: usize, size_bytes: u64) -> (Bed, FaultyDrive) {
    let mut bed = Bed::new(count, size_bytes);
    let drive = FaultyDrive::new(bed.drive(at), &bed.path(&format!("faulty{at}")));
    bed.replace_drive(at, drive.path());
    (bed, drive)
}

/// All drives as the command line takes them, each with a serial, because files with the same name would have the same.
pub fn specs(bed: &Bed, count: usize) -> Vec<PathBuf> {
    let spec = |at: usize| PathBuf::from(format!("{},serial=D{at}", bed.drive(at).display()));
    (0..count).map(spec).collect()
}

/// Three drives, the second of which is a block device that can be made to fail.
pub fn with_faulty_device() -> (Bed, FaultyDrive, Loop) {
    let mut bed = Bed::new(3, 48 * super::MIB);
    let faulty = FaultyDrive::new(bed.drive(1), &bed.path("faulty"));
    let device = Loop::over(&faulty.path(), &["--direct-io=on"]);
    bed.replace_drive(1, device.device().to_owned());
    (bed, faulty, device)
}

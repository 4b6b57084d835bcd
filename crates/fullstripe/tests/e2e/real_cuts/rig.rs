//! Drives whose power can be cut, and an array on them.

use crate::common::{Bed, Loop, Server};
use faultfs::{FaultFs, Loss, Options};
use repeatable::random::Stream;
use std::path::PathBuf;
use std::time::Duration;

/// Space for a few MiB of data beside what IMSM reserves.
pub const DRIVE_BYTES: u64 = 10 << 20;
/// The journal keeps the content of writes so near the end of a drive: to the record, its shadow and the notes.
pub const KEPT_BYTES: u64 = 2352 * 512;
/// How long a killed process may need until its last I/O in the kernel ends and it closes the drives.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file on FUSE, whose I/O is done by helper threads.
    File,
    /// A loop device on such a file, with sectors of so many bytes; its I/O is done by io_uring.
    Loop(u32),
}

/// The shape of an array.
#[derive(Clone, Debug)]
pub struct Shape {
    pub level: u8,
    pub write_hole: &'static str,
    pub kind: Kind,
    pub shards: u32,
    pub heeds_dsync: bool,
    /// See [`Options::held`].
    pub held: (u64, u64),
}

impl Shape {
    pub fn members(&self) -> usize {
        match self.level {
            1 => 2,
            5 => 3,
            _ => 4,
        }
    }

    /// Bytes that a request's offset and length are multiples of.
    pub fn sector_bytes(&self) -> u32 {
        match self.kind {
            Kind::File => 512,
            Kind::Loop(sector_bytes) => sector_bytes,
        }
    }
}

/// Drives whose power can be cut, and an array on them.
pub struct Rig {
    pub shape: Shape,
    loops: Vec<Option<Loop>>,
    pub fs: FaultFs,
    // After `fs`, because the mount in this folder must be dropped before the folder.
    pub bed: Bed,
}

impl Rig {
    /// Drives for the members and `spares` more, and an array called `data` on the first ones.
    #[track_caller]
    pub fn new(shape: Shape, spares: usize, seed: u64) -> Rig {
        let bed = Bed::new(0, 0);
        let count = shape.members() + spares;
        let names: Vec<String> = (0..count).map(|at| format!("d{at}")).collect();
        let files: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), DRIVE_BYTES))
            .collect();
        let options = Options {
            heeds_dsync: shape.heeds_dsync,
            held: shape.held,
            seed,
            kept_bytes: KEPT_BYTES,
            ..Options::default()
        };
        let fs = FaultFs::mount(&bed.path("drives"), &files, options);
        let fs = fs.unwrap_or_else(|error| panic!("{error}"));
        let mut rig = Rig {
            shape,
            loops: (0..count).map(|_| None).collect(),
            fs,
            bed,
        };
        rig.attach();
        let members: Vec<PathBuf> = (0..rig.shape.members()).map(|at| rig.drive(at)).collect();
        let mut options = vec!["--write-hole", rig.shape.write_hole, "--wide"];
        if rig.shape.level != 1 {
            options.extend(["--chunk", "16k"]);
        }
        if rig.shape.write_hole == "bitmap" {
            options.extend(["--bitmap-region", "1m"]);
        }
        rig.bed.create("data", rig.shape.level, &members, &options);
        rig
    }

    /// The path of a drive as the program takes it.
    pub fn drive(&self, at: usize) -> PathBuf {
        match &self.loops[at] {
            Some(device) => device.device().to_owned(),
            None => self.fs.path(at),
        }
    }

    /// All drives.
    pub fn drives(&self) -> Vec<PathBuf> {
        (0..self.loops.len()).map(|at| self.drive(at)).collect()
    }

    /// The number of the drive with this serial.
    pub fn number_of(&self, serial: &str) -> Option<usize> {
        serial.strip_prefix('d')?.parse().ok()
    }

    /// Tries to serve `drives`. Drives beyond the number of members are spares.
    pub fn try_serve(&self, drives: &[PathBuf]) -> Result<Server<'_>, String> {
        let shards = self.shape.shards.to_string();
        let (members, spares) = drives.split_at(self.shape.members());
        let mut starting = self.bed.serve(members).option(&["--shards", &shards]);
        for spare in spares {
            starting = starting.option(&["--spare", &spare.display().to_string()]);
        }
        starting.try_start()
    }

    #[track_caller]
    pub fn serve(&self, drives: &[PathBuf]) -> Server<'_> {
        self.try_serve(drives).unwrap_or_else(|why| panic!("{why}"))
    }

    fn attach(&mut self) {
        if let Kind::Loop(sector_bytes) = self.shape.kind {
            let sector_bytes = sector_bytes.to_string();
            for at in 0..self.loops.len() {
                let options = ["--direct-io=on", "--sector-size", &sector_bytes];
                self.loops[at] = Some(Loop::over(&self.fs.path(at), &options));
            }
        }
    }

    /// Cuts the power, waits until the drives are closed, and turns the power on again. The server must be dead.
    #[track_caller]
    pub fn lose(&mut self, losses: &[Loss], random: &mut Stream) {
        self.fs.cut();
        self.loops.iter_mut().for_each(|device| drop(device.take()));
        assert!(
            self.fs.wait_closed(CLOSED_WITHIN),
            "the killed process still has a drive open"
        );
        self.fs.go_on(losses, random);
        self.attach();
    }
}

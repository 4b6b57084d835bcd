//! A block device without a back end, to compare the ways in which data can come from the kernel and go to it:
//!
//! usage: ublk_modes copy|need-get-data|user-copy|user-copy-calls DEPTH REQUEST_BYTES_MAX
//!
//! - `copy`: the kernel copies. Each command names memory, where the kernel puts the data of the tag's next write and takes
//!   that of the read which the command answers. So each tag has memory for the longest request all the time. The product
//!   does this.
//! - `need-get-data`: the same, but a write is announced first, and another command names the memory for it.
//! - `user-copy`: the program copies, by reads and writes of the character device in its ring.
//! - `user-copy-calls`: the same by system calls of the data thread.
//!
//! Prints the path of the device, and answers all requests at once with success until its input ends. Then it removes the
//! device and prints the most memory that tags have had at a time. The ring and the memory are those of a data thread, and
//! so is all of the interface to the kernel that the product has. For `benchmarks/run ublk_modes`.

use drives::arena::{Arena, ArenaOptions, Pool};
use drives::ublk::{
    ALL_TAGS_ABORTED, Attributes, CharacterDevice, Control, DeviceInfo, Features, Operation,
    Parameters, Queue, SECTOR_BYTES, State,
};
use engine::units::Buffer;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::{pread, pwrite};
use std::error::Error;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// `UBLK_U_IO_FETCH_REQ`, `UBLK_U_IO_COMMIT_AND_FETCH_REQ`, `UBLK_U_IO_NEED_GET_DATA`.
const FETCH: u32 = 0xc010_7520;
const COMMIT_AND_FETCH: u32 = 0xc010_7521;
const GET_DATA: u32 = 0xc010_7522;
/// A command completes in this way if a write waits for memory (`UBLK_IO_RES_NEED_GET_DATA`).
const WAITS_FOR_MEMORY: i32 = 1;
/// `UBLK_F_NEED_GET_DATA`, `UBLK_F_USER_COPY`.
const NEED_GET_DATA: Features = Features(1 << 2);
const USER_COPY: Features = Features(1 << 7);
/// Where the data of a queue's tags lie in the character device: `UBLKSRV_IO_BUF_OFFSET`, `UBLK_TAG_OFF`. The only queue
/// is number 0.
const DATA_AT: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;

/// Set in `user_data`, beside the tag, for a read or write of the character device.
const MOVES: u64 = 1 << 16;
const WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Copy,
    NeedGetData,
    UserCopy,
    UserCopyCalls,
}

impl Mode {
    fn parse(word: &str) -> Option<Mode> {
        Some(match word {
            "copy" => Mode::Copy,
            "need-get-data" => Mode::NeedGetData,
            "user-copy" => Mode::UserCopy,
            "user-copy-calls" => Mode::UserCopyCalls,
            _ => return None,
        })
    }

    fn features(self) -> Features {
        match self {
            Mode::Copy => Features::default(),
            Mode::NeedGetData => NEED_GET_DATA,
            Mode::UserCopy | Mode::UserCopyCalls => USER_COPY,
        }
    }
}

/// The memory of tags, and how much of it they have.
struct Memory {
    pool: Pool,
    held_bytes: u64,
    held_bytes_max: u64,
}

impl Memory {
    fn new(bytes: usize) -> Result<Memory, Box<dyn Error>> {
        let arena = Arena::new(ArenaOptions {
            length_bytes: bytes,
            prefault: true,
            lock: true,
        })?;
        Ok(Memory {
            pool: Pool::new(arena, 0..bytes),
            held_bytes: 0,
            held_bytes_max: 0,
        })
    }

    fn take(&mut self, length_bytes: u32) -> Held {
        self.held_bytes += u64::from(length_bytes);
        self.held_bytes_max = self.held_bytes_max.max(self.held_bytes);
        let buffer = self.pool.allocate(u64::from(length_bytes));
        Held {
            buffer: buffer.expect("there is memory for the longest request of each tag"),
            length_bytes,
        }
    }

    fn give_back(&mut self, held: Held) {
        self.held_bytes -= u64::from(held.length_bytes);
        self.pool.free(held.buffer);
    }
}

/// Memory that a tag has.
#[derive(Clone, Copy)]
struct Held {
    buffer: Buffer,
    length_bytes: u32,
}

impl Held {
    fn address(self) -> *mut u8 {
        self.buffer.0 as *mut u8
    }
}

/// The queue and its data thread's ring.
struct Server {
    mode: Mode,
    queue: Queue,
    ring: IoUring,
    memory: Memory,
    /// By tag.
    held: Vec<Option<Held>>,
    /// Memory that the kernel no longer uses once the queued commands are submitted: it copies while it takes them.
    free_after_submission: Vec<Held>,
    /// Tags that have not ended.
    living: usize,
}

impl Server {
    fn new(mode: Mode, number: u32, depth: u16, longest: u32) -> Result<Server, Box<dyn Error>> {
        let device = CharacterDevice::open(number)?;
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        builder.setup_taskrun_flag().setup_submit_all();
        let mut memory = Memory::new(usize::from(depth) * longest as usize)?;
        let held = (0..depth)
            .map(|_| (mode == Mode::Copy).then(|| memory.take(longest)))
            .collect();
        let mut server = Server {
            mode,
            queue: Queue::map(device, 0, depth)?,
            ring: builder.build(2 * u32::from(depth))?,
            memory,
            held,
            free_after_submission: Vec::with_capacity(usize::from(depth)),
            living: usize::from(depth),
        };
        for tag in 0..depth {
            server.command(FETCH, tag, 0);
        }
        server.ring.submit()?;
        Ok(server)
    }

    /// Answers requests until the device is stopped, and returns the most memory that tags have had, in bytes.
    fn serve(mut self) -> Result<u64, Box<dyn Error>> {
        let mut completed = Vec::new();
        while self.living > 0 {
            self.ring.submit_and_wait(1)?;
            for held in self.free_after_submission.drain(..) {
                self.memory.give_back(held);
            }
            let answers = self.ring.completion();
            completed.extend(answers.map(|entry| (entry.user_data(), entry.result())));
            for (user_data, result) in completed.drain(..) {
                self.completed(user_data, result)?;
            }
        }
        Ok(self.memory.held_bytes_max)
    }

    fn completed(&mut self, user_data: u64, result: i32) -> Result<(), Box<dyn Error>> {
        let tag = user_data as u16;
        if user_data & MOVES != 0 {
            return self.moved(tag, result);
        }
        match result {
            0 => self.requested(tag),
            WAITS_FOR_MEMORY => {
                let length_bytes = self.length_bytes(tag);
                self.held[usize::from(tag)] = Some(self.memory.take(length_bytes));
                self.command(GET_DATA, tag, 0);
                Ok(())
            }
            ALL_TAGS_ABORTED => {
                self.living -= 1;
                Ok(())
            }
            errno => Err(format!("tag {tag} has ended: {errno}").into()),
        }
    }

    fn length_bytes(&self, tag: u16) -> u32 {
        self.queue.descriptor(tag).sectors * SECTOR_BYTES as u32
    }

    fn requested(&mut self, tag: u16) -> Result<(), Box<dyn Error>> {
        let operation = self.queue.descriptor(tag).operation();
        if !matches!(operation, Operation::Read | Operation::Write) {
            self.command(COMMIT_AND_FETCH, tag, 0);
            return Ok(());
        }
        let length_bytes = self.length_bytes(tag);
        if self.held[usize::from(tag)].is_none() {
            self.held[usize::from(tag)] = Some(self.memory.take(length_bytes));
        }
        match self.mode {
            Mode::Copy | Mode::NeedGetData => self.commit(tag, length_bytes),
            Mode::UserCopy => self.begin_to_move(tag, operation),
            Mode::UserCopyCalls => {
                let result = self.move_at_once(tag, operation)?;
                return self.moved(tag, result as i32);
            }
        }
        Ok(())
    }

    fn begin_to_move(&mut self, tag: u16, operation: Operation) {
        let held = self.held[usize::from(tag)].expect("memory of a request");
        let file = types::Fd(self.queue.device().as_raw_fd());
        let entry = if operation == Operation::Read {
            opcode::Write::new(file, held.address(), held.length_bytes)
                .offset(data_at(tag))
                .build()
        } else {
            opcode::Read::new(file, held.address(), held.length_bytes)
                .offset(data_at(tag))
                .build()
        };
        self.push(entry.user_data(u64::from(tag) | MOVES));
    }

    fn move_at_once(&mut self, tag: u16, operation: Operation) -> Result<usize, Box<dyn Error>> {
        let held = self.held[usize::from(tag)].expect("memory of a request");
        let device = self.queue.device();
        // SAFETY: the memory is the tag's own until it is given back, and nobody else refers to it.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(held.address(), held.length_bytes as usize) };
        Ok(if operation == Operation::Read {
            pwrite(device, bytes, data_at(tag))?
        } else {
            pread(device, bytes, data_at(tag))?
        })
    }

    /// The data of a request has been copied.
    fn moved(&mut self, tag: u16, result: i32) -> Result<(), Box<dyn Error>> {
        let held = self.held[usize::from(tag)].expect("memory of a request");
        if result != held.length_bytes as i32 {
            let asked = held.length_bytes;
            return Err(format!("tag {tag}: {result} instead of {asked} bytes copied").into());
        }
        self.commit(tag, held.length_bytes);
        Ok(())
    }

    /// Answers a request with data as done.
    fn commit(&mut self, tag: u16, length_bytes: u32) {
        self.command(COMMIT_AND_FETCH, tag, length_bytes as i32);
        if self.mode != Mode::Copy
            && let Some(held) = self.held[usize::from(tag)].take()
        {
            self.free_after_submission.push(held);
        }
    }

    fn command(&mut self, operation: u32, tag: u16, result: i32) {
        let user_copy = self.mode.features() == USER_COPY;
        let address = match self.held[usize::from(tag)] {
            Some(held) if !user_copy => held.buffer.0,
            _ => 0,
        };
        let mut argument = [0; 16];
        argument[2..4].copy_from_slice(&tag.to_ne_bytes());
        argument[4..8].copy_from_slice(&result.to_ne_bytes());
        argument[8..].copy_from_slice(&address.to_ne_bytes());
        let file = types::Fd(self.queue.device().as_raw_fd());
        let entry = opcode::UringCmd16::new(file, operation).cmd(argument);
        self.push(entry.build().user_data(u64::from(tag)));
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: memory that an entry names belongs to its tag until the entry has completed. That of a command that
        // answers is given back when the command is submitted, and the next data come where the next command says.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("a tag has at most one entry in the queue");
    }
}

/// Where the data of a tag's request lie in the character device.
fn data_at(tag: u16) -> u64 {
    DATA_AT + (u64::from(tag) << TAG_SHIFT)
}

fn parameters(longest: u32) -> Parameters {
    Parameters {
        attributes: Attributes {
            read_only: false,
            volatile_cache: false,
            fua: false,
        },
        size_bytes: 1 << 30,
        logical_block_bytes: 4096,
        physical_block_bytes: 4096,
        io_min_bytes: 4096,
        io_optimal_bytes: longest,
        request_bytes_max: longest,
        discard_bytes_max: 0,
        zeroes_bytes_max: 1 << 30,
        discard_unit_bytes: 4096,
    }
}

/// Serves a device until it is stopped. Tells by `ready` when it can be started.
fn serve(
    (mode, number, depth, longest): (Mode, u32, u16, u32),
    ready: &Sender<()>,
) -> Result<u64, String> {
    let server = Server::new(mode, number, depth, longest).map_err(|error| error.to_string())?;
    // Whoever waits for it hears of an error by the thread's end.
    let _ = ready.send(());
    server.serve().map_err(|error| error.to_string())
}

fn run(mode: Mode, depth: u16, longest: u32) -> Result<(), Box<dyn Error>> {
    let mut control = Control::open()?;
    let info = control.add(&DeviceInfo {
        number: DeviceInfo::ANY_NUMBER,
        queues: 1,
        depth,
        state: State::Dead,
        request_bytes_max: longest,
        process: 0,
        features: mode.features(),
        mark: 0,
    })?;
    if !info.features.include(mode.features()) {
        control.delete(info.number, WITHIN)?;
        return Err(
            "this kernel's ublk does not have this mode (Linux 6.5 or newer has all)".into(),
        );
    }
    control.set_parameters(info.number, &parameters(longest))?;
    let (ready, wait) = channel();
    let what = (mode, info.number, info.depth, longest);
    let server = thread::spawn(move || serve(what, &ready));
    if wait.recv_timeout(WITHIN).is_ok() {
        control.start(info.number, WITHIN)?;
        println!("/dev/ublkb{}", info.number);
        std::io::stdin().read_to_end(&mut Vec::new())?;
        control.stop(info.number, WITHIN)?;
    }
    let served = server.join().map_err(|_| "the data thread has panicked")?;
    control.delete(info.number, WITHIN)?;
    println!("memory {}", served?);
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = match words.as_slice() {
        [mode, depth, longest] => {
            Mode::parse(mode).zip(depth.parse().ok().zip(longest.parse().ok()))
        }
        _ => None,
    };
    let Some((mode, (depth, longest))) = asked else {
        eprintln!(
            "usage: ublk_modes copy|need-get-data|user-copy|user-copy-calls DEPTH REQUEST_BYTES_MAX"
        );
        return ExitCode::from(2);
    };
    match run(mode, depth, longest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ublk_modes: {error}");
            ExitCode::FAILURE
        }
    }
}

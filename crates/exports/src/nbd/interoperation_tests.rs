//! Other projects' clients against the codec, over a local socket. The server is as plain as possible: one thread per
//! connection, blocking calls, an export in memory. A client that is not installed is reported and skipped.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command as Process, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

const SIZE_BYTES: usize = 24 << 20;

/// The export's bytes and the pending replies of one connection.
struct MemoryDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    encoder: ReplyEncoder,
    replies: Vec<u8>,
    write: Option<(Command, usize)>,
}

impl MemoryDisk {
    fn range(command: &Command) -> std::ops::Range<usize> {
        let start = command.offset_bytes as usize;
        start..start + command.length_bytes as usize
    }

    /// Stores a piece of payload and answers the write when it is complete.
    fn store(&mut self, piece: &[u8]) {
        let (command, done) = self.write.as_mut().expect("a write in progress");
        let start = command.offset_bytes as usize + *done;
        self.bytes.lock().unwrap()[start..start + piece.len()].copy_from_slice(piece);
        *done += piece.len();
        if *done == command.length_bytes as usize {
            self.replies
                .extend_from_slice(&self.encoder.done(command.cookie));
            self.write = None;
        }
    }
}

impl Sink for MemoryDisk {
    fn command(&mut self, command: Command) -> Accept {
        // The reply buffer is small, so that clients meet a server that makes them wait.
        if self.replies.len() > 256 << 10 {
            return Accept::Later;
        }
        let Command {
            cookie,
            offset_bytes,
            length_bytes,
            ..
        } = command;
        let mut bytes = self.bytes.lock().unwrap();
        let range = Self::range(&command);
        match command.kind {
            CommandKind::Read => {
                let header = self.encoder.read(cookie, offset_bytes, length_bytes);
                self.replies.extend_from_slice(&header);
                self.replies.extend_from_slice(&bytes[range]);
            }
            CommandKind::Write { .. } => self.write = Some((command, 0)),
            CommandKind::WriteZeroes {
                fast_only: true, ..
            } => {
                let code = ErrorCode::NotSupported;
                self.encoder
                    .error_with_message(&mut self.replies, cookie, code, "not fast");
            }
            CommandKind::WriteZeroes { .. } => {
                bytes[range].fill(0);
                self.replies.extend_from_slice(&self.encoder.done(cookie));
            }
            CommandKind::Flush | CommandKind::Trim { .. } => {
                self.replies.extend_from_slice(&self.encoder.done(cookie));
            }
            CommandKind::BlockStatus { .. } => {
                let is_zero = bytes[range].iter().all(|byte| *byte == 0);
                let extent = Extent {
                    length_bytes,
                    is_hole: false,
                    is_zero,
                };
                self.replies
                    .extend_from_slice(&self.encoder.block_status(cookie, extent));
            }
        }
        Accept::Taken
    }

    fn refusal(&mut self, refusal: Refusal) -> Accept {
        self.encoder.refusal(&mut self.replies, &refusal);
        Accept::Taken
    }

    fn payload(&mut self, bytes: &[u8], _remaining_bytes: u32) {
        self.store(bytes);
    }
}

fn serve_connection(
    mut socket: UnixStream,
    exports: Arc<ExportList>,
    bytes: Arc<Mutex<Vec<u8>>>,
) -> io::Result<()> {
    let mut session = Session::new(exports);
    let encoder = session.reply_encoder();
    let mut disk = MemoryDisk {
        bytes,
        encoder,
        replies: Vec::new(),
        write: None,
    };
    let mut buffer = vec![0; 128 << 10];
    let (mut start, mut end) = (0, 0);
    loop {
        let taken = session
            .feed(&buffer[start..end], &mut disk)
            .map_err(io::Error::other)?;
        start += taken;
        disk.encoder = session.reply_encoder();
        socket.write_all(&session.take_output().unwrap_or_default())?;
        socket.write_all(&disk.replies)?;
        disk.replies.clear();
        if session.phase() == Phase::Ended {
            return Ok(());
        }
        if start < end || session.is_waiting() {
            continue;
        }
        if let Some(remaining_bytes) = session.payload_remaining_bytes() {
            let wanted = buffer.len().min(remaining_bytes as usize);
            let received = socket.read(&mut buffer[..wanted])?;
            if received == 0 {
                return Ok(());
            }
            disk.store(&buffer[..received]);
            session.payload_received(received as u32);
            continue;
        }
        (start, end) = (0, socket.read(&mut buffer)?);
        if end == 0 && disk.replies.is_empty() {
            return Ok(());
        }
    }
}

/// Serves `disk` and the read-only `other`, which share their bytes, on a socket until the process ends.
fn serve(socket_path: &Path, bytes: &Arc<Mutex<Vec<u8>>>) {
    let export = |name: &str, read_only| Export {
        name: name.to_owned(),
        description: "bytes in memory".to_owned(),
        size_bytes: SIZE_BYTES as u64,
        block_sizes: BlockSizes {
            minimum_bytes: 512,
            preferred_bytes: 4096,
            maximum_payload_bytes: wire::MAX_PAYLOAD_BYTES,
        },
        abilities: Abilities {
            read_only,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
        },
    };
    let exports = ExportList::new(vec![export("disk", false), export("other", true)]).unwrap();
    let exports = Arc::new(exports);
    let listener = UnixListener::bind(socket_path).unwrap();
    let bytes = Arc::clone(bytes);
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let (exports, bytes) = (Arc::clone(&exports), Arc::clone(&bytes));
            // A client that closes without disconnecting is no failure of the server.
            thread::spawn(move || serve_connection(socket, exports, bytes));
        }
    });
}

/// Runs a client for at most 60 seconds. Returns `None` if it is not installed.
fn client(program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Process::new("timeout")
        .arg("60")
        .arg(program)
        .args(arguments)
        .output()
        .ok()?;
    // What `timeout` returns for a program it cannot find.
    if output.status.code() == Some(127) {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    Some(output)
}

fn text_of_success(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn noise() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..SIZE_BYTES / 8).flat_map(|_| next()).collect();
    // A hole for clients that look for zeroes.
    bytes[8 << 20..12 << 20].fill(0);
    bytes
}

#[test]
fn nbdinfo_understands_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    serve(&socket, &Arc::new(Mutex::new(noise())));
    let address = |name: &str| format!("nbd+unix:///{name}?socket={}", socket.display());
    let Some(output) = client("nbdinfo", &[&address("other")]) else {
        return;
    };
    let text = text_of_success(&output);
    for fact in [
        "is_read_only: true",
        "can_fua: true",
        "can_multi_conn: true",
        "bytes in memory",
    ] {
        assert!(text.contains(fact), "{fact} is missing in {text}");
    }
    assert!(text.contains("block_size_minimum: 512"), "{text}");
    assert!(text.contains("base:allocation"), "{text}");
    let list = text_of_success(&client("nbdinfo", &["--list", &address("")]).unwrap());
    assert!(
        list.contains("export=\"disk\"") && list.contains("export=\"other\""),
        "{list}"
    );
    let map = text_of_success(&client("nbdinfo", &["--map", &address("disk")]).unwrap());
    assert!(map.contains("25165824"), "{map}");
    let unknown = client("nbdinfo", &[&address("nowhere")]).unwrap();
    assert!(!unknown.status.success());
    let errors = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        errors.contains("No such file or directory for export: nowhere"),
        "{errors}"
    );
}

#[test]
fn nbdcopy_moves_every_byte_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let bytes = Arc::new(Mutex::new(vec![0xee; SIZE_BYTES]));
    serve(&socket, &bytes);
    let address = format!("nbd+unix:///disk?socket={}", socket.display());
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let content = noise();
    std::fs::write(&source, &content).unwrap();
    let (source, target_text) = (source.to_str().unwrap(), target.to_str().unwrap());
    let Some(upload) = client("nbdcopy", &["--flush", source, &address]) else {
        return;
    };
    text_of_success(&upload);
    assert!(
        *bytes.lock().unwrap() == content,
        "the upload differs from its source"
    );
    text_of_success(&client("nbdcopy", &[&address, target_text]).unwrap());
    assert!(
        std::fs::read(&target).unwrap() == content,
        "the download differs from its source"
    );
}

#[test]
fn qemu_images_compare_equal() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    serve(&socket, &Arc::new(Mutex::new(noise())));
    let image = folder.path().join("image");
    std::fs::write(&image, noise()).unwrap();
    let address = format!("nbd:unix:{}:exportname=other", socket.display());
    let arguments = [
        "compare",
        "-f",
        "raw",
        "-F",
        "raw",
        image.to_str().unwrap(),
        &address,
    ];
    let Some(output) = client("qemu-img", &arguments) else {
        return;
    };
    assert!(text_of_success(&output).contains("identical"));
}

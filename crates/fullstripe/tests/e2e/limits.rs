//! Input from outside that far exceeds the buffers of a serving process.

use crate::common::process::{Guarded, tied};
use crate::common::{Bed, Client, MIB, run};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_server_whose_words_nobody_reads_goes_on() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let nbd = bed.path("nbd");
    let address = format!("unix:{}", nbd.display());
    let mut command = bed.fullstripe(&["serve", "--memory", "48m", "--nbd", &address, "--socket"]);
    command.arg(bed.path("api")).args(bed.drives());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = Guarded::start(&mut command);
    let since = Instant::now();
    let mut client = loop {
        match Client::connect(&nbd, "data") {
            Ok(client) => break client,
            Err(error) => assert!(
                process.runs() && since.elapsed() < Duration::from_secs(20),
                "{error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // Each of these makes the server print a line, together far more than the pipe and the queue hold.
    for _ in 0..5000 {
        let mut stream = UnixStream::connect(&nbd).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(&[0x55; 64]).unwrap();
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "server hangs");
        }
    }
    // Requests, orders and the stop work all the same.
    assert_eq!(client.write(0, &[1; 4096]), Ok(()));
    assert_eq!(client.read(0, 4096), Ok(vec![1; 4096]));
    let api = bed.path("api").display().to_string();
    run(
        &mut bed.fullstripe(&["fail", "data:1", "--socket", &api]),
        20,
    )
    .ok();
    assert_eq!(client.write(4096, &[2; 4096]), Ok(()));
    process.signal(Signal::TERM);
    assert!(process.wait(Duration::from_secs(30)).success());
    let mut said = String::new();
    let mut pipe = process.child().stderr.take().unwrap();
    pipe.read_to_string(&mut said).unwrap();
    assert!(
        said.len() >= 60_000,
        "the pipe was not full: {}",
        said.len()
    );
}

#[test]
fn where_hardly_any_file_may_be_open_a_command_says_so() {
    for files in 6..=8 {
        let mut command = tied(std::path::Path::new("/bin/sh"));
        let limit = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        command.args([
            "-c",
            &limit,
            env!("CARGO_BIN_EXE_fullstripe"),
            "examine",
            "d0",
        ]);
        run(&mut command, 20).refused("raise the limit of open files with ulimit -n");
    }
}

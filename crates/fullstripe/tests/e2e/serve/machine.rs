//! Starts that the machine does not allow: sockets, ublk and memory that are not there.

use crate::common::process::run;
use crate::common::{Bed, MIB};
use std::path::Path;

/// Expects that `serve` with these options fails, with exit code 1 and not that of a refusal that protects data.
#[track_caller]
fn does_not_serve(bed: &Bed, options: &[&str], wanted: &str) {
    let mut command = bed.fullstripe(&["serve"]);
    command.env("FULLSTRIPE_SOCKET", bed.path("api"));
    let said = run(command.args(options).args(bed.drives()), 20);
    let is_told = said.status.code() == Some(1) && said.err.contains(wanted);
    assert!(is_told, "{wanted:?} is not in: {said}");
}

/// Drives are not changed for an array that no client could reach.
#[test]
fn sockets_that_cannot_be_made_are_refused_before_drives_are_touched() {
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let before = std::fs::read(bed.drive(0)).expect("it is there");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let busy = busy.local_addr().expect("an address");
    let tcp = format!("tcp:{busy}");
    let long = format!("/tmp/{}", "s".repeat(120));
    for (words, wanted) in [
        (
            ["--socket", &long, "--nbd", "unix:a"],
            "cannot be a socket: a path of at most 107 bytes",
        ),
        (
            ["--nbd", "unix:a", "--nbd", "unix:a"],
            "--nbd unix:a is given twice; name each address once",
        ),
        (
            ["--insecure", "--nbd", &tcp, "--read-only"],
            "another process listens on",
        ),
    ] {
        does_not_serve(&bed, &words, wanted);
    }
    let now = std::fs::read(bed.drive(0)).expect("it is there");
    assert!(now == before, "a drive was written to");
}

/// What devices do where the kernel has ublk is tested in a virtual machine (`make test-vm`).
#[test]
fn a_kernel_without_ublk_is_named_before_drives_are_touched() {
    let control = Path::new("/dev/ublk-control");
    let wanted = match std::fs::File::options().write(true).open(control) {
        Ok(_) => return eprintln!("left out: this machine has {}", control.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "this kernel has no ublk: /dev/ublk-control is missing; load its module with 'modprobe ublk_drv'"
        }
        Err(_) => "ublk devices need root",
    };
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let before = std::fs::read(bed.drive(0)).expect("it is there");
    does_not_serve(&bed, &["--ublk"], wanted);
    assert_eq!(std::fs::read(bed.drive(0)).expect("it is there"), before);
    let server = bed.serve(bed.drives()).start();
    server
        .order(&["attach"])
        .refused("volume data cannot be attached")
        .refused(wanted);
    server
        .order(&["detach"])
        .refused("volume data is no block device");
    server
        .order(&["attach", "dato"])
        .refused("there is no volume \"dato\" in this array");
    server.stop();
}

/// What needs no target is refused before anything is made, and so is an export where the kernel has none.
#[test]
fn an_export_to_other_machines_that_cannot_be_made_is_refused() {
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let attach = |words: &[&str]| server.order(&[&["attach", "data"], words].concat());
    attach(&["--nvmet", "tcp://server"])
        .refused("write tcp://IP[:PORT] with an IP address of this machine");
    attach(&["--insecure"]).refused("--nvmet");
    attach(&["--nvmet", "tcp://10.0.0.5"]).refused(
        "volume data cannot be exported by NVMe over TCP: whoever can connect to this address could read and write everything; \
         give --nvmet-host NQN for each host that may (`cat /etc/nvme/hostnqn` shows it there), or --insecure",
    );
    attach(&["--nvmet", "tcp://10.0.0.5", "--nvmet-host", "host"])
        .refused("\"host\" is no NQN of a host; write what `cat /etc/nvme/hostnqn` shows there");
    if Path::new("/sys/kernel/config/nvmet").exists() {
        eprintln!("left out: this kernel has an NVMe target");
    } else {
        attach(&["--nvmet", "tcp://10.0.0.5", "--insecure"]).refused("`modprobe nvmet-tcp`");
    }
    server.stop();
}

#[test]
fn memory_that_is_too_little_or_not_there_is_refused() {
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    for (words, wanted) in [
        (
            ["--memory", "8m", "--shards", "16"],
            "--memory 8m is too little for 16 data threads; give at least 64m",
        ),
        (
            ["--memory", "7m", "--shards", "1"],
            "--memory 7m is too little for 1 data thread; give at least 8m",
        ),
        (
            ["--memory", "900t", "--shards", "1"],
            "--memory 900t does not fit: ",
        ),
    ] {
        does_not_serve(&bed, &words, wanted);
    }
}

/// The kernel evicts code of programs when memory runs out; what a file system lies on cannot wait for that to be read again.
#[test]
fn the_program_stays_in_memory() {
    let unlimited = rustix::process::Rlimit {
        current: None,
        maximum: None,
    };
    if rustix::process::setrlimit(rustix::process::Resource::Memlock, unlimited).is_err() {
        return eprintln!("left out: this user may not lock memory without limit");
    }
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let mut server = bed.serve(bed.drives()).start();
    let maps = std::fs::read_to_string(format!("/proc/{}/smaps", server.pid())).expect("it runs");
    let program = env!("CARGO_BIN_EXE_fullstripe");
    let mut code = maps
        .lines()
        .skip_while(|line| !(line.ends_with(program) && line.contains(" r-xp ")));
    let mut kib = |key: &str| -> Option<u64> {
        let line = code.find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let (size, locked) = (kib("Size:"), kib("Locked:"));
    assert!(
        size > Some(1024) && locked == size,
        "{locked:?} of {size:?} KiB of the code are locked"
    );
    server.stop();
}

//! Foreign programs as clients: nbdinfo, nbdcopy, qemu-io, qemu-img, fio's nbd engine, and the kernel's ext4 and
//! xfs on partitions of a volume, through nbdfuse and loop devices.

use crate::common::machine::Fuse;
use crate::common::{Bed, Loop, MIB, Mount, Server, is_root, run, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes that look random and follow from `seed`.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(length / 8).flatten().collect()
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn nbdinfo_reads_what_the_volumes_offer() {
    let bed = Bed::new(4, 96 * MIB);
    bed.create("fast", 10, bed.drives(), &["--size", "64m"]);
    bed.create("big", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let list = run(tool("nbdinfo").args(["--list", &server.uri("")]), 20).ok();
    assert!(
        list.out.contains("export=\"fast\"") && list.out.contains("export=\"big\""),
        "{list}"
    );
    let size = run(tool("nbdinfo").args(["--size", &server.uri("fast")]), 20).ok();
    assert_eq!(size.out.trim(), (64 * MIB).to_string());
    for can in ["write", "flush", "fua", "trim", "zero", "multi-conn"] {
        run(tool("nbdinfo").args(["--can", can, &server.uri("big")]), 20).ok();
    }
    run(tool("nbdinfo").arg(server.uri("nothing")), 20).refused("nothing");
    server.stop();

    let server = bed.serve(bed.drives()).option(&["--read-only"]).start();
    run(
        tool("nbdinfo").args(["--is", "read-only", &server.uri("big")]),
        20,
    )
    .ok();
    server.stop();
}

#[test]
fn nbdcopy_brings_back_what_it_took() {
    for (level, members, shards) in [(0, 2, "2"), (1, 2, "1"), (10, 4, "2"), (5, 3, "2")] {
        let bed = Bed::new(members, 64 * MIB);
        bed.create("data", level, bed.drives(), &["--size", "32m"]);
        let server = bed
            .serve(bed.drives())
            .option(&["--shards", shards])
            .start();
        let (into, back) = (bed.path("into"), bed.path("back"));
        let bytes = noise(u64::from(level), 32 << 20);
        std::fs::write(&into, &bytes).expect("room for a file");
        let several = ["--connections=4", "--requests=16", "--flush"];
        run(
            tool("nbdcopy")
                .args(several)
                .arg(&into)
                .arg(server.uri("data")),
            60,
        )
        .ok();
        run(
            tool("nbdcopy")
                .args(several)
                .arg(server.uri("data"))
                .arg(&back),
            60,
        )
        .ok();
        assert!(
            std::fs::read(&back).expect("it was written") == bytes,
            "RAID {level}"
        );
        if level != 0 {
            server.order(&["fail", "data:1"]).ok();
            run(
                tool("nbdcopy")
                    .args(several)
                    .arg(server.uri("data"))
                    .arg(&back),
                60,
            )
            .ok();
            assert!(
                std::fs::read(&back).expect("it was written") == bytes,
                "RAID {level}"
            );
        }
        server.stop();
    }
}

#[test]
fn qemu_io_finds_its_patterns() {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("data", 5, bed.drives(), &["--chunk", "64k"]);
    let server = bed.serve(bed.drives()).start();
    let io = |commands: &[&str]| {
        let mut command = tool("qemu-io");
        command.args(["-f", "raw"]);
        commands.iter().for_each(|one| {
            command.args(["-c", one]);
        });
        run(command.arg(server.uri("data")), 60).ok()
    };
    let wrote = io(&[
        "write -P 0x11 0 1M",
        "write -f -P 0x22 4k 512",
        "aio_write -P 0x33 100k 300k",
        "aio_write -P 0x44 1M 64k",
        "aio_flush",
        "writev -P 0x55 2M 4k 8k 512",
        "write -z 600k 100k",
        "flush",
        "read -P 0x11 0 4k",
        "read -P 0x22 4k 512",
        "read -P 0x33 100k 300k",
        "read -P 0x00 600k 100k",
        "discard 3M 1M",
    ]);
    assert!(
        !wrote.out.contains("failed") && !wrote.err.contains("error"),
        "{wrote}"
    );
    server.order(&["fail", "d2"]).ok();
    let read = io(&[
        "read -P 0x11 0 4k",
        "read -P 0x22 4k 512",
        "read -P 0x11 4608 93k",
        "read -P 0x33 100k 300k",
        "read -P 0x11 400k 200k",
        "read -P 0x00 600k 100k",
        "read -P 0x44 1M 64k",
        "read -P 0x55 2M 12800",
    ]);
    assert!(!read.out.contains("failed"), "{read}");
    let image = bed.path("image");
    let mut convert = tool("qemu-img");
    convert
        .args(["convert", "-f", "raw", "-O", "raw", &server.uri("data")])
        .arg(&image);
    run(&mut convert, 60).ok();
    let mut compare = tool("qemu-img");
    compare
        .args(["compare", "-f", "raw", "-F", "raw", &server.uri("data")])
        .arg(&image);
    run(&mut compare, 60).ok();
    server.stop();
}

fn fio(bed: &Bed, server: &Server<'_>, job: &str, more: &[&str]) -> Command {
    let mut command = tool("fio");
    let uri = server.uri("data");
    command.current_dir(bed.path("."));
    command.args([
        "--ioengine=nbd",
        "--thread",
        "--group_reporting",
        "--output-format=terse",
    ]);
    command.args([
        &format!("--name={job}"),
        &format!("--uri={uri}"),
        "--verify=crc32c",
    ]);
    command.args(more);
    command
}

#[test]
fn fio_verifies_while_a_member_dies_and_a_spare_is_rebuilt() {
    // Any member may fail. The seed chooses it, and repeats the choice.
    let seed = std::env::var("FULLSTRIPE_SEED").ok();
    let seed: u64 = match seed.and_then(|text| text.parse().ok()) {
        Some(seed) => seed,
        None => std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_secs()),
    };
    println!("FULLSTRIPE_SEED={seed}");
    for (level, members) in [(5, 3), (10, 4), (1, 2)] {
        let victim = format!("data:{}", seed % members as u64);
        let bed = Bed::new(members + 1, 96 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed
            .serve(bed.first(members))
            .option(&["--shards", "2"])
            .start();
        std::thread::scope(|scope| {
            let random = [
                "--rw=randwrite",
                "--bsrange=4k-64k",
                "--size=48m",
                "--iodepth=16",
            ];
            let mut command = fio(&bed, &server, "random", &random);
            // Verification begins when everything is written; the second pass overwrites the first.
            command.args(["--loops=2", "--verify_fatal=1", "--do_verify=1"]);
            let working = scope.spawn(move || run(&mut command, 120));
            server.wait_status("writing", 30, |status| {
                status["counters"]["write_bytes"].as_u64() > Some(4 * MIB)
            });
            server.order(&["fail", &victim]).ok();
            let spare = name(bed.drive(members));
            server.order(&["add-spare", &spare]).ok();
            server.wait_event("job-ended", "rebuild finished", 60);
            working.join().expect("it does not panic").ok();
        });
        server.wait_optimal(20);
        let sequential = [
            "--rw=write",
            "--bs=96k",
            "--size=24m",
            "--offset=48m",
            "--fsync=64",
        ];
        run(&mut fio(&bed, &server, "sequential", &sequential), 60).ok();
        server.order(&["scrub", "data", "--wait"]).ok();
        server.stop();
    }
}

#[test]
fn fio_verifies_after_a_crash() {
    let bed = Bed::new(3, 96 * MIB);
    bed.create("data", 5, bed.drives(), &["--chunk", "64k"]);
    let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
    // Each block is written once, in order, so all blocks that fio's saved state lists as written must be there.
    let job = [
        "--rw=write",
        "--bs=8k",
        "--size=160m",
        "--iodepth=1",
        "--do_verify=0",
    ];
    let mut command = fio(&bed, &server, "crash", &job);
    command.args(["--verify_state_save=1", "--rate=40m"]);
    std::thread::scope(|scope| {
        let working = scope.spawn(move || run(&mut command, 60));
        server.wait_status("writing", 30, |status| {
            status["counters"]["write_bytes"].as_u64() > Some(16 * MIB)
        });
        server.kill();
        let said = working.join().expect("it does not panic");
        assert!(!said.status.success(), "fio noticed nothing: {said}");
    });
    let server = bed.serve(bed.drives()).start();
    let job = [
        "--rw=write",
        "--bs=8k",
        "--size=16m",
        "--iodepth=8",
        "--verify_only",
    ];
    run(&mut fio(&bed, &server, "crash", &job), 60).ok();
    server.stop();
}

/// A partition: its first sector, its sectors, and how to make a file system on it.
struct Part {
    first: u64,
    sectors: u64,
    kind: &'static str,
}

const PARTS: [Part; 2] = [
    Part {
        first: 2048,
        sectors: 128 << 11,
        kind: "ext4",
    },
    Part {
        first: 2048 + (128 << 11),
        sectors: 340 << 11,
        kind: "xfs",
    },
];

impl Part {
    #[track_caller]
    fn attach(&self, disk: &Path) -> Loop {
        let offset = (self.first * 512).to_string();
        let size = (self.sectors * 512).to_string();
        Loop::over(disk, &["--offset", &offset, "--sizelimit", &size])
    }

    #[track_caller]
    fn make(&self, device: &Path) {
        let (program, options): (_, &[&str]) = match self.kind {
            "ext4" => ("mkfs.ext4", &["-q"]),
            _ => ("mkfs.xfs", &["-q", "-f"]),
        };
        run(tool(program).args(options).arg(device), 60).ok();
    }

    /// Checks the file system for damage without changing it.
    #[track_caller]
    fn check(&self, device: &Path) {
        let mut command = match self.kind {
            "ext4" => tool("e2fsck"),
            _ => tool("xfs_repair"),
        };
        let options: &[&str] = if self.kind == "ext4" {
            &["-f", "-n"]
        } else {
            &["-n"]
        };
        run(command.args(options).arg(device), 60).ok();
    }
}

/// Files of many sizes in folders; the same for the same seed.
fn write_tree(at: &Path, seed: u64) {
    for number in 0..60 {
        let folder = at.join(format!("folder-{}", number % 7));
        std::fs::create_dir_all(&folder).expect("a folder in the volume");
        let length = (number as usize * 7919 % 97) * 4096 + number as usize * 8;
        let bytes = noise(seed + number, length);
        std::fs::write(folder.join(format!("file-{number}")), bytes).expect("a file in the volume");
    }
}

fn check_tree(at: &Path, seed: u64) {
    for number in 0..60 {
        let path = at.join(format!("folder-{}/file-{number}", number % 7));
        let length = (number as usize * 7919 % 97) * 4096 + number as usize * 8;
        let found =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            found == noise(seed + number, length),
            "{} differs",
            path.display()
        );
    }
}

fn mount(device: &Path, place: PathBuf) -> Mount {
    Mount::new(&[&name(device)], &place)
}

#[test]
fn file_systems_in_a_gpt_live_through_failure_and_restart() {
    if !is_root("file_systems_in_a_gpt_live_through_failure_and_restart") {
        return;
    }
    let bed = Bed::new(4, 256 * MIB);
    bed.create("data", 5, bed.first(3), &["--chunk", "64k"]);
    let server = bed.serve(bed.first(3)).option(&["--shards", "2"]).start();
    let fuse = Fuse::new(&server.uri("data"), &bed.path("fuse"));
    let mut gpt = tool("sgdisk");
    for (number, part) in (1..).zip(&PARTS) {
        gpt.arg(format!(
            "--new={number}:{}:{}",
            part.first,
            part.first + part.sectors - 1
        ));
    }
    run(gpt.arg(fuse.file()), 30).ok();
    for (number, part) in (1..).zip(&PARTS) {
        let device = part.attach(fuse.file());
        part.make(device.device());
        let mounted = mount(device.device(), bed.path("mnt"));
        write_tree(&mounted.place().join("before"), number);
        if number == 1 {
            server.order(&["fail", "data:1"]).ok();
        }
        write_tree(&mounted.place().join("degraded"), 100 + number);
        mounted.end();
        part.check(device.device());
    }
    fuse.end();
    server.order(&["add-spare", &name(bed.drive(3))]).ok();
    server.wait_event("job-ended", "rebuild finished", 90);
    server.stop();

    // The partition table lies inside the array's extents, so it is not taken for foreign content of the drives.
    let left = [0, 2, 3].map(|at| name(bed.drive(at)));
    let said = run(bed.fullstripe(&["assemble"]).args(&left), 20).ok();
    assert!(said.out.contains("data"), "{said}");
    let server = bed
        .serve(&[0, 2, 3].map(|at| bed.drive(at).to_owned()))
        .start();
    let fuse = Fuse::new(&server.uri("data"), &bed.path("fuse"));
    run(tool("sgdisk").arg("--verify").arg(fuse.file()), 30).ok();
    for (number, part) in (1..).zip(&PARTS) {
        let device = part.attach(fuse.file());
        part.check(device.device());
        let mounted = mount(device.device(), bed.path("mnt"));
        check_tree(&mounted.place().join("before"), number);
        check_tree(&mounted.place().join("degraded"), 100 + number);
        mounted.end();
    }
    fuse.end();
    let destroy = |more: &[&str]| {
        run(
            bed.fullstripe(&["destroy", "data"]).args(more).args(&left),
            20,
        )
    };
    destroy(&["--yes"]).refused("in use");
    server.order(&["scrub", "data", "--wait"]).ok();
    server.stop();
    destroy(&["--yes"]).ok();
    bed.serve(&[0, 2, 3].map(|at| bed.drive(at).to_owned()))
        .refused("no array");
}

/// A mirror's partition table lies at the very start of each member. Mounting a partition of one member would change
/// this member and not the other.
#[test]
fn partitions_inside_a_volume_are_not_those_of_its_members() {
    if !is_root("partitions_inside_a_volume_are_not_those_of_its_members") {
        return;
    }
    let bed = Bed::new(2, 200 * MIB);
    let loops = [0, 1].map(|at| Loop::over(bed.drive(at), &["--partscan", "--direct-io=on"]));
    let drives = loops.each_ref().map(|device| device.device().to_owned());
    bed.create("data", 1, &drives, &[]);
    let server = bed.serve(&drives).start();
    let fuse = Fuse::new(&server.uri("data"), &bed.path("fuse"));
    let part = &PARTS[0];
    let end = part.first + part.sectors - 1;
    run(
        tool("sgdisk")
            .arg(format!("--new=1:{}:{end}", part.first))
            .arg(fuse.file()),
        30,
    )
    .ok();
    let device = part.attach(fuse.file());
    part.make(device.device());
    drop(device);
    fuse.end();
    for drive in &drives {
        run(tool("blockdev").arg("--rereadpt").arg(drive), 20).refused("busy");
        let partition = PathBuf::from(format!("{}p1", drive.display()));
        assert!(!partition.exists(), "{} was made", partition.display());
    }
    server.stop();
    // After the stop the kernel reads the table: only the server had kept it from doing so.
    run(tool("blockdev").arg("--rereadpt").arg(&drives[0]), 20).ok();
}

#[test]
fn a_file_system_survives_the_servers_crash() {
    if !is_root("a_file_system_survives_the_servers_crash") {
        return;
    }
    for (part, (level, members)) in PARTS.iter().zip([(10, 4), (5, 3)]) {
        let bed = Bed::new(members, 256 * MIB);
        bed.create("data", level, bed.drives(), &[]);
        let server = bed.serve(bed.drives()).start();
        let fuse = Fuse::new(&server.uri("data"), &bed.path("fuse"));
        let device = part.attach(fuse.file());
        part.make(device.device());
        let mounted = mount(device.device(), bed.path("mnt"));
        write_tree(&mounted.place().join("synced"), 7);
        run(tool("sync").arg("--file-system").arg(mounted.place()), 60).ok();
        write_tree(&mounted.place().join("unsynced"), 8);
        server.kill();
        // The file system has lost its disk, and with it everything it had not yet written.
        drop((mounted, device, fuse));

        let server = bed.serve(bed.drives()).start();
        let fuse = Fuse::new(&server.uri("data"), &bed.path("fuse2"));
        let device = part.attach(fuse.file());
        // Mounting replays the journal.
        let mounted = mount(device.device(), bed.path("mnt2"));
        check_tree(&mounted.place().join("synced"), 7);
        mounted.end();
        part.check(device.device());
        drop(device);
        fuse.end();
        server.wait_optimal(60);
        server.order(&["scrub", "data", "--wait"]).ok();
        server.stop();
    }
}

//! For each message of the page, a script that provokes it and a check that holds after the cure.

/// A setup that `predict` computes in moments.
pub const SETUP: &str = r#"
schema = 1
[setup.one]
drive = "p4510-2tb"
count = 2
level = 0
stack = "fullstripe"
platform = "s2600wft-8170"
host = "linux-6.12"
[points]
read = { setup = "one", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 1 } }
"#;
/// How a message is provoked, and what holds after the cure.
pub struct Case {
    pub heading: &'static str,
    /// Commands that prepare the case.
    pub before: &'static str,
    /// The commands that print the message.
    pub provoke: &'static str,
    /// A line that succeeds after the cure; `None` if the page gives no commands to run.
    pub after: Option<&'static str>,
}

const fn case(
    heading: &'static str,
    before: &'static str,
    provoke: &'static str,
    after: &'static str,
) -> Case {
    Case {
        heading,
        before,
        provoke,
        after: Some(after),
    }
}

const fn only_provoked(heading: &'static str, before: &'static str, provoke: &'static str) -> Case {
    Case {
        heading,
        before,
        provoke,
        after: None,
    }
}

/// In the order of the page.
pub const CASES: &[Case] = &[
    // Making an array
    case(
        "Another process has the drive",
        "made; up $all; first=$!",
        "fullstripe serve $all --socket $PWD/api-1 --nbd unix:$PWD/n",
        "is 'vol0 is optimal' && ! kill -0 $first",
    ),
    case(
        "The kernel uses the drive",
        "root; drives; losetup -f --show d0.img > loops",
        "fullstripe create vol1 --level 1 d0.img d1.img",
        "rm -f loops && fullstripe list d0.img d1.img | grep vol1",
    ),
    only_provoked(
        "Linux md assembles the array by itself",
        "need test -e /usr/lib/udev/rules.d/64-md-raid-assembly.rules; made",
        "fullstripe doctor d0.img",
    ),
    case(
        "A drive holds a file system or something else",
        "need blkid -V; drives; mkfs.ext4 -q d1.img",
        "fullstripe create vol1 --level 1 d0.img d1.img",
        "fullstripe list d0.img d1.img | grep vol1 && ls create-*.backup",
    ),
    case(
        "A drive belongs to another array",
        "made",
        "fullstripe create vol1 --level 1 d0.img d4.img",
        "fullstripe list d0.img d4.img | grep vol1",
    ),
    case(
        "No room for a second volume",
        "made",
        "fullstripe create vol1 --level 5 $all",
        "fullstripe list $all | grep vol1",
    ),
    case(
        "The drive is too small",
        "truncate -s 1M d0.img d1.img",
        "fullstripe create vol1 --level 1 d0.img d1.img",
        "fullstripe list d0.img d1.img | grep vol1",
    ),
    case(
        "The drives have different sector sizes",
        "drives",
        "fullstripe create vol1 --level 1 d0.img d1.img,sector=4096",
        "is 'vol1 is optimal'",
    ),
    case(
        "Two drives have the same serial number",
        "mkdir a b; truncate -s 64M a/disk.img b/disk.img",
        "fullstripe create vol1 --level 1 a/disk.img b/disk.img",
        "is 'vol1 is optimal'",
    ),
    case(
        "One drive is seen twice",
        "made; mkdir copy; cp d1.img copy/d1.img",
        "fullstripe serve d0.img d1.img copy/d1.img d2.img d3.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "Firmware could not read the array",
        "drives",
        "fullstripe create vol1 --level 5 --chunk 256k d0.img d1.img d2.img",
        "fullstripe list d0.img d1.img d2.img | grep vol1",
    ),
    case(
        "The name of the volume was left out",
        "drives",
        "fullstripe create d0.img d1.img --level 1",
        "fullstripe list d0.img d1.img | grep vol1",
    ),
    // Starting an array
    case(
        "A drive is missing",
        "made",
        "fullstripe serve d0.img d1.img d2.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "A file was renamed",
        "made; mv d1.img renamed.img",
        "fullstripe assemble d0.img renamed.img d2.img d3.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "More drives are missing than the level survives",
        "made",
        "fullstripe serve d0.img d1.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "A drive holds an old copy",
        "made; cp --sparse=always d2.img old; for life in 1 2; do up $all; put; down; done; mv old d2.img",
        "fullstripe serve $all",
        "is 'vol0 is optimal'",
    ),
    case(
        "Not stopped cleanly, and a drive is missing",
        "made --write-hole off; up $all; put; crash",
        "fullstripe serve --degraded d0.img d1.img d2.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "The write-hole log is torn",
        "made; up $all; put; crash
at=$(fullstripe examine d0.img | sed -n 's/.*write-hole log at byte \\([0-9]*\\).*/\\1/p')
tr '\\0' x < /dev/zero | dd of=d0.img bs=4096 seek=$((at / 4096)) count=16 conv=notrunc iflag=fullblock status=none",
        "fullstripe serve --degraded d0.img d1.img d2.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "Each half went on without the other",
        "drives; fullstripe create vol1 --level 1 d0.img d1.img > made.txt; uri=${uri/vol0/vol1}
for half in d0.img d1.img; do up --degraded $half; put; down; done",
        "fullstripe serve d0.img d1.img",
        "is 'vol1 is optimal'",
    ),
    case(
        "Drives of two arrays",
        "made; fullstripe create vol1 --level 1 d4.img d5.img > more.txt",
        "fullstripe serve $all d4.img d5.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "No array on the drives",
        "made",
        "fullstripe serve d4.img d5.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "The records of an array are gone",
        "made; fullstripe metadata save -o before.json $all
for drive in $all; do dd if=/dev/zero of=$drive bs=512 seek=131070 count=1 conv=notrunc status=none; done",
        "fullstripe serve $all",
        "is 'vol0 is optimal'",
    ),
    case(
        "Other RAID metadata behind the data",
        // Writes the magic number of an md superblock of version 0.90.
        "made; printf '\\xfc\\x4e\\x2b\\xa9' | dd of=d1.img bs=1 seek=$((0x3ff0000)) conv=notrunc status=none",
        "fullstripe serve $all",
        "is 'vol0 is optimal'",
    ),
    case(
        "The first synchronisation was not finished, and a drive is missing",
        "made --no-zero",
        "fullstripe serve --degraded d0.img d1.img d2.img",
        "is 'vol0 is degraded' && fullstripe stop --wait && fullstripe assemble $all | grep '4 of 4'",
    ),
    case(
        "A second volume needs the missing drive",
        "drives; fullstripe create raid5 --level 5 --size 60m d0.img d1.img d2.img > made.txt
fullstripe create raid0 --level 0 d0.img d1.img d2.img > made.txt; up --degraded d0.img d1.img; down",
        "timeout 20 fullstripe serve d0.img d1.img d2.img & ready; down",
        "is 'raid5 and raid0 are optimal'",
    ),
    // The process and its machine
    case(
        "Nobody serves",
        "made",
        "fullstripe status",
        "is 'vol0 is optimal'",
    ),
    case(
        "Somebody else serves there",
        "made; up $all; truncate -s 64M e0.img e1.img; fullstripe create vol1 --level 1 e0.img e1.img > more.txt",
        "fullstripe serve e0.img e1.img --nbd unix:$PWD/nbd.sock",
        "fullstripe status --check --socket $PWD/api-1 && is 'vol0 is optimal'",
    ),
    only_provoked(
        "No permission on the socket",
        "root; need other $REAL --version; chmod 755 .; made; up $all",
        "other $REAL status --socket $PWD/api",
    ),
    only_provoked(
        "No permission to give orders",
        "root; need other $REAL --version; chmod 755 .; made; up $all; chgrp 65534 api; chmod 660 api",
        "other $REAL status --socket $PWD/api > read.txt; other $REAL fail d2.img --socket $PWD/api",
    ),
    only_provoked(
        "No permission on the drives",
        "root; need other $REAL --version; chmod 755 .; made; chmod 600 $all; mkdir -m 777 free",
        "other $REAL serve $PWD/d0.img $PWD/d1.img $PWD/d2.img $PWD/d3.img --socket $PWD/free/api",
    ),
    only_provoked(
        "io_uring is forbidden",
        "need python3 -V; made",
        "no_io_uring 1 fullstripe serve $all",
    ),
    only_provoked(
        "The kernel has no io_uring",
        "need python3 -V; made",
        "no_io_uring 38 fullstripe serve $all",
    ),
    case(
        "Too little memory for the data threads",
        "made",
        "fullstripe serve $all --shards 16 --memory 8m",
        "is 'vol0 is optimal'",
    ),
    case(
        "Memory cannot be had",
        "made",
        "(ulimit -v 4000000; fullstripe serve $all --memory 16g)",
        "is 'vol0 is optimal'",
    ),
    only_provoked(
        "Memory cannot be locked",
        "root; need other $REAL --version; chmod 755 .; drives",
        "(ulimit -l 64; other $REAL doctor $PWD/d0.img)",
    ),
    case(
        "Too many open files",
        "made",
        // How many files this process inherits depends on who runs the test.
        "open=$(ls /proc/self/fd | wc -l); for more in 8 9 10 11; do (ulimit -n $((open + more)); fullstripe serve $all); done",
        "is 'vol0 is optimal'",
    ),
    case(
        "The folder of the socket is missing",
        "made",
        "fullstripe serve $all --nbd unix:sockets/vol0.sock",
        "is 'vol0 is optimal'",
    ),
    case(
        "A TCP address needs certificates",
        "made",
        "fullstripe serve $all --nbd tcp:127.0.0.1",
        "is 'vol0 is optimal'",
    ),
    case(
        "The key may be read by others",
        "need openssl version; made; mkdir tls; openssl req -x509 -newkey ed25519 -nodes -subj /CN=x -keyout tls/server-key.pem \
         -out tls/ca-cert.pem 2> openssl.txt; cp tls/ca-cert.pem tls/server-cert.pem; chmod 644 tls/server-key.pem",
        "fullstripe serve $all --nbd tcp:127.0.0.1:0 --tls tls",
        "is 'vol0 is optimal'",
    ),
    // While it runs
    case(
        "A volume is degraded",
        "made; up $all; truncate -s 32M d1.img; put; until [ \"$(fullstripe status --check)\" != 'vol0 is optimal' ]; do sleep 0.1; done",
        "fullstripe status",
        "is 'vol0 is optimal' && fullstripe status | grep 'slot 1 .*d4.img'",
    ),
    case(
        "A drive is gone",
        "root; drives; losetup -f --show d1.img > loops; mixed=\"d0.img $(cat loops) d2.img d3.img\"; \
         fullstripe create vol0 --level 5 --chunk 64k $mixed > made.txt; up $mixed; truncate -s 0 d1.img; \
         losetup --set-capacity $(cat loops); until [ \"$(fullstripe status --check)\" != 'vol0 is optimal' ]; do sleep 0.1; done",
        "fullstripe status",
        "is 'vol0 is optimal' && fullstripe status | grep 'slot 1 .*d4.img'",
    ),
    case(
        "A rebuild does not start",
        "made; up $all; fullstripe fail d2.img 2> fail.txt",
        "fullstripe rebuild vol0",
        "is 'all volumes are whole without d2.img'",
    ),
    case(
        "The spare is too small",
        "made; up $all; fullstripe fail d2.img 2> fail.txt; truncate -s 20M small.img",
        "fullstripe add-spare small.img",
        "is 'all volumes are whole without d2.img'",
    ),
    case(
        "The spare holds an array's metadata",
        "made; up $all; fullstripe fail d2.img 2> fail.txt; fullstripe remove d2.img",
        "fullstripe add-spare d2.img",
        "is 'vol0 is optimal'",
    ),
    case(
        "A drive is needed",
        "made; up $all; fullstripe fail d2.img 2> fail.txt",
        "fullstripe fail vol0:1 < /dev/null",
        "fullstripe status | grep 'slot 1 .*d5.img'",
    ),
    case(
        "A volume has failed",
        "made; up $all; fullstripe fail d2.img 2> fail.txt; fullstripe fail d1.img --yes 2> fail.txt",
        "fullstripe status",
        "is 'vol0 is optimal'",
    ),
    case(
        "A scrub found mismatches",
        "made; printf garbled | dd of=d1.img bs=1 seek=1000000 conv=notrunc status=none; up $all",
        "fullstripe scrub vol0 --wait",
        "fullstripe scrub vol0 --report",
    ),
    case(
        "A scrub is not begun",
        "made; up $all --rate 1m; fullstripe scrub vol0",
        "fullstripe scrub vol0",
        "is 'vol0 is optimal'",
    ),
    case(
        "No such drive in the array",
        "made; up $all",
        "fullstripe fail d9.img",
        "is 'vol0 is degraded: slot 2 (d2.img) failed'",
    ),
    // Clients
    case(
        "The export has another name",
        "made; up $all",
        "nbdinfo \"nbd+unix:///vol9?socket=$PWD/nbd.sock\"",
        "true",
    ),
    case(
        "TLS is asked for",
        "made; up $all",
        "nbdinfo \"nbds+unix:///vol0?socket=$PWD/nbd.sock\"",
        "true",
    ),
    case(
        "The volume is smaller than what is copied",
        "made; up $all; truncate -s 300M large.bin",
        "nbdcopy large.bin \"$uri\"",
        "true",
    ),
    case(
        "The volume cannot be written to",
        "made; up --read-only $all; truncate -s 1M small.bin",
        "nbdcopy small.bin \"$uri\"",
        "is 'vol0 is optimal'",
    ),
    case(
        "mdadm finds nothing behind loop devices",
        "root; need mdadm --version; made; loop=$(losetup -f --show d0.img); echo $loop > loops",
        "mdadm --examine $loop",
        "IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1 mdadm --examine $loop | grep vol0",
    ),
    // Planning
    case(
        "The drive or platform is not known",
        "",
        "fullstripe plan --drive p4510 --platform s2600wft-8170",
        "true",
    ),
    case(
        "The plan has too many drives",
        "",
        "fullstripe plan --drive p4510-2tb --platform s2600wft-8170 --count 40 --level 5",
        "true",
    ),
    case(
        "A key of a file is not known",
        "sed 's/^host/hsot/' figures.toml > mine.toml",
        "fullstripe predict mine.toml",
        "true",
    ),
];

//! The sockets of a server of root, on a machine that has the group `fullstripe`.

use crate::common::{Bed, MIB, is_root, run, tool};

/// Runs with a list of groups of its own: serves, and prints mode and group of both sockets.
const SCRIPT: &str = r#"
set -e
mount --bind "$PWD/groups" /etc/group
"$0" serve d0 d1 --memory 16m --nbd "unix:$PWD/nbd" --socket "$PWD/api" > served 2>&1 &
until "$0" status --socket "$PWD/api" > status 2>&1; do kill -0 $!; sleep 0.1; done
stat --format '%n %a %g' api nbd
"#;

#[test]
fn the_api_is_opened_to_the_group_and_nbd_is_not() {
    if !is_root("the_api_is_opened_to_the_group_and_nbd_is_not") {
        return eprintln!("left out: only root's server opens its socket to a group");
    }
    let own_mounts = ["--mount", "--pid", "--fork", "--kill-child"];
    if !run(tool("unshare").args(own_mounts).arg("true"), 10)
        .status
        .success()
    {
        return eprintln!("left out: this machine allows no mounts that only a test sees");
    }
    for (groups, wanted) in [
        (
            "root:x:0:\nfullstripe:x:61001:\n",
            "api 660 61001\nnbd 600 0\n",
        ),
        ("root:x:0:\n", "api 600 0\nnbd 600 0\n"),
    ] {
        let bed = Bed::new(2, 16 * MIB);
        bed.create("data", 1, bed.drives(), &[]);
        std::fs::write(bed.path("groups"), groups).expect("room for a file");
        let mut command = tool("unshare");
        command.args(own_mounts).args(["sh", "-c", SCRIPT]);
        command.arg(env!("CARGO_BIN_EXE_fullstripe"));
        command
            .current_dir(bed.path(""))
            .env("HOME", bed.path(""))
            .env("XDG_STATE_HOME", bed.path(""));
        assert_eq!(run(&mut command, 60).ok().out, wanted, "{groups}");
    }
}

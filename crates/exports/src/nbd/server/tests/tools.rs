//! Other projects' clients. A client that is not installed is reported and skipped.

use std::process::{Command, Output};

use super::client::pattern;
use super::rig::{Plan, Rig};
use crate::nbd::server::NewListener;
use engine::layout::Level;

/// Runs a client for at most 60 seconds. Returns `None` if it is not installed.
fn client(program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new("timeout")
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
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{:?}: {errors} {text}",
        output.status
    );
    text
}

fn address(rig: &Rig, export: &str) -> String {
    format!("nbd+unix:///{export}?socket={}", rig.path.display())
}

#[test]
fn nbdinfo_sees_the_exports() {
    let rig = Rig::with(|_| ());
    let Some(output) = client("nbdinfo", &[&address(&rig, "vol0-ro")]) else {
        return;
    };
    let text = text_of_success(&output);
    for fact in [
        "is_read_only: true",
        "can_multi_conn: true",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(fact), "{fact} is missing in {text}");
    }
    let list = text_of_success(&client("nbdinfo", &["--list", &address(&rig, "")]).unwrap());
    assert!(list.contains("export=\"vol1\""), "{list}");
    let map = text_of_success(&client("nbdinfo", &["--map", &address(&rig, "vol0")]).unwrap());
    assert!(map.contains("data"), "{map}");
    let unknown = client("nbdinfo", &[&address(&rig, "nowhere")]).unwrap();
    assert!(!unknown.status.success());
    rig.wait_until_idle();
}

#[test]
fn nbdcopy_moves_every_byte_both_ways() {
    let rig = Rig::with(|plan| plan.shards = 2);
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let content = pattern(3, rig.size_bytes as usize);
    std::fs::write(&source, &content).unwrap();
    let (source, target_text) = (source.to_str().unwrap(), target.to_str().unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp_address = format!("nbd://{}/vol0", listener.local_addr().unwrap());
    rig.mail(1, NewListener(listener.into()));
    for options in [&["--flush"][..], &["--request-size=4096", "--requests=128"]] {
        let address = address(&rig, "vol0");
        let upload = [options, &["--connections=4", source, &address]].concat();
        let Some(upload) = client("nbdcopy", &upload) else {
            return;
        };
        text_of_success(&upload);
        // Over TCP, small requests would take this client many seconds with any server.
        for from in [
            &[options, &[address.as_str()]].concat()[..],
            &[&tcp_address],
        ] {
            let download = [from, &[target_text]].concat();
            text_of_success(&client("nbdcopy", &download).unwrap());
            let copy = std::fs::read(&target).unwrap();
            assert!(copy == content, "the download differs from its source");
            std::fs::remove_file(&target).unwrap();
        }
    }
    rig.wait_until_idle();
}

#[test]
fn qemu_io_finds_its_patterns() {
    let rig = Rig::with(|_| ());
    let commands = [
        "write -P 0x11 0 32M",
        "write -f -P 0x22 32M 1M",
        "write -z 4k 64k",
        "discard 40M 8M",
        "flush",
        "read -P 0x11 0 4k",
        "read -P 0 4k 64k",
        "read -P 0x11 68k 31M",
        "read -P 0x22 32M 1M",
        "aio_write -P 0x33 1k 512",
        "aio_read 0 16M",
        "aio_flush",
        "read -P 0x33 1k 512",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands
        .iter()
        .for_each(|command| arguments.extend(["-c", command]));
    let address = address(&rig, "vol0");
    arguments.push(&address);
    let Some(output) = client("qemu-io", &arguments) else {
        return;
    };
    let text = text_of_success(&output);
    assert!(
        !text.contains("failed") && !text.contains("error"),
        "{text}"
    );
    rig.wait_until_idle();
}

fn fio(rig: &Rig, job: &[&str]) -> Option<String> {
    let uri = format!("--uri={}", address(rig, "vol0"));
    let common = [
        "--name=job",
        "--ioengine=nbd",
        "--thread",
        &uri,
        "--group_reporting",
    ];
    let output = client("fio", &[&common, job].concat())?;
    Some(text_of_success(&output))
}

#[test]
fn fio_verifies_what_it_wrote() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid10, 4), (Level::Raid0, 2)] {
        let rig = Rig::new(Plan {
            level,
            members,
            shards: 2,
            component_bytes: 24 << 20,
            ..Plan::default()
        });
        let job = [
            "--rw=randwrite",
            "--bsrange=512-256k",
            "--size=24m",
            "--iodepth=32",
            "--verify=crc32c",
            "--verify_state_save=0",
            "--do_verify=1",
            "--verify_fatal=1",
            "--randseed=7",
        ];
        let Some(text) = fio(&rig, &job) else { return };
        assert!(text.contains("err= 0"), "{text}");
        rig.wait_until_idle();
    }
}

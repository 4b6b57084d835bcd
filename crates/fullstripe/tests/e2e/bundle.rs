//! `doctor --bundle`: what is in the file, what is not, and that no secret is.

use crate::common::{Bed, MIB, run, tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";
/// How long a bundle may take on a machine where one server hangs.
const WITHIN_S: u64 = 120;

/// Makes `b.tar.gz`, with this socket as the usual one, and returns its manifest and its files by name.
fn bundle(bed: &Bed, settings: &str, socket: &Path) -> (Value, BTreeMap<String, String>) {
    let words = [
        "doctor",
        "--bundle",
        "b.tar.gz",
        "--json",
        "--settings",
        settings,
    ];
    let mut command = bed.fullstripe(&words);
    let said = run(command.env("FULLSTRIPE_SOCKET", socket), WITHIN_S).ok();
    let manifest: Value = serde_json::from_str(&said.out).expect("JSON");
    let mode = fs::metadata(bed.path("b.tar.gz"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    run(
        tool("tar")
            .arg("-xzf")
            .arg(bed.path("b.tar.gz"))
            .arg("-C")
            .arg(bed.path("")),
        60,
    )
    .ok();
    let mut files = BTreeMap::new();
    read_all(&bed.path("b"), "", &mut files);
    let listed = manifest["files"].as_array().unwrap().iter();
    for file in listed {
        let name = file["name"].as_str().unwrap();
        let content = files
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing: {manifest:#}"));
        assert_eq!(file["length_bytes"], content.len(), "{name}");
    }
    assert_eq!(files.len(), 1 + manifest["files"].as_array().unwrap().len());
    let inside: Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    assert_eq!(inside, manifest);
    (manifest, files)
}

fn read_all(folder: &Path, prefix: &str, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            read_all(&path, &format!("{name}/"), into);
        } else {
            into.insert(name, fs::read_to_string(path).unwrap());
        }
    }
}

/// Why the piece whose description contains `words` is missing.
fn reason(manifest: &Value, words: &str) -> Option<String> {
    let missing = manifest["missing"].as_array().unwrap().iter();
    let mut found = missing.filter(|one| one["about"].as_str().unwrap().contains(words));
    found
        .next()
        .map(|one| one["reason"].as_str().unwrap().to_owned())
}

#[track_caller]
fn expect_no_secret(files: &BTreeMap<String, String>, secrets: &[&str]) {
    for (name, content) in files {
        for secret in secrets {
            assert!(
                !content.contains(secret),
                "{secret} is in {name}: {content}"
            );
        }
    }
}

#[test]
fn a_bundle_has_what_helps_and_no_secret() {
    let bed = Bed::new(3, 32 * MIB);
    bed.create("data", 5, bed.drives(), &["--chunk", "64k"]);
    // The hook repeats its token on standard error, and its command is on the server's command line.
    let hook = "echo t0ken-of-hook >&2; exit 1";
    let server = bed
        .serve(bed.drives())
        .option(&["--on-event", hook])
        .start();
    server.order(&["fail", "d1"]).ok();
    server.wait_event("member-failed", "", 20);
    // A server that hangs takes connections and never answers.
    let hangs = bed.path("hangs.sock");
    let _hangs = UnixListener::bind(&hangs).unwrap();
    let file = bed.path("webhook");
    fs::write(
        &file,
        "https://root:mailpassw0rd@h.example/in/T0KENINFILE\n",
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = bed.path("settings.toml");
    let text = format!(
        "[array.fast]\nuuid = '{UUID}'\nshards = 2\non_event = \"curl -H 'Authorization: Bearer b3arer-token' https://h.example\"\n\
         [alerts]\nmail = ['root']\nexec = 'mailer smtp://me:smtppassw0rd@h.example'\nwebhook_file = '{}'\n\
         ping = 'https://p.example/PINGT0KEN'\n",
        file.display()
    );
    fs::write(&settings, text).unwrap();
    // The program looks for servers at this place too.
    let mut command = bed.fullstripe(&["doctor"]);
    command.env("FULLSTRIPE_SOCKET", &hangs);
    let begin = Instant::now();
    let words = ["--bundle", "b.tar.gz", "--settings", "settings.toml"];
    let said = run(command.args(words), WITHIN_S).ok();
    assert!(begin.elapsed() < Duration::from_secs(WITHIN_S));
    assert!(said.out.starts_with("b.tar.gz: "), "{said}");
    let line = said.out.lines().find(|line| line.contains("hangs.sock"));
    assert!(
        line.is_some_and(|line| line.starts_with("not in it: status of the server at ")),
        "{said}"
    );
    fs::remove_file(bed.path("b.tar.gz")).unwrap();

    // One that was killed leaves its socket. That nobody answers there is told with the command line of one that serves.
    let killed = bed.path("killed.sock");
    drop(UnixListener::bind(&killed).unwrap());
    let (manifest, files) = bundle(&bed, "settings.toml", &killed);
    let told = reason(&manifest, "killed.sock").unwrap();
    assert!(told.contains("no array is being served at"), "{told}");
    assert!(told.contains("is `fullstripe serve "), "{told}");
    expect_no_secret(
        &files,
        &[
            "t0ken-of-hook",
            "mailpassw0rd",
            "T0KENINFILE",
            "b3arer-token",
            "smtppassw0rd",
            "PINGT0KEN",
        ],
    );
    let parsed = |name: &str| -> Value { serde_json::from_str(&files[name]).unwrap() };
    let fast = &parsed("settings.json")["arrays"]["fast"];
    assert_eq!(fast["shards"], 2);
    assert_eq!(fast["on_event"], "(given)");
    assert_eq!(parsed("settings.json")["alerts"]["exec"], "(given)");
    assert!(parsed("doctor.json")["findings"].is_array());
    let about = format!("status of the server at {}", server.api_socket().display());
    let statuses = manifest["files"].as_array().unwrap().iter();
    let status = statuses
        .clone()
        .find(|file| file["about"] == json!(about))
        .expect("the status");
    let status = parsed(status["name"].as_str().unwrap());
    assert_eq!(status["volumes"][0]["state"], "degraded");
    let uuid = status["container_uuid"].as_str().map(str::to_owned);
    let events = files.iter().filter(|(name, _)| name.starts_with("events/"));
    let events: Vec<&String> = events.map(|(_, content)| content).collect();
    assert_eq!(events.len(), 1, "{uuid:?} {:?}", files.keys());
    assert!(events[0].contains("member-failed"), "{}", events[0]);
    // Each drive's records, although the server has the drives.
    for at in 0..3 {
        let about = format!("records on {}", bed.drive(at).display());
        let listed = statuses.clone().find(|file| file["about"] == json!(about));
        let name =
            listed.unwrap_or_else(|| panic!("{about} is missing: {manifest:#}"))["name"].as_str();
        assert!(parsed(name.unwrap())["drives"][0]["record"].is_object());
    }
    assert!(files["system/cmdline.txt"] == fs::read_to_string("/proc/cmdline").unwrap());
    assert!(files["system/modules.txt"].contains("ublk_drv: "));
    for (piece, program) in [("journal", "journalctl"), ("block devices", "lsblk")] {
        let is_there = Command::new(program).arg("--version").output().is_ok();
        match reason(&manifest, piece) {
            None => assert!(is_there, "{program}"),
            Some(reason) => assert!(is_there || reason.contains("is not installed"), "{reason}"),
        }
    }
    server.stop();
}

#[test]
fn a_mistake_in_the_settings_is_not_quoted() {
    let bed = Bed::new(0, 0);
    let settings = bed.path("settings.toml");
    let text = "[alerts]\nwebhook = 'https://me:passw0rd7@h.example/'\nexec = ['b3arer-token']\n";
    fs::write(&settings, text).unwrap();
    let (manifest, files) = bundle(&bed, "settings.toml", &bed.path("none.sock"));
    expect_no_secret(&files, &["passw0rd7", "b3arer-token"]);
    let reason = reason(&manifest, "settings, from").unwrap();
    assert_eq!(
        reason,
        "the file cannot be used; `fullstripe config check` says why"
    );
}

#[test]
fn an_existing_file_or_another_kind_of_file_is_refused() {
    let bed = Bed::new(0, 0);
    fs::write(bed.path("b.tar.gz"), "mine").unwrap();
    let make = |name: &str| run(&mut bed.fullstripe(&["doctor", "--bundle", name]), 60);
    let said = make("b.tar.gz")
        .refused("b.tar.gz exists already; remove it, or give the bundle another name");
    assert_eq!(said.err.lines().count(), 1, "{said}");
    assert_eq!(fs::read(bed.path("b.tar.gz")).unwrap(), b"mine");
    make("b.zip").refused("give it a name that ends with .tar.gz");
    make("none/b.tar.gz").refused("cannot make none/b.tar.gz");
}

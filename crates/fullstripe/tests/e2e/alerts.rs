//! `serve --array` with `[alerts]` in its settings file: whom it tells of what, by a mail program, a webhook and a
//! command; what it makes of alerts that did not arrive when it was killed; and settings that change while it serves.
//!
//! The drives are loop devices, because `serve --array` finds its drives among the machine's block devices.

use crate::common::{Bed, Loop, MIB, Server, Starting, WebServer, is_root};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A RAID 5 of three loop devices, a fourth one, and whoever is to be told.
struct Rig {
    // Dropped in this order: the devices before the files behind them.
    loops: Vec<Loop>,
    web: WebServer,
    uuid: String,
    bed: Bed,
}

impl Rig {
    /// `None` if this process may not make loop devices; it says so.
    fn new(test: &str) -> Option<Rig> {
        if !is_root(test) {
            return None;
        }
        let bed = Bed::new(4, 64 * MIB);
        let loops: Vec<Loop> = (0..4).map(|at| Loop::over(bed.drive(at), &[])).collect();
        let devices: Vec<PathBuf> = loops.iter().map(|one| one.device().to_owned()).collect();
        let made = bed.create("vol", 5, &devices[..3], &["--chunk", "64k", "--json"]);
        let made: Value = serde_json::from_str(&made.out).expect("JSON");
        let sendmail = bed.path("sendmail");
        let script = format!("#!/bin/sh\ncat >> {}\n", bed.path("mails").display());
        fs::write(&sendmail, script).unwrap();
        fs::set_permissions(&sendmail, fs::Permissions::from_mode(0o755)).unwrap();
        Some(Rig {
            loops,
            web: WebServer::start(),
            uuid: made["container_uuid"].as_str().unwrap().to_owned(),
            bed,
        })
    }

    /// Writes the settings file; alerts go by mail, to the webhook, and to `command`.
    fn settings(&self, array: &str, command: &str) {
        let text = format!(
            "[array.fast]\nuuid = '{}'\nattach = 'off'\nmemory = '48m'\nnbd = ['unix:{}']\n{array}\n\
             [alerts]\nmail = ['root']\nsendmail = '{}'\nwebhook = '{}/hook'\nexec = '{command}'\n",
            self.uuid,
            self.bed.path("nbd").display(),
            self.bed.path("sendmail").display(),
            self.web.url
        );
        fs::write(self.bed.path("settings.toml"), text).unwrap();
    }

    fn serve(&self) -> Starting<'_> {
        self.bed
            .serve_array("fast", &self.bed.path("settings.toml"))
    }

    fn device(&self, at: usize) -> &str {
        self.loops[at].device().to_str().unwrap()
    }

    /// A command that writes the kinds of alerts to this file.
    fn notes(&self, name: &str) -> String {
        format!(
            "echo $FULLSTRIPE_EVENT >> {}",
            self.bed.path(name).display()
        )
    }

    /// The kinds of alerts in a file that [`Rig::notes`] filled.
    fn noted(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.bed.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The subject of each mail.
    fn mails(&self) -> Vec<String> {
        let text = fs::read_to_string(self.bed.path("mails")).unwrap_or_default();
        let subjects = text
            .lines()
            .filter_map(|line| line.strip_prefix("Subject: "));
        subjects.map(str::to_owned).collect()
    }

    fn posted(&self) -> Vec<String> {
        kinds(&self.web.accepted())
    }

    #[track_caller]
    fn wait_until(&self, what: &str, server: &Server<'_>, is_true: impl Fn() -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !is_true() {
            assert!(
                Instant::now() < give_up,
                "not within {PATIENCE:?}: {what}; noted {:?}, posted {:?}, mails {:?}, events {:#?}, said {}",
                self.noted("calls"),
                self.posted(),
                self.mails(),
                server.events(),
                server.words()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn kinds(bodies: &[Value]) -> Vec<String> {
    let kinds = bodies.iter().map(|body| body["kind"].as_str());
    kinds
        .map(|kind| kind.unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_failure_and_its_end_are_told_once_by_every_way() {
    let Some(rig) = Rig::new("a_failure_and_its_end_are_told_once_by_every_way") else {
        return;
    };
    rig.settings(
        &format!("spares = ['{}']", rig.device(3)),
        &rig.notes("calls"),
    );
    let server = rig.serve().start();
    // Nobody has ordered anything: the array is scrubbed once a month.
    let scrub = &server.status()["volumes"][0]["scrub"];
    assert_eq!(scrub["every_s"], 30 * 86_400, "{scrub}");
    server.order(&["fail", "vol:1"]).ok();
    let both = ["member-failed", "resolved"];
    rig.wait_until("the end of the problem is told", &server, || {
        rig.noted("calls").contains(&both[1].to_owned())
            && rig.posted().len() >= 2
            && rig.mails().len() >= 2
    });
    // Anything that is told twice would have come by now.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(rig.noted("calls"), both);
    assert_eq!(rig.posted(), both);
    let mails = rig.mails();
    assert_eq!(mails.len(), 2, "{mails:?}");
    assert!(mails[0].contains("critical: array fast: "), "{mails:?}");
    assert!(mails[1].contains("resolved: "), "{mails:?}");
    assert_eq!(server.volume_state(0), "optimal");
    server.stop();
}

#[test]
fn an_alert_that_a_killed_server_could_not_send_is_sent_by_the_next() {
    let Some(rig) = Rig::new("an_alert_that_a_killed_server_could_not_send_is_sent_by_the_next")
    else {
        return;
    };
    rig.settings("", &rig.notes("calls"));
    rig.web.refuse(true);
    let server = rig.serve().start();
    server.order(&["fail", "vol:1"]).ok();
    let kept = rig
        .bed
        .path(&format!("fullstripe/arrays/{}/alerts.json", rig.uuid));
    let waits = || {
        let text = fs::read_to_string(&kept).unwrap_or_default();
        let book: Value = serde_json::from_str(&text).unwrap_or_default();
        let waiting = book["waiting"].as_array().cloned().unwrap_or_default();
        waiting.len() == 1 && waiting[0]["way"] == "webhook" && waiting[0]["attempts"] == 1
    };
    rig.wait_until("only the webhook is left to be told", &server, || {
        rig.noted("calls") == ["member-failed"] && rig.mails().len() == 1 && waits()
    });
    assert_eq!(kinds(&rig.web.refused()), ["member-failed"]);
    server.kill();
    rig.web.refuse(false);
    let server = rig.serve().start();
    rig.wait_until("the webhook is told of the drive", &server, || {
        rig.posted().contains(&"member-failed".to_owned())
    });
    std::thread::sleep(Duration::from_secs(3));
    let told = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "member-failed").count();
    assert_eq!(told(&rig.posted()), 1, "{:?}", rig.posted());
    assert_eq!(told(&rig.noted("calls")), 1, "{:?}", rig.noted("calls"));
    let body = rig
        .web
        .accepted()
        .into_iter()
        .find(|body| body["kind"] == "member-failed");
    assert_eq!(body.unwrap()["array"], "fast");
    server.stop();
}

/// Nothing uses a spare, so nobody else would notice that it is gone.
#[test]
fn a_spare_that_is_gone_when_the_array_is_served_again_is_told_of_once() {
    let name = "a_spare_that_is_gone_when_the_array_is_served_again_is_told_of_once";
    let Some(mut rig) = Rig::new(name) else {
        return;
    };
    rig.settings("degraded_after_s = 0", &rig.notes("calls"));
    let kept = rig
        .bed
        .path(&format!("fullstripe/arrays/{}/settings.json", rig.uuid));
    let knows_a_spare = |kept: &PathBuf| {
        let text = fs::read_to_string(kept).unwrap_or_default();
        let all: Value = serde_json::from_str(&text).unwrap_or_default();
        all["spares"].as_array().is_some_and(|all| all.len() == 1)
    };
    let server = rig.serve().start();
    server.order(&["add-spare", rig.device(3)]).ok();
    rig.wait_until("the spare is kept", &server, || knows_a_spare(&kept));
    server.stop();
    // It notes whose it is, and is there again.
    let server = rig.serve().start();
    server.wait_event("drive-taken", "was a spare of this array before", 10);
    std::thread::sleep(Duration::from_secs(6));
    assert!(knows_a_spare(&kept), "{:#?}", server.events());
    server.stop();
    drop(rig.loops.pop());
    let server = rig.serve().start();
    server.wait_event("spare-missing", "the array has no other spare", 20);
    rig.wait_until("the alert is sent", &server, || rig.mails().len() == 1);
    assert!(!knows_a_spare(&kept));
    server.stop();
    let server = rig.serve().start();
    std::thread::sleep(Duration::from_secs(6));
    server.stop();
    assert_eq!(rig.noted("calls"), ["spare-missing"]);
}

#[test]
fn changed_alerts_count_after_a_reload_and_a_mistake_changes_nothing() {
    let Some(rig) = Rig::new("changed_alerts_count_after_a_reload_and_a_mistake_changes_nothing")
    else {
        return;
    };
    rig.settings("", &rig.notes("calls"));
    let server = rig.serve().start();
    let file = rig.bed.path("settings.toml");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("exec = ", "exce = ")).unwrap();
    server.signal(Signal::HUP);
    rig.wait_until("the mistake is told", &server, || {
        server.words().contains("alerts has no key \"exce\"")
    });
    assert!(
        server.words().contains("alerts are sent as before"),
        "{}",
        server.words()
    );
    server.order(&["fail", "vol:1"]).ok();
    rig.wait_until("the old command is told", &server, || {
        rig.noted("calls") == ["member-failed"]
    });

    rig.settings("shards = 2", &rig.notes("new_calls"));
    server.signal(Signal::HUP);
    rig.wait_until("the settings are read", &server, || {
        server
            .words()
            .contains("alerts are sent as the settings say now")
    });
    assert!(
        server.words().contains("from its next start on"),
        "{}",
        server.words()
    );
    server.order(&["add-spare", rig.device(3)]).ok();
    rig.wait_until("the new command is told", &server, || {
        rig.noted("new_calls") == ["resolved"]
    });
    assert_eq!(rig.noted("calls"), ["member-failed"]);
    server.stop();
}

/// As systemd does it: it starts the process again and again, until somebody corrects the settings.
#[test]
fn an_array_that_does_not_start_is_told_once_and_so_is_its_start() {
    let Some(rig) = Rig::new("an_array_that_does_not_start_is_told_once_and_so_is_its_start")
    else {
        return;
    };
    rig.settings("vhost_user = '/proc/none'", &rig.notes("calls"));
    for _ in 0..3 {
        let refused = rig.serve().try_start().err().expect("it does not start");
        assert!(
            refused.contains("cannot make the folder /proc/none"),
            "{refused}"
        );
    }
    assert_eq!(rig.noted("calls"), ["array-not-started"]);
    assert_eq!(rig.posted(), ["array-not-started"]);
    let mails = rig.mails();
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert!(
        mails[0].contains("critical: array fast: not started: "),
        "{mails:?}"
    );
    rig.settings("", &rig.notes("calls"));
    let server = rig.serve().start();
    rig.wait_until("the start is told", &server, || {
        rig.noted("calls").len() == 2 && rig.posted().len() == 2 && rig.mails().len() == 2
    });
    assert_eq!(rig.noted("calls")[1], "resolved");
    assert!(rig.mails()[1].contains("resolved: the array is served"));
    server.stop();
}

//! A served array whose drive is failed and replaced: what its operator is told, by mail, by webhook and by a command.

use alerts::{Severity, Ways};
use drives::completion::CompletionMode;
use engine::layout::Level;
use hyper::Method;
use metadata::imsm::start::StartOptions;
use serde_json::{Value, json};
use server::client::Client;
use server::events::Told;
use server::{AlertOptions, Audience, Hearer, Ping, Prepared, ScrubEvery, ServeOptions};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps what is said.
#[derive(Default)]
struct Ears(Mutex<Vec<String>>);

impl Hearer for Ears {
    fn say(&self, sentence: &dyn Display) {
        self.0.lock().unwrap().push(sentence.to_string());
    }

    fn event(&self, event: &Told, _: Audience) {
        self.say(&event.text);
    }
}

type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A web server that keeps the first line and the body of each request.
fn web_server() -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Requests::default();
    let kept = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            kept.lock().unwrap().push((head[0].clone(), body));
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, requests)
}

/// A program that takes mail and appends it to `mails`.
fn sendmail(folder: &Path) -> PathBuf {
    let path = folder.join("sendmail");
    let script = format!("#!/bin/sh\ncat >> {}\n", folder.join("mails").display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn options(folder: &Path, alerts: AlertOptions) -> ServeOptions {
    ServeOptions {
        drives: (0..3).map(|at| format!("ram:32m,serial=S{at}")).collect(),
        scratch: Some(Level::Raid5),
        spares: Vec::new(),
        exports: Vec::new(),
        socket: Some(folder.join("api.sock")),
        shards: 1,
        payload_bytes: 32 << 20,
        completion: CompletionMode::Interrupt,
        start: StartOptions::default(),
        read_only: false,
        auto_rebuild: true,
        rate_bytes_per_s: None,
        scrub_every: ScrubEvery::default(),
        member_deadline: Duration::from_secs(30),
        on_event: None,
        newcomers: None,
        alerts: Some(alerts),
        sockets_are_kept: false,
        backup: None,
    }
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < give_up, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_failed_drive_is_told_once_by_every_way_and_so_is_the_end_of_the_problem() {
    let folder = tempfile::tempdir().unwrap();
    let (url, requests) = web_server();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let kinds = || -> Vec<Value> {
        let requests = requests.lock().unwrap();
        let posts = requests
            .iter()
            .filter(|(line, _)| line.starts_with("POST /hook "));
        posts.map(|(_, body)| body["kind"].clone()).collect()
    };
    let calls = folder.path().join("calls");
    let options = options(
        folder.path(),
        AlertOptions {
            array: "fast".to_owned(),
            ways: Ways {
                mail: vec!["root".to_owned()],
                sendmail: Some(sendmail(folder.path())),
                webhook: Some(format!("{url}/hook")),
                exec: Some(format!("echo $FULLSTRIPE_EVENT >> {}", calls.display())),
            },
            minimum: Severity::Warning,
            ping: Some(Ping {
                url: format!("{url}/alive"),
                every: Duration::from_secs(1),
            }),
        },
    );
    let ears = Arc::new(Ears::default());
    let server = Prepared::new(options, ears.clone())
        .unwrap()
        .serve()
        .unwrap();
    let client = Client::connect(Some(&folder.path().join("api.sock"))).unwrap();
    let drive = server.status().members[1].name.clone();
    let order = |path: &str, body: Value| {
        let answer: Value = client.send(Method::POST, path, &body).unwrap();
        answer
    };
    order(
        &format!("/v1/members/{drive}/fail"),
        json!({ "volumes_may_fail": false }),
    );
    wait_until("the failure is told", || read("calls") == "member-failed\n");
    assert_eq!(kinds(), ["member-failed"]);
    let mail = read("mails");
    assert!(
        mail.contains("To: root\n") && mail.contains("critical: array fast: "),
        "{mail}"
    );
    assert!(
        mail.contains("What to do next:\nreplace the drive"),
        "{mail}"
    );
    assert!(
        mail.contains("`fullstripe status`:\nscratch is degraded: "),
        "{mail}"
    );

    order(
        "/v1/spares",
        json!({ "drive": "ram:32m,serial=S9", "force": false }),
    );
    wait_until("the end is told", || {
        read("calls") == "member-failed\nresolved\n"
    });
    assert_eq!(kinds(), ["member-failed", "resolved"]);
    assert_eq!(read("mails").matches("To: root\n").count(), 2);
    wait_until("a ping arrives", || {
        let requests = requests.lock().unwrap();
        requests
            .iter()
            .any(|(line, _)| line == "GET /alive HTTP/1.1")
    });
    server.stop().unwrap().check().unwrap();
    let said = ears.0.lock().unwrap().join("\n");
    assert!(!said.contains("alert") && !said.contains("ping"), "{said}");
}

//! Sends alerts to programs and servers of the test.

use super::*;
use crate::Severity;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

fn alert() -> Alert {
    Alert {
        time_s: 951_782_399,
        host: "box".to_owned(),
        array: "fast".to_owned(),
        kind: "member-failed".to_owned(),
        severity: Severity::Critical,
        volume: None,
        member: Some("nvme1".to_owned()),
        text: "nvme1 is failed: it is gone\nBcc: x@y".to_owned(),
        next: "replace the drive".to_owned(),
        count: 3,
        health: "vol0 is degraded".to_owned(),
    }
}

fn program(folder: &Path, lines: &str) -> PathBuf {
    let path = folder.join("sendmail");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Answers one request with `answer`, and gives the request back.
fn server(answer: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "http://user:secret@{}/token",
        listener.local_addr().unwrap()
    );
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"}") && !request.ends_with(b"\r\n\r\n") || request.is_empty() || {
            let text = String::from_utf8_lossy(&request);
            text.contains("content-length") && text.ends_with("\r\n\r\n")
        } {
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "the request ends early");
            request.extend(&part[..length]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, thread)
}

fn error(ways: &Ways, way: Way) -> String {
    format!("{:#}", ways.send(way, &alert()).unwrap_err())
}

#[test]
fn a_mail_has_what_happened_and_what_to_do_and_no_line_of_the_head_from_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let ways = Ways {
        mail: vec!["root".to_owned(), "admin@example.com".to_owned()],
        sendmail: Some(program(
            folder.path(),
            &format!("echo \"$@\" > {0}; cat >> {0}", out.display()),
        )),
        ..Ways::default()
    };
    assert_eq!(ways.all(), [Way::Mail]);
    ways.send(Way::Mail, &alert()).unwrap();
    let wanted = "-t -i\nTo: root,\n admin@example.com\nSubject: [fullstripe box] critical: array fast: nvme1 is failed: it is \
        gone?Bcc: x@y (and 2 more of this kind)\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: \
        text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nhost: box\narray: fast\ndrive: nvme1\n\
        time: 2000-02-28 23:59:59 UTC\nseverity: critical\nevent: member-failed\ncount: 3\n\nWhat happened:\nnvme1 is \
        failed: it is gone Bcc: x@y\n\nWhat to do next:\nreplace the drive\n\n`fullstripe status`:\nvol0 is degraded\n";
    assert_eq!(std::fs::read_to_string(out).unwrap(), wanted);
}

#[test]
fn a_mail_that_is_not_taken_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let mut ways = Ways {
        mail: vec!["root".to_owned()],
        sendmail: Some(program(folder.path(), "exit 75")),
        ..Ways::default()
    };
    let refused = error(&ways, Way::Mail);
    assert!(
        refused.ends_with("sendmail did not take the mail: exit status: 75"),
        "{refused}"
    );
    ways.sendmail = Some(folder.path().join("none"));
    assert!(
        error(&ways, Way::Mail).contains("cannot start"),
        "{}",
        error(&ways, Way::Mail)
    );
}

#[test]
fn a_webhook_gets_json_and_its_answer_counts() {
    let fine = "HTTP/1.1 204 No Content\r\n\r\n";
    for (answer, wanted) in [
        (fine, None),
        (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            Some("HTTP status 503"),
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
            Some("HTTP status 302"),
        ),
    ] {
        let (url, thread) = server(answer);
        let ways = Ways {
            webhook: Some(url.clone()),
            ..Ways::default()
        };
        let sent = ways.send(Way::Webhook, &alert());
        let request = thread.join().unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /token HTTP/1.1\r\n"), "{head}");
        // "user:secret" in base 64.
        assert!(head.contains("Basic dXNlcjpzZWNyZXQ="), "{head}");
        assert_eq!(serde_json::from_str::<Alert>(body).unwrap(), alert());
        match (sent, wanted) {
            (Ok(()), None) => (),
            (Err(error), Some(wanted)) => {
                let text = format!("{error:#}");
                assert!(
                    text.contains(wanted) && !text.contains("secret") && !text.contains("token"),
                    "{text}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_that_is_silent_or_absent_is_told_without_its_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://user:secret@{address}/token");
    let silent = web::get(&url, Duration::from_secs(1)).unwrap_err();
    assert_eq!(
        silent.to_string(),
        format!("http://{address} did not answer within 1 s")
    );
    drop(listener);
    let absent = web::get(&url, Duration::from_secs(5))
        .unwrap_err()
        .to_string();
    assert!(
        absent.contains(&format!("cannot reach http://{address}")),
        "{absent}"
    );
    assert!(
        !absent.contains("secret") && !absent.contains("token"),
        "{absent}"
    );
}

#[test]
fn a_command_gets_the_alert_in_its_environment_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut ways = Ways {
        exec: Some(format!(
            "{{ echo \"$FULLSTRIPE_ARRAY|$FULLSTRIPE_EVENT|$FULLSTRIPE_MEMBER|$FULLSTRIPE_SEVERITY\"; cat; }} > {}",
            out.display()
        )),
        ..Ways::default()
    };
    ways.send(Way::Exec, &alert()).unwrap();
    let text = std::fs::read_to_string(out).unwrap();
    let (line, json) = text.split_once('\n').unwrap();
    assert_eq!(line, "fast|member-failed|nvme1|critical");
    assert_eq!(serde_json::from_str::<Alert>(json).unwrap(), alert());
    ways.exec = Some("exit 3".to_owned());
    assert_eq!(
        error(&ways, Way::Exec),
        "the command of \"exec\" failed: exit status: 3"
    );
}

#[test]
fn addresses_are_checked() {
    for good in ["root", "a.b+c@example.com"] {
        assert!(mail::check_address(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "a b",
        "a\nBcc: b",
        "a,b",
        "-oQ/tmp",
        "a@",
        "@a",
        "\u{e9}@x",
    ] {
        assert!(mail::check_address(bad).is_err(), "{bad}");
    }
    for good in ["http://[::1]:80/a?b", "https://u:p@x.y/"] {
        assert!(web::check_url(good).is_ok(), "{good}");
    }
    for bad in ["", "x.y", "ftp://x.y", "http://", "http://x y", "http:///a"] {
        assert!(web::check_url(bad).is_err(), "{bad}");
    }
    assert!(web::has_password("http://u:p@x.y/") && !web::has_password("http://x.y/a@b"));
    assert_eq!(web::shown("https://u:p@x.y:8/a?b"), "https://x.y:8");
}

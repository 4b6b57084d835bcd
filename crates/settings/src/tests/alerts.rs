//! The block `[alerts]`.

use super::*;
use crate::show::{Value, alert_value};
use std::os::unix::fs::PermissionsExt;

#[test]
fn alerts_are_read_and_shown_without_secrets() {
    let text = "[alerts]\nmail = ['root', 'a@b.c']\nsendmail = '/bin/mail'\nwebhook = 'https://x.y/token'\nexec = 'logger token'\n\
        minimum = 'critical'\nping_file = '/p'\nping_every_s = 10\n";
    let settings = parse(&format!("{text}{}", block("on_event = 'curl token'"))).unwrap();
    let wanted = AlertSettings {
        mail: vec!["root".to_owned(), "a@b.c".to_owned()],
        sendmail: Some("/bin/mail".into()),
        webhook: Some("https://x.y/token".to_owned()),
        exec: Some("logger token".to_owned()),
        minimum: ::alerts::Severity::Critical,
        ping_file: Some("/p".into()),
        ping_every_s: 10,
        ..AlertSettings::default()
    };
    assert_eq!(settings.alerts, wanted);
    let shown = as_toml(&settings);
    assert!(
        shown.contains("# webhook is given: https://x.y/..., the rest"),
        "{shown}"
    );
    assert!(!shown.contains("token"), "{shown}");
    for key in ["exec", "on_event"] {
        let line = format!("# {key} is given: it is not shown because it may contain a secret\n");
        assert!(shown.contains(&line), "{shown}");
    }
    let array = &settings.arrays["fast"];
    for given in [
        value(array, "on_event"),
        alert_value(&settings.alerts, "exec"),
    ] {
        assert_eq!(given, Some(Value::Text("(given)".to_owned())));
    }
    let less = AlertSettings {
        webhook: None,
        exec: None,
        ..wanted
    };
    assert_eq!(parse(&shown).unwrap().alerts, less);
    assert_eq!(parse("").unwrap().alerts, AlertSettings::default());
}

#[test]
fn an_address_in_a_file_that_others_may_read_is_warned_of_if_it_may_be_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fullstripe.toml");
    let warned = |lines: &str, mode: u32| {
        std::fs::write(&path, format!("[alerts]\n{lines}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let settings = Settings::read(&path).unwrap();
        settings.alerts.open_secrets(&path)
    };
    for lines in [
        "webhook = 'https://x.y'",
        "ping = 'https://x.y:8443/'",
        "webhook_file = '/x'",
    ] {
        assert!(warned(lines, 0o644).is_empty(), "{lines}");
    }
    for (lines, key) in [
        ("webhook = 'https://x.y/token'", "webhook"),
        ("ping = 'https://x.y?token'", "ping"),
    ] {
        assert!(warned(lines, 0o600).is_empty(), "{lines}");
        let said = warned(lines, 0o640).concat();
        let shown = path.display();
        let wanted = format!(
            "alerts.{key} has a path or a query, which may be a secret, and others than its owner may read {shown} (its mode is 0640); \
             write the address to a file of mode 0600 and name that by {key}_file"
        );
        assert_eq!(said, wanted);
    }
}

#[test]
fn a_mistake_in_alerts_is_told_and_no_secret_with_it() {
    for (lines, wanted) in [
        (
            "mail = 'root'",
            "alerts.mail cannot be 'root'; it is a list: give mail addresses like [\"root\"]",
        ),
        (
            "mail = ['a b']",
            "alerts.mail cannot be 'a b'; give a mail address like \"root\" or \"admin@example.com\"",
        ),
        (
            "minimum = 'error'",
            "alerts.minimum cannot be 'error'; give \"info\", \"warning\" or \"critical\"",
        ),
        (
            "ping_every_s = 1",
            "alerts.ping_every_s cannot be 1; give a whole number from 10 to 86400",
        ),
        (
            "sendmail = 'mail'",
            "alerts.sendmail cannot be 'mail'; give a path that begins with '/'",
        ),
        (
            "webhook = 'secret'",
            "alerts.webhook is no address of a web server; give an address like \"https://alerts.example.com/hook\"",
        ),
        (
            "ping = 'http://u:secret@x.y'",
            "alerts.ping contains a password, and this file may be read by others; write the address to a file of mode 0600 \
             and name that by ping_file",
        ),
        (
            "exec = ''",
            "alerts.exec cannot be ''; give a command for sh -c, or leave the key out",
        ),
        (
            "webhok = 1",
            "alerts has no key \"webhok\"; did you mean \"webhook\"? The keys are mail, sendmail, webhook, webhook_file, exec, \
             minimum, ping, ping_file and ping_every_s",
        ),
    ] {
        assert_eq!(
            error(&format!("[alerts]\n{lines}")),
            format!("file:2: {wanted}")
        );
    }
    let both = error("[alerts]\nwebhook = 'http://x/'\nwebhook_file = '/x'");
    assert_eq!(
        both,
        "file:3: alerts has both webhook and webhook_file; keep one of the two"
    );
    assert_eq!(
        error("alerts = 1"),
        "file:1: \"alerts\" is no table; write a block [alerts]"
    );
}

#[test]
fn a_block_is_added_and_removed_beside_alerts() {
    let alerts = "[alerts] # who\nmail = [\"root\"]\n";
    for text in [
        format!("{alerts}\n{}", block("")),
        format!("{}\n{alerts}", block("")),
    ] {
        let less = without_array(&text, "file", "fast").unwrap();
        assert_eq!(less.trim(), alerts.trim());
        let more = with_array(&less, "file", "slow", OTHER).unwrap();
        let read = parse(&more).unwrap();
        assert_eq!(read.alerts.mail, ["root"]);
        assert_eq!(read.arrays["slow"].uuid, OTHER);
    }
}

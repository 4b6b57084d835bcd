//! How commands fail with `--json`: the same exit code, nothing but a result on standard output, and one object on
//! standard error with the message that the text form prints.

use super::rig::Rig;
use serde_json::Value;

/// Runs the line with and without `--json`; both must fail in the same way.
fn fails(rig: &Rig, line: &str, kind: &str, wanted: &str) {
    let code = match kind {
        "failed" => 1,
        "usage" => 2,
        "refused" => 4,
        other => panic!("no failure has the kind {other}"),
    };
    let text = rig.run(line);
    let json = rig.run(&format!("{line} --json"));
    assert_eq!((text.code, json.code), (code, code), "{line}: {json:?}");
    let result = serde_json::from_str::<Value>(&json.stdout);
    assert!(json.stdout.is_empty() || result.is_ok(), "{line}: {json:?}");
    let said: Value = serde_json::from_str(&json.stderr).unwrap_or_else(|error| {
        panic!("{line}: {error}: {:?}", json.stderr);
    });
    let error = &said["error"];
    assert_eq!(said.as_object().unwrap().len(), 1, "{said}");
    assert_eq!(
        (&error["kind"], &error["exit_code"]),
        (&kind.into(), &code.into()),
        "{line}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(wanted), "{line}: {message}");
    assert_eq!(json.stderr.lines().count(), 1, "{line}: {:?}", json.stderr);
    // The message is the same as in the text form.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&text.stderr).contains(&words(message)), "{text:?}");
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let rig = Rig::with_array("vol --level 1", 2);
    rig.drive("empty", 32 << 20);
    rig.drive("held", 32 << 20);
    rig.put("held", 0, b"LUKS\xBA\xBE\0\x02");
    for (line, kind, wanted) in [
        ("create vol2 --level 1 empty missing", "failed", "missing"),
        (
            "create vol2 --level 1 --size 1g d0 d1",
            "failed",
            "d0 with 32 MiB",
        ),
        ("create vol2 --level 1 held empty", "refused", "held holds"),
        ("assemble empty", "failed", "no array on empty"),
        ("destroy vol d0 d1", "refused", "--yes"),
        ("destroy other d0 d1 --yes", "failed", "other"),
        (
            "metadata restore missing.json d0 --yes",
            "failed",
            "missing.json",
        ),
        ("explain other d0 d1 --read 4k@0", "failed", "other"),
        ("serve empty --nbd unix:socket", "refused", "empty"),
        ("status --socket nobody", "failed", "nobody"),
        ("fail 0 --socket nobody", "failed", "nobody"),
        ("scrub vol --socket nobody", "failed", "nobody"),
        ("bench --level 7 --member null:1g --count 3", "usage", "7"),
        ("create vol2 --level 6 d0 d1", "usage", "6 is no level here"),
        ("list --wrong", "usage", "--wrong"),
        ("examine", "usage", "<DRIVE>"),
    ] {
        fails(&rig, line, kind, wanted);
    }
}

#[test]
fn help_is_help_and_a_name_is_no_option() {
    let rig = Rig::new();
    let help = rig.done("create --help --json");
    assert!(help.stdout.contains("Usage: ") && help.stderr.is_empty());
    // After `--`, `--json` is a drive's name, so the error about the wrong option is printed as text.
    let outcome = rig.run("list --wrong -- --json");
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
}

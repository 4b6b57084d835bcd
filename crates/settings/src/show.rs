//! The value of each key of an array and of the alerts, whether the file gives it or not: as TOML that reads as the same settings, and
//! as data for programs.

use crate::{ALERT_KEYS, AlertSettings, ArraySettings, KEYS, SCRUB_EVERY_S, ScrubPeriod, Settings};
use ::alerts::web;
use std::fmt::Write;
use std::path::PathBuf;
use words::typed_size;

/// A value as TOML has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// True or false.
    Truth(bool),
    /// A list of texts.
    List(Vec<String>),
}

/// The value of `key`, one of [`KEYS`]; `None` if the key has no value unless it is given. A command is only said to be given.
///
/// # Panics
/// `key` is not one of [`KEYS`].
#[must_use]
pub fn value(array: &ArraySettings, key: &str) -> Option<Value> {
    let list = |texts: Vec<String>| Value::List(texts);
    Some(match key {
        "uuid" => Value::Text(array.uuid.clone()),
        "attach" => Value::Text(array.attach.to_string()),
        "nbd" => list(array.nbd.iter().map(ToString::to_string).collect()),
        "tls" => Value::Text(array.tls.as_ref()?.display().to_string()),
        "insecure" => Value::Truth(array.insecure),
        "vhost_user" => Value::Text(array.vhost_user.as_ref()?.display().to_string()),
        "nvmet" => Value::Text(array.nvmet?.to_string()),
        "nvmet_hosts" => list(array.nvmet_hosts.clone()),
        "nvmet_insecure" => Value::Truth(array.nvmet_insecure),
        "spares" => list(array.spares.clone()),
        "shards" => Value::Number(array.shards.into()),
        "memory" => Value::Text(typed_size(array.memory_bytes)),
        "completion" => Value::Text(array.completion.to_string()),
        "rate" => Value::Text(typed_size(array.rate_bytes_per_s?)),
        "scrub_every" => Value::Text(array.scrub_every?.to_string()),
        "deadline_s" => Value::Number(array.deadline_s),
        "auto_rebuild" => Value::Truth(array.auto_rebuild),
        "same_bay" => Value::Text(array.same_bay.to_string()),
        "on_event" => array.on_event.as_ref().map(|_| given())?,
        "degraded_after_s" => Value::Number(array.degraded_after_s),
        _ => panic!("{key} is no key of an array"),
    })
}

/// Instead of a command of the operator, which may contain a secret.
const GIVEN: &str = "(given)";

fn given() -> Value {
    Value::Text(GIVEN.to_owned())
}

/// Whether `key` has the value that it has unless it is given. No UUID is a default.
#[must_use]
pub fn is_default(array: &ArraySettings, key: &str) -> bool {
    key != "uuid" && value(array, key) == value(&ArraySettings::with_defaults(""), key)
}

/// The value of `key` of `[alerts]`, one of [`ALERT_KEYS`]; `None` if the key has no value unless it is given. Of the address
/// of a web server only the beginning is shown, because the rest may be a secret, and a command is only said to be given.
///
/// # Panics
/// `key` is not one of [`ALERT_KEYS`].
#[must_use]
pub fn alert_value(alerts: &AlertSettings, key: &str) -> Option<Value> {
    let url = |url: &String| Value::Text(format!("{}/...", web::shown(url)));
    let path = |path: &PathBuf| Value::Text(path.display().to_string());
    match key {
        "mail" => Some(Value::List(alerts.mail.clone())),
        "sendmail" => alerts.sendmail.as_ref().map(path),
        "webhook" => alerts.webhook.as_ref().map(url),
        "webhook_file" => alerts.webhook_file.as_ref().map(path),
        "exec" => alerts.exec.as_ref().map(|_| given()),
        "minimum" => Some(Value::Text(alerts.minimum.to_string())),
        "ping" => alerts.ping.as_ref().map(url),
        "ping_file" => alerts.ping_file.as_ref().map(path),
        "ping_every_s" => Some(Value::Number(alerts.ping_every_s)),
        _ => panic!("{key} is no key of alerts"),
    }
}

/// Whether `key` of `[alerts]` has the value that it has unless it is given.
#[must_use]
pub fn is_alert_default(alerts: &AlertSettings, key: &str) -> bool {
    alert_value(alerts, key) == alert_value(&AlertSettings::default(), key)
}

/// Every array with the value of every key, and the alerts, as TOML. A value that is the default is followed by
/// `# default`. A key without a value is a comment that says what this means, and so is one whose value may be a secret.
#[must_use]
pub fn as_toml(settings: &Settings) -> String {
    let mut text = String::new();
    for (name, array) in &settings.arrays {
        let _ = writeln!(text, "[array.{}]", key_as_toml(name));
        for key in KEYS {
            let line = line(key, value(array, key), &meaning_of_none(key));
            add(&mut text, &line, is_default(array, key));
        }
        text.push('\n');
    }
    let alerts = &settings.alerts;
    text.push_str("[alerts]\n");
    for key in ALERT_KEYS {
        let value = alert_value(alerts, key);
        let line = match (key, value) {
            ("webhook" | "ping", Some(Value::Text(begin))) => {
                format!(
                    "# {key} is given: {begin}, the rest is not shown because it may be a secret"
                )
            }
            (_, value) => line(key, value, meaning_of_no_alert(key)),
        };
        add(&mut text, &line, is_alert_default(alerts, key));
    }
    text
}

fn line(key: &str, value: Option<Value>, meaning_of_none: &str) -> String {
    match value {
        Some(Value::Text(text)) if text == GIVEN => {
            format!("# {key} is given: it is not shown because it may contain a secret")
        }
        Some(value) => format!("{key} = {}", value_as_toml(&value)),
        None => format!("# {key} is not given: {meaning_of_none}"),
    }
}

fn add(text: &mut String, line: &str, is_default: bool) {
    let mark = if is_default { "  # default" } else { "" };
    let _ = writeln!(text, "{line}{mark}");
}

fn meaning_of_no_alert(key: &str) -> &'static str {
    match key {
        "sendmail" => "/usr/sbin/sendmail or /usr/lib/sendmail",
        "exec" => "no command is run",
        _ => "nothing is sent by it",
    }
}

fn meaning_of_none(key: &str) -> String {
    match key {
        "rate" => "the limit that `fullstripe rate` set last applies".to_owned(),
        "scrub_every" => format!(
            "what `fullstripe scrub --every` set last applies, or \"{}\"",
            ScrubPeriod::Seconds(SCRUB_EVERY_S)
        ),
        "vhost_user" => "there are no sockets for virtual machines".to_owned(),
        "nvmet" => "no volume is exported by NVMe over TCP".to_owned(),
        "tls" => "a TCP address needs \"insecure\"".to_owned(),
        _ => "no command is run".to_owned(),
    }
}

/// A name as TOML has it in `[array.NAME]`: in quotation marks if it has a point.
#[must_use]
pub fn key_as_toml(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

fn value_as_toml(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Number(number) => number.to_string(),
        Value::Truth(truth) => truth.to_string(),
        Value::List(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}

/// A basic string of TOML, on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

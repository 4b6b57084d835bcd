//! `config`: checks and shows the settings file of the machine ([`settings`]).

use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use settings::show::{Value, alert_value, as_toml, is_alert_default, is_default, value};
use settings::{ALERT_KEYS, AlertSettings, ArraySettings, KEYS, PLACE, Settings};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use words::count;

/// Arguments of `config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Check the settings file, and say which line is wrong
    Check(FileArgs),
    /// Show the value of every key, those that the file does not give included
    Show(FileArgs),
}

#[derive(Args, Debug)]
struct FileArgs {
    /// The settings file.
    #[arg(value_name = "FILE", default_value = PLACE)]
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `config`.
///
/// # Errors
/// The file cannot be read or has a mistake: one sentence with file, line and key.
pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    match &args.command {
        ConfigCommand::Check(args) => check(args)?,
        ConfigCommand::Show(args) => show(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What `config check` found.
#[derive(Serialize)]
struct Checked<'a> {
    /// Version of this schema: 1.
    version: u32,
    file: String,
    /// Whether the file exists; without it there are no arrays.
    exists: bool,
    /// The names of the arrays.
    arrays: Vec<&'a String>,
    /// What is no mistake and should be changed all the same, a sentence each.
    warnings: Vec<String>,
}

fn check(args: &FileArgs) -> Result<()> {
    let settings = Settings::read(&args.file)?;
    let file = args.file.display().to_string();
    let exists = args.file.exists();
    let warnings = settings.alerts.open_secrets(&args.file);
    if args.json {
        return print_json(&Checked {
            version: 1,
            file,
            exists,
            arrays: settings.arrays.keys().collect(),
            warnings,
        });
    }
    let arrays = count(settings.arrays.len(), "array");
    let absent = if exists {
        ""
    } else {
        " (there is no such file)"
    };
    let warnings: String = warnings
        .iter()
        .map(|warning| format!("warning: {warning}\n"))
        .collect();
    print_text(&format!("{file}: {arrays}, no mistake{absent}\n{warnings}"))
}

fn show(args: &FileArgs) -> Result<()> {
    let settings = Settings::read(&args.file)?;
    if !args.json {
        return print_text(&as_toml(&settings));
    }
    print_json(&data(&settings, &args.file))
}

/// What `config show --json` prints about the settings in `file`.
pub fn data(settings: &Settings, file: &Path) -> Json {
    let arrays = settings.arrays.iter();
    let arrays: Map<String, Json> = arrays
        .map(|(name, array)| (name.clone(), as_json(array)))
        .collect();
    json!({
        "version": 1,
        "file": file.display().to_string(),
        "arrays": arrays,
        "alerts": alerts_as_json(&settings.alerts),
    })
}

/// The value of each key, and which of them are defaults.
fn as_json(array: &ArraySettings) -> Json {
    fields(&KEYS, |key| value(array, key), |key| is_default(array, key))
}

/// As [`as_json`]; of addresses of web servers only the beginning is shown, and of the command that it is given.
fn alerts_as_json(alerts: &AlertSettings) -> Json {
    fields(
        &ALERT_KEYS,
        |key| alert_value(alerts, key),
        |key| is_alert_default(alerts, key),
    )
}

fn fields(
    keys: &[&str],
    value_of: impl Fn(&str) -> Option<Value>,
    is_default: impl Fn(&str) -> bool,
) -> Json {
    let mut fields = Map::new();
    for key in keys {
        let value = match value_of(key) {
            None => Json::Null,
            Some(Value::Text(text)) => text.into(),
            Some(Value::Number(number)) => number.into(),
            Some(Value::Truth(truth)) => truth.into(),
            Some(Value::List(texts)) => texts.into(),
        };
        fields.insert((*key).to_owned(), value);
    }
    let defaults: Vec<&&str> = keys.iter().filter(|key| is_default(key)).collect();
    fields.insert("defaults".to_owned(), json!(defaults));
    Json::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::{SCRUB_EVERY_S, ScrubPeriod};

    const PAGE: &str = include_str!("../../../../docs/settings.md");

    /// The first cell of each row of the table of keys, and the second.
    fn rows() -> Vec<(&'static str, &'static str)> {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| {
            let (key, rest) = row.split_once("` | ")?;
            Some((key, rest.split_once(" | ")?.0))
        })
        .collect()
    }

    #[test]
    fn the_page_describes_exactly_the_keys_with_their_defaults() {
        let keys: Vec<&str> = rows().iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [&KEYS[..], &ALERT_KEYS].concat());
        let plain = ArraySettings::with_defaults("");
        for (key, default) in rows().iter().skip(1) {
            let value = match ALERT_KEYS.contains(key) {
                true => alert_value(&AlertSettings::default(), key),
                false => value(&plain, key),
            };
            let wanted = match value {
                None if *key == "scrub_every" => {
                    format!("`\"{}\"`", ScrubPeriod::Seconds(SCRUB_EVERY_S))
                }
                None => "none".to_owned(),
                Some(Value::Text(text)) => format!("`\"{text}\"`"),
                Some(Value::Number(number)) => format!("`{number}`"),
                Some(Value::Truth(truth)) => format!("`{truth}`"),
                Some(Value::List(texts)) => format!("`{texts:?}`"),
            };
            assert_eq!(*default, wanted, "{key}");
        }
    }

    #[test]
    fn defaults_are_those_of_serve() {
        let command = crate::help::command();
        let serve = command.find_subcommand("serve").unwrap();
        let plain = ArraySettings::with_defaults("");
        for (key, option) in [
            ("shards", "shards"),
            ("memory", "memory"),
            ("completion", "completion"),
            ("deadline_s", "deadline"),
        ] {
            let mut arguments = serve.get_arguments();
            let option = arguments.find(|one| one.get_id() == option).unwrap();
            let wanted = option.get_default_values()[0].to_str().unwrap();
            let found = match value(&plain, key).unwrap() {
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text,
                other => panic!("{key}: {other:?}"),
            };
            assert_eq!(found, wanted, "{key}");
        }
    }

    #[test]
    fn the_example_of_the_page_has_no_mistake() {
        let (_, rest) = PAGE.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let settings = Settings::parse(example, "docs/settings.md").unwrap();
        assert!(settings.arrays.len() > 1, "{settings:?}");
        assert!(!settings.alerts.mail.is_empty(), "{settings:?}");
    }
}

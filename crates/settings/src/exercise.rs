//! What the fuzzer does with arbitrary bytes in place of the settings file; an ordinary test does it with many seeds. Whatever
//! the bytes are, nothing may panic. A mistake is one sentence that says where it is and what it is about, and settings that
//! are accepted are the same after they were shown and read again.
//!
//! The bytes are either the text itself, or changes to a real file, which get past the parser of TOML more often. A change
//! takes four bytes: its kind, two for the place, and one for what is put there.

use crate::reader::shortened_name;
use crate::sound::{Concerns, Mistake, Sound};
use crate::{Settings, edit, show};

/// Most changes to a real file.
const CHANGES_MAX: usize = 12;
/// Longer sentences are not read by anybody. The longest list all keys.
const SENTENCE_BYTES_MAX: usize = 1000;
const SHOWN_NAME: &str = "/etc/fullstripe/fullstripe.toml";

/// The page that operators copy from.
const PAGE: &str = include_str!("../../../docs/settings.md");
/// Every key, and every way of TOML to write a value.
const EVERY_KEY: &str = r#"# A file with everything.
[array.fast]
uuid = "3aaa0122:29827cfa:5331ad66:ca767371"
attach = 'ublk'
nbd = ["unix:/run/fast.sock", 'tcp:localhost',
    "tcp:[::1]:10810"]
tls = "/etc/fullstripe/tls"
insecure = false
vhost_user = "/run/vms"
nvmet = "tcp://[::1]"
nvmet_hosts = ["nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"]
nvmet_insecure = false
spares = ["/dev/nvme4n1", "ram:8m,serial=S"]
shards = 0x10
memory = """1g"""
completion = "hybrid:7"
rate = "200m"
scrub_every = "1d 12h"
deadline_s = 3_600
auto_rebuild = false
same_bay = "adopt"
on_event = '''logger "$FULLSTRIPE_TEXT"'''
degraded_after_s = 0
[array."slow.1"]
uuid = "9f3b1c04:5d0a7e11:88c2f6d3:0b64a925"
nbd = ["tcp:10.0.0.5"]
listen = true
[alerts]
mail = ["root", "a@b.example"]
sendmail = "/usr/bin/mail"
webhook = "https://hooks.example/secret"
exec = "logger alert"
minimum = "critical"
ping_file = "/etc/fullstripe/ping"
ping_every_s = 10
"#;
/// Blocks that are no blocks to the eye.
const OTHER_FORMS: &str = r#"alerts.mail = ["root"]
array.a.uuid = "3aaa0122:29827cfa:5331ad66:ca767371"
array.a.shards = 2
array.b = { uuid = "9f3b1c04:5d0a7e11:88c2f6d3:0b64a925", nbd = [] }
array.c.uuid = "00000000:00000000:00000000:00000001"
"#;
/// What is put in the place of a value.
const VALUES: [&str; 24] = [
    "true",
    "false",
    "0",
    "-1",
    "17",
    "1e3",
    "nan",
    "0xFFFFFFFFFFFFFFFF",
    "9223372036854775807",
    "\"\"",
    "\"0\"",
    "\"-\"",
    "\"é\\u0000\"",
    "'\\'",
    "[]",
    "[[]]",
    "[\"tcp:\"]",
    "[\"unix:\"]",
    "{}",
    "{ a = 1 }",
    "1979-05-27T07:32:00Z",
    "\"hybrid:18446744073709551615\"",
    "\"99999999999t\"",
    "\"https://u:p@h/\"",
];

/// A file that somebody could have.
fn real(choice: u8) -> &'static str {
    match choice % 3 {
        0 => {
            let (_, begun) = PAGE.split_once("```toml\n").expect("the page has a file");
            begun.split_once("```").expect("the file has an end").0
        }
        1 => EVERY_KEY,
        _ => OTHER_FORMS,
    }
}

/// The text that the bytes represent.
fn text(data: &[u8]) -> Option<String> {
    let (kind, data) = data.split_first()?;
    if kind.is_multiple_of(4) {
        return String::from_utf8(data.to_vec()).ok();
    }
    let mut lines: Vec<String> = real(*kind).lines().map(str::to_owned).collect();
    for change in data.chunks_exact(4).take(CHANGES_MAX) {
        let place = usize::from(u16::from_le_bytes([change[1], change[2]]));
        apply(&mut lines, change[0], place, change[3]);
    }
    Some(lines.join("\n"))
}

fn apply(lines: &mut Vec<String>, kind: u8, place: usize, with: u8) {
    if lines.is_empty() {
        return;
    }
    let at = place % lines.len();
    let line = &mut lines[at];
    let column = line.floor_char_boundary(place / 64 % (line.len() + 1));
    match kind % 7 {
        0 => drop(lines.remove(at)),
        1 => {
            let copy = line.clone();
            lines.insert(usize::from(with) % lines.len(), copy);
        }
        2 => line.insert(column, char::from(with)),
        3 => line.truncate(column),
        4 => line.insert(
            column,
            char::from(b"0123456789.-\"'=[]{}#\\:,"[usize::from(with) % 23]),
        ),
        _ => {
            let value = VALUES[usize::from(with) % VALUES.len()];
            let key = line.split_once('=').map(|(key, _)| key.to_owned());
            if let Some(key) = key {
                *line = format!("{key}= {value}");
            }
        }
    }
}

/// Reads bytes as the settings file, and uses what is accepted. Returns whether all of it was accepted.
///
/// # Panics
/// It has found a bug: a mistake that is not told as a sentence, or settings that are others when they are read again.
#[doc(hidden)]
pub fn fuzz_one(data: &[u8]) -> bool {
    let Some(text) = text(data) else {
        return false;
    };
    match Sound::parse(&text, SHOWN_NAME) {
        Err(error) => {
            check_sentence(&text, &format!("{error:#}"), "TOML");
            false
        }
        Ok(sound) => {
            for mistake in &sound.mistakes {
                check_mistake(&text, mistake);
            }
            // What can be used in spite of mistakes is held to the same.
            check_settings(&sound.settings);
            check_edits(&text, &sound);
            sound.mistakes.is_empty()
        }
    }
}

fn check_mistake(text: &str, mistake: &Mistake) {
    let about = match &mistake.concerns {
        // A long name is shortened.
        Concerns::Array(name) => shortened_name(name).chars().take(20).collect(),
        Concerns::Alerts => "alerts".to_owned(),
        Concerns::File => "\"".to_owned(),
    };
    check_sentence(text, &mistake.to_string(), &about);
}

/// A sentence names the file, one of its lines, and what it is about.
fn check_sentence(text: &str, sentence: &str, about: &str) {
    let place = sentence
        .strip_prefix(SHOWN_NAME)
        .and_then(|rest| rest.strip_prefix(':'));
    let (line, said) = place
        .and_then(|rest| rest.split_once(": "))
        .expect(sentence);
    let line: usize = line.parse().expect(sentence);
    let last = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
    assert!(
        (1..=last).contains(&line),
        "there are {last} lines: {sentence}"
    );
    let is_one = !sentence.contains(['\n', '\r', '\0']) && sentence.len() <= SENTENCE_BYTES_MAX;
    assert!(is_one, "not one sentence: {sentence:?}");
    let says_what_to_do = said.contains("; ");
    assert!(
        said.contains(about) && says_what_to_do,
        "{about:?} or what to do is missing: {sentence}"
    );
}

/// Settings that are shown are read as the same, except for what may be secret.
fn check_settings(settings: &Settings) {
    let mut wanted = settings.clone();
    wanted.alerts.webhook = None;
    wanted.alerts.ping = None;
    wanted.alerts.exec = None;
    for array in wanted.arrays.values_mut() {
        array.on_event = None;
    }
    let shown = show::as_toml(settings);
    let again = Settings::parse(&shown, SHOWN_NAME);
    let again = again.unwrap_or_else(|error| panic!("{error:#} in what is shown:\n{shown}"));
    assert_eq!(again, wanted, "of what is shown:\n{shown}");
}

/// An array is added to a file and removed, or that is refused.
fn check_edits(text: &str, sound: &Sound) {
    let uuid = "11111111:22222222:33333333:44444444";
    if let Ok(more) = edit::with_array(text, SHOWN_NAME, "added", uuid) {
        let less =
            edit::without_array(&more, SHOWN_NAME, "added").expect("what was added can be removed");
        let read = Settings::parse(&less, SHOWN_NAME).expect("it was right before");
        assert_eq!(read, sound.settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_with_every_key_has_every_key() {
        for key in crate::KEYS {
            assert!(EVERY_KEY.contains(&format!("\n{key} = ")), "{key}");
        }
    }

    #[test]
    fn real_files_are_accepted() {
        for choice in 1..=3 {
            assert!(fuzz_one(&[choice]), "{}", real(choice));
        }
    }

    #[test]
    fn changed_files_are_accepted_as_they_are_or_refused_with_a_sentence() {
        const FILES: u64 = 4000;
        let mut accepted = 0;
        for seed in 0..FILES {
            let mut data = [0; 1 + 4 * CHANGES_MAX];
            repeatable::random::fill(seed, &mut data);
            // Most changes are mistakes, so few of them leave more to be found.
            let length = 1 + 4 * (1 + seed as usize % 4);
            data[0] |= 1;
            // The last line before a panic.
            println!("seed {seed}");
            accepted += u64::from(fuzz_one(&data[..length]));
        }
        assert!(
            (FILES / 20..FILES / 2).contains(&accepted),
            "{accepted} of {FILES}"
        );
    }
}

//! Keeps passwords and tokens out of a bundle.
//!
//! The settings are shown as `config show` shows them, without commands and addresses, and files that contain an address of
//! their own are never read. As a second line, everything that goes into the bundle is searched for what may be secret in
//! the settings and on the command lines of servers, because programs repeat what they are given: commands, and the words
//! of commands that look like tokens; addresses of web servers, and the parts of their paths; user and password in any
//! address.

use settings::Settings;
use std::collections::BTreeSet;

/// What is written instead of a secret.
pub const LEFT_OUT: &str = "(set; left out of this bundle)";
/// Shorter words are no tokens.
const TOKEN_LENGTH_MIN: usize = 6;

/// What must not be in a bundle.
pub struct Secrets {
    /// Longest first, so that no rest of a longer one stays.
    texts: Vec<String>,
}

impl Secrets {
    /// What may be secret in these settings, and in the words of these command lines of servers.
    pub fn of<'a>(
        settings: Option<&Settings>,
        command_lines: impl Iterator<Item = &'a [String]>,
    ) -> Secrets {
        let mut commands: Vec<&str> = Vec::new();
        let mut addresses: Vec<&str> = Vec::new();
        if let Some(settings) = settings {
            let alerts = &settings.alerts;
            let hooks = settings.arrays.values().map(|array| &array.on_event);
            commands.extend(hooks.chain([&alerts.exec]).flatten().map(String::as_str));
            addresses.extend(
                [&alerts.webhook, &alerts.ping]
                    .into_iter()
                    .flatten()
                    .map(String::as_str),
            );
        }
        for words in command_lines {
            commands.extend(hook_of(words));
        }
        let words = commands.iter().flat_map(|command| tokens(command));
        let parts = addresses.iter().flat_map(|address| path_parts(address));
        let wholes = commands.iter().chain(&addresses).copied();
        let all: BTreeSet<&str> = wholes.chain(words).chain(parts).collect();
        let mut texts: Vec<String> = all
            .iter()
            .flat_map(|text| [(*text).to_owned(), in_json(text)])
            .collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Secrets { texts }
    }

    /// `text` with [`LEFT_OUT`] in place of each secret.
    pub fn left_out_of(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.texts {
            if text.contains(secret) {
                text = text.replace(secret, LEFT_OUT);
            }
        }
        without_users(&text)
    }
}

/// The value of `--on-event` on a command line of `serve`.
fn hook_of(words: &[String]) -> Option<&str> {
    let joined = words
        .iter()
        .find_map(|word| word.strip_prefix("--on-event="));
    let apart = || {
        let at = words.iter().position(|word| word == "--on-event")?;
        words.get(at + 1).map(String::as_str)
    };
    joined.or_else(apart)
}

/// The words of a command that may be tokens: those with a digit in them. Names of programs and variables rarely have one.
fn tokens(command: &str) -> Vec<&str> {
    let is_between = |c: char| c.is_whitespace() || "\"'`=:;,&|()<>$/@?".contains(c);
    let words = command.split(is_between);
    let is_token =
        |word: &&str| word.len() >= TOKEN_LENGTH_MIN && word.contains(|c: char| c.is_ascii_digit());
    words.filter(is_token).collect()
}

/// What stands behind the host in an address, and the parts of that which may be tokens: those that are no plain words.
fn path_parts(address: &str) -> Vec<&str> {
    let behind = address.split_once("://").map_or(address, |(_, rest)| rest);
    let path = behind.split_once('/').map_or("", |(_, path)| path);
    let is_plain = |c: char| c.is_ascii_lowercase() || "-_.".contains(c);
    let parts = path.split(['/', '?', '&', '=']);
    let parts = parts.filter(|part| !part.chars().all(is_plain));
    let long = |part: &&str| part.len() >= TOKEN_LENGTH_MIN;
    parts.chain([path]).filter(long).collect()
}

/// As it is written in a string of JSON.
fn in_json(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// `text` with `...` in place of user and password in every address, as in `https://user:password@host/`.
fn without_users(text: &str) -> String {
    const BEGIN: &str = "://";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (before, behind) = rest.split_at(at + BEGIN.len());
        out.push_str(before);
        let ends = |c: char| c.is_whitespace() || "/\"'\\".contains(c);
        let host = &behind[..behind.find(ends).unwrap_or(behind.len())];
        rest = match host.rfind('@') {
            Some(user) => {
                out.push_str("...");
                &behind[user..]
            }
            None => behind,
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [array.fast]
        uuid = "3aaa0122:29827cfa:5331ad66:ca767371"
        on_event = "curl -H 'X: \"tok3n-of-hook\"' https://h.example/in"
        [alerts]
        exec = "mailer --password=hunter22 root"
        webhook = "https://w.example/services/T0KEN-W/bXyZ"
        ping = "https://p.example/alive?key=0123456789abcdef"
    "#;

    #[test]
    fn no_secret_of_the_settings_stays_in_a_text() {
        let settings = Settings::parse(FILE, "f").unwrap();
        let words = ["--nbd", "unix:/x", "--on-event", "notify s3cr3t"].map(str::to_owned);
        let secrets = Secrets::of(Some(&settings), [&words[..]].into_iter());
        let told = "the hook said tok3n-of-hook, the mailer hunter22; POST /services/T0KEN-W/bXyZ; \
            process 7 is `fullstripe serve --nbd unix:/x --on-event notify s3cr3t`; key 0123456789abcdef";
        let json = serde_json::json!({ "command": settings.arrays["fast"].on_event }).to_string();
        let clean = secrets.left_out_of(&format!("{told} {json}"));
        for secret in [
            "tok3n",
            "hunter22",
            "T0KEN",
            "s3cr3t",
            "0123456789abcdef",
            "curl",
        ] {
            assert!(!clean.contains(secret), "{secret}: {clean}");
        }
        assert!(clean.starts_with("the hook said (set; left out of this bundle), the mailer"));
        assert!(
            clean.ends_with("{\"command\":\"(set; left out of this bundle)\"}"),
            "{clean}"
        );
        // What is no secret stays.
        let plain = "fullstripe serve --nbd unix:/x /dev/nvme0n1 https://w.example/ mailer root";
        assert_eq!(secrets.left_out_of(plain), plain);
    }

    #[test]
    fn users_and_passwords_of_addresses_are_left_out() {
        let secrets = Secrets::of(None, std::iter::empty());
        for (text, wanted) in [
            ("smtp://u:p@w@h/x a@b", "smtp://...@h/x a@b"),
            (
                "x https://h/p@q and ftp://me@h",
                "x https://h/p@q and ftp://...@h",
            ),
            ("://", "://"),
            ("\"http://a:b@c\",\"d@e\"", "\"http://...@c\",\"d@e\""),
        ] {
            assert_eq!(secrets.left_out_of(text), wanted);
        }
    }
}

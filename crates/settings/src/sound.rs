//! What can be used of a settings file that has mistakes.
//!
//! One array's mistake must not hold up the others: a machine boots with the file that it has, and nobody is there to correct
//! it. So whoever starts arrays takes the blocks without a mistake ([`Sound::settings`]), and reports the mistakes. A block
//! `[array.NAME]` with a mistake is not used at all, because the array would be served in a way that nobody chose. Of `[alerts]`
//! only the key with the mistake is left out: an alert too many is better than none. Of two blocks with the same UUID or address
//! the first in the file counts. In a text that is not TOML nothing can be told apart, so nothing is used.
//!
//! Whoever changes or checks the file uses [`Settings::parse`], to which the first mistake is an error.

use crate::{Settings, check_name, reader, text_of};
use anyhow::{Result, anyhow};
use std::fmt;
use std::path::Path;

/// What a file says, as far as it can be used.
#[derive(Debug, Default)]
pub struct Sound {
    /// The arrays whose blocks have no mistake, and the alerts without the keys that have one.
    pub settings: Settings,
    /// The mistakes, in the order in which they were found; at most one for each block of an array.
    pub mistakes: Vec<Mistake>,
}

/// A mistake.
#[derive(Debug)]
pub struct Mistake {
    /// What cannot be used.
    pub concerns: Concerns,
    /// One sentence: file, line, key, what is wrong with it, and what to write instead.
    pub error: anyhow::Error,
}

/// What cannot be used because of a mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Concerns {
    /// The array with this name in the file. It need not be a name that an array can have.
    Array(String),
    /// A key of `[alerts]`, or all of it.
    Alerts,
    /// Something else in the file.
    File,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#}", self.error)
    }
}

impl Sound {
    /// Reads the file at `path`. A file that does not exist has no arrays.
    ///
    /// # Errors
    /// The file cannot be read, is longer than 1 MiB, or is not TOML.
    pub fn read(path: &Path) -> Result<Sound> {
        let text = text_of(path)?.unwrap_or_default();
        Sound::parse(&text, &path.display().to_string())
    }

    /// Reads `text`, the content of the file called `shown_name` in mistakes.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn parse(text: &str, shown_name: &str) -> Result<Sound> {
        reader::read(text, shown_name)
    }

    /// The settings, if there is no mistake.
    ///
    /// # Errors
    /// The first mistake.
    pub fn without_mistake(self) -> Result<Settings> {
        match self.mistakes.into_iter().next() {
            Some(mistake) => Err(mistake.error),
            None => Ok(self.settings),
        }
    }

    /// The names of all arrays that the file has a block for, whether it can be used or not, in the order of the alphabet. A
    /// block whose name no array can have is left out.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let sound = self.settings.arrays.keys().map(String::as_str);
        let flawed = self
            .mistakes
            .iter()
            .filter_map(|mistake| match &mistake.concerns {
                Concerns::Array(name) if check_name(name).is_ok() => Some(name.as_str()),
                _ => None,
            });
        let mut names: Vec<&str> = sound.chain(flawed).collect();
        names.sort_unstable();
        names
    }

    /// Takes out the mistake in the block of the array called `name`, if there is one. Without such a block it is the error
    /// that names the blocks that there are, and the other mistakes: one of them may be the reason.
    ///
    /// # Errors
    /// The array cannot be served.
    pub fn check_array(&mut self, name: &str) -> Result<()> {
        let concerns = Concerns::Array(name.to_owned());
        if let Some(at) = self
            .mistakes
            .iter()
            .position(|mistake| mistake.concerns == concerns)
        {
            return Err(self.mistakes.remove(at).error);
        }
        self.settings.array(name).map(|_| ()).map_err(|missing| {
            let mistakes: String = self.mistakes.iter().map(|one| format!("; {one}")).collect();
            anyhow!("{missing:#}{mistakes}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with the UUID that consists of this digit, and these further lines.
    fn block(name: &str, digit: char, lines: &str) -> String {
        let word = digit.to_string().repeat(8);
        format!("[array.{name}]\nuuid = \"{word}:{word}:{word}:{word}\"\n{lines}")
    }

    fn read(text: &str) -> Sound {
        Sound::parse(text, "file").unwrap()
    }

    /// The names of the sound arrays, and the beginning of each mistake.
    fn found(text: &str) -> (Vec<String>, Vec<String>) {
        let sound = read(text);
        let mistakes = sound.mistakes.iter().map(|mistake| {
            let text = mistake.to_string();
            let (beginning, _) = text.split_once(';').expect("a mistake says what to do");
            format!("{:?} {beginning}", mistake.concerns)
        });
        let mistakes = mistakes.collect();
        (sound.settings.arrays.into_keys().collect(), mistakes)
    }

    #[test]
    fn a_mistake_in_a_block_leaves_the_others() {
        let text = block("a", '1', "shards = 99\nnbd = 1\n")
            + &block("b", '2', "")
            + "[array.c]\n[arary.d]\n";
        let wanted = [
            r#"Array("a") file:3: array.a.shards cannot be 99"#,
            r#"Array("c") file:7: array.c has no uuid"#,
            r#"File file:8: "arary" is no key of this file"#,
        ];
        assert_eq!(
            found(&text),
            (vec!["b".to_owned()], wanted.map(str::to_owned).to_vec())
        );
        let mut sound = read(&text);
        assert_eq!(sound.names(), ["a", "b", "c"]);
        sound.check_array("b").unwrap();
        let error = |sound: &mut Sound, name| sound.check_array(name).unwrap_err().to_string();
        assert!(error(&mut sound, "a").starts_with("file:3: array.a.shards "));
        // Its own mistake is the error; what is left concerns others.
        assert_eq!(sound.mistakes.len(), 2);
        let missing = error(&mut sound, "d");
        assert!(
            missing.starts_with("the settings have no array \"d\"; name one of these: b; file:7: ")
                && missing.contains("; file:8: \"arary\" is no key"),
            "{missing}"
        );
    }

    #[test]
    fn the_first_mistake_is_the_error_of_who_checks() {
        let text = block("a", '1', "") + "[alerts]\nmial = []\n" + &block("b", '2', "shards = 0\n");
        let first = read(&text).without_mistake().unwrap_err().to_string();
        assert!(
            first.starts_with("file:7: array.b.shards cannot be 0"),
            "{first}"
        );
        assert_eq!(
            first,
            Settings::parse(&text, "file").unwrap_err().to_string()
        );
        assert!(read(&block("a", '1', "")).without_mistake().is_ok());
    }

    #[test]
    fn of_two_blocks_about_the_same_the_first_counts() {
        let text = block("b", '1', "nbd = ['unix:/s']\n")
            + &block("a", '1', "")
            + &block("c", '3', "nbd = ['unix:/s']\n");
        let (sound, mistakes) = found(&text);
        assert_eq!(sound, ["b"]);
        assert!(
            mistakes[0].starts_with("Array(\"a\") file:5: "),
            "{mistakes:?}"
        );
        assert!(
            mistakes[1].starts_with("Array(\"c\") file:8: "),
            "{mistakes:?}"
        );
    }

    #[test]
    fn a_key_of_the_alerts_with_a_mistake_is_left_out() {
        let alerts = "[alerts]\nminimum = 'all'\nmail = ['root']\nwebhook = 'http://x.y/z'\nwebhook_file = '/f'\n";
        let sound = read(&(alerts.to_owned() + &block("a", '1', "")));
        assert_eq!(sound.settings.arrays.len(), 1);
        assert_eq!(sound.settings.alerts.mail, ["root"]);
        assert!(
            sound.settings.alerts.webhook.is_some() && sound.settings.alerts.webhook_file.is_none()
        );
        let lines: Vec<String> = sound.mistakes.iter().map(ToString::to_string).collect();
        assert!(
            sound
                .mistakes
                .iter()
                .all(|one| one.concerns == Concerns::Alerts)
        );
        assert!(
            lines.len() == 2
                && lines[0].starts_with("file:2: ")
                && lines[1].starts_with("file:5: "),
            "{lines:?}"
        );
        let none = read("alerts = 1\n");
        assert_eq!(
            (none.mistakes.len(), none.settings),
            (1, Settings::default())
        );
    }

    #[test]
    fn of_what_is_no_toml_nothing_is_used() {
        let error = Sound::parse(&(block("a", '1', "") + "[array\n"), "file").unwrap_err();
        assert!(
            error.to_string().starts_with("file:3: this is not TOML ("),
            "{error}"
        );
        assert_eq!(
            read("[array.'a b']\nuuid = 1\n").names(),
            Vec::<&str>::new()
        );
        assert_eq!(found("array = 1").1, ["File file:1: \"array\" is no table"]);
    }
}

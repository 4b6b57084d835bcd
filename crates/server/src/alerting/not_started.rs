//! Tells that an array of the settings does not start.
//!
//! Its process may wait for drives for days, or end with an error and be started again every two seconds. So what was told is
//! noted in the same file as all alerts of the array ([`super::book`]), and nothing is sent that could not be noted there: each
//! cause is told once, until the array is served. The file belongs to the process that has locked the array's state folder. It is
//! locked here only while something is being sent, because who has locked it counts as the server of the array.

use super::{AlertOptions, Alerter};
use crate::commands::Commands;
use crate::event_kinds::Kind;
use crate::events::Told;
use crate::hearer::{Audience, Hearer};
use crate::state_folder::claim;
use anyhow::{Context, Result};
use container::state_folder;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When it is tried again to send what could not be sent, or not be noted.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a server that has just been stopped may keep the folder locked.
const FREE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// See the module's documentation.
pub struct NotStarted {
    options: AlertOptions,
    uuid: String,
    hearer: Arc<dyn Hearer>,
    /// The program's state folder, if not the usual one.
    program_folder: Option<PathBuf>,
    /// What was told last.
    told: Option<String>,
    /// It has to be noted yet.
    is_new: bool,
    /// Something has not arrived.
    is_left: bool,
    tried: Option<Instant>,
    /// What is being sent, and the lock.
    sending: Option<(Alerter, File)>,
}

impl NotStarted {
    /// Nothing has gone wrong yet with the array whose container has this UUID. `hearer` gets the event, for the journal.
    #[must_use]
    pub fn new(options: AlertOptions, uuid: &str, hearer: Arc<dyn Hearer>) -> NotStarted {
        NotStarted {
            options,
            uuid: uuid.to_owned(),
            hearer,
            program_folder: None,
            told: None,
            is_new: false,
            is_left: false,
            tried: None,
            sending: None,
        }
    }

    /// Tells the operator the sentence `text`, in all ways that are set, unless it was told since the array was served last, by
    /// this process or one before. Whoever waits calls it again and again, so that what has not arrived is tried again.
    pub fn tell(&mut self, text: &str) {
        let event = Told::of_process(Kind::ArrayNotStarted, text.to_owned(), true);
        let is_first = self.told.as_deref() != Some(text);
        if is_first {
            self.hearer.event(&event, Audience::All);
            self.told = Some(text.to_owned());
            (self.is_new, self.tried) = (true, None);
        }
        self.look();
        let is_due = self.tried.is_none_or(|at| at.elapsed() >= TRY_AGAIN_AFTER);
        let is_idle = self.sending.is_none() && (self.is_new || self.is_left);
        if !is_idle || !is_due || self.options.ways.all().is_empty() {
            return;
        }
        self.tried = Some(Instant::now());
        match self.start() {
            Ok((alerter, claimed)) => {
                if self.is_new {
                    alerter.tell(&event);
                }
                alerter.close();
                (self.is_new, self.is_left) = (false, false);
                self.sending = Some((alerter, claimed));
            }
            Err(error) if is_first => self.hearer.say(&format_args!(
                "no alert is sent that the array does not start: {error:#}"
            )),
            Err(_) => {}
        }
    }

    /// Looks whether sending has come to its end, and lets the state folder go if it has.
    fn look(&mut self) {
        let left = self
            .sending
            .as_ref()
            .and_then(|(alerter, _)| alerter.left());
        if let Some(left) = left {
            self.sending = None;
            // Another sentence may have come meanwhile.
            self.is_new |= !left.is_stored;
            self.is_left |= left.has_waiting;
        }
    }

    /// Waits, for at most `within`, until each alert has been tried, and lets the array's state folder go. The next process sends
    /// what has not arrived.
    pub fn end(&mut self, within: Duration) {
        if let Some((alerter, claimed)) = self.sending.take() {
            alerter.finish(within);
            drop(claimed);
        }
        (self.told, self.tried) = (None, None);
    }

    fn start(&self) -> Result<(Alerter, File)> {
        let program_folder = match &self.program_folder {
            Some(folder) => folder.clone(),
            None => state_folder::choose()?,
        };
        let folder = state_folder::of_array(&program_folder, &self.uuid);
        let deadline = Instant::now() + FREE_WITHIN;
        let claimed = loop {
            match claim(&folder) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                claimed => {
                    break claimed
                        .with_context(|| format!("{} cannot be used", folder.display()))?;
                }
            }
        };
        let hearer = self.hearer.clone();
        let alerter = Alerter::new(self.options.clone(), Commands::default(), move |problem| {
            hearer.say(problem);
        });
        alerter.begin(Some(folder), Box::new(|| None))?;
        Ok((alerter, claimed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PATIENCE, options, started, wait_for};
    use super::*;
    use crate::runtime::lock;
    use std::fmt::Display;
    use std::path::Path;
    use std::sync::Mutex;

    /// Keeps what is said.
    #[derive(Default)]
    struct Ears(Mutex<Vec<String>>);

    impl Hearer for Ears {
        fn say(&self, sentence: &dyn Display) {
            lock(&self.0).push(sentence.to_string());
        }

        fn event(&self, event: &Told, _: Audience) {
            lock(&self.0).push(format!("{}: {}", event.kind, event.text));
        }
    }

    const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";

    fn not_started(folder: &Path, ears: &Arc<Ears>) -> NotStarted {
        let mut made = NotStarted::new(options(folder), UUID, ears.clone());
        made.program_folder = Some(folder.join("state"));
        made
    }

    #[test]
    fn a_start_that_fails_again_and_again_is_told_once_and_so_is_its_success() {
        let folder = tempfile::tempdir().unwrap();
        let ears = Arc::default();
        for _ in 0..4 {
            // As many processes.
            let mut failing = not_started(folder.path(), &ears);
            failing.tell("no memory");
            failing.end(PATIENCE);
        }
        wait_for(folder.path(), "fast array-not-started\n");
        assert_eq!(*lock(&ears.0), ["array-not-started: no memory"; 4]);
        let state = state_folder::of_array(&folder.path().join("state"), UUID);
        let alerter = started(folder.path(), &state);
        wait_for(folder.path(), "fast array-not-started\nfast resolved\n");
        alerter.finish(PATIENCE);
        // The next time is another one.
        let mut failing = not_started(folder.path(), &ears);
        failing.tell("no memory");
        failing.end(PATIENCE);
        let all = "fast array-not-started\nfast resolved\nfast array-not-started\n";
        wait_for(folder.path(), all);
    }

    #[test]
    fn what_does_not_arrive_while_the_array_waits_is_tried_again_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let (ears, no) = (Arc::default(), folder.path().join("no"));
        std::fs::write(&no, "").unwrap();
        let mut waiting = not_started(folder.path(), &ears);
        let state = state_folder::of_array(&folder.path().join("state"), UUID);
        let give_up = Instant::now() + PATIENCE;
        while lock(&ears.0).len() < 2 || state_folder::is_served(&state).unwrap() {
            assert!(Instant::now() < give_up, "{:?}", lock(&ears.0));
            waiting.tell("two drives are missing");
            std::thread::sleep(LOOK_EVERY);
        }
        waiting.end(PATIENCE);
        let said = lock(&ears.0).clone();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].contains("will be tried again"), "{said:?}");
        std::fs::remove_file(no).unwrap();
        let mut waiting = not_started(folder.path(), &ears);
        // After the pause of ten seconds.
        while !folder.path().join("out").exists() {
            assert!(Instant::now() < give_up + PATIENCE, "nothing is sent");
            waiting.tell("two drives are missing");
            std::thread::sleep(LOOK_EVERY);
        }
        wait_for(folder.path(), "fast array-not-started\n");
        // Another cause, perhaps while the first is being sent.
        waiting.tell("one drive is missing");
        let both = "fast array-not-started\nfast array-not-started\n";
        while std::fs::read_to_string(folder.path().join("out")).unwrap() != both {
            assert!(Instant::now() < give_up + PATIENCE, "it is not told");
            waiting.tell("one drive is missing");
            std::thread::sleep(LOOK_EVERY);
        }
        waiting.end(PATIENCE);
    }

    #[test]
    fn nothing_is_sent_that_cannot_be_noted_or_while_another_process_serves_the_array() {
        let folder = tempfile::tempdir().unwrap();
        let ears = Arc::default();
        let mut failing = not_started(folder.path(), &ears);
        let state = state_folder::of_array(&folder.path().join("state"), UUID);
        let other = claim(&state).unwrap();
        failing.tell("the socket is in use");
        failing.end(PATIENCE);
        drop(other);
        // A file that cannot be replaced.
        std::fs::create_dir_all(state.join(super::super::NAME).join("x")).unwrap();
        failing.tell("no memory");
        failing.end(PATIENCE);
        assert!(!folder.path().join("out").exists());
        let said = lock(&ears.0).join("\n");
        assert!(said.contains("another process serves this array"), "{said}");
        assert!(said.contains("alerts.json cannot be written"), "{said}");
    }
}

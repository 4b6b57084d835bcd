//! State that a server takes over from the one before and leaves to the next: events, and settings.
//!
//! The files are described in [`crate::state_folder`]. An array that is gone when the process ends has none.

use super::event_kinds::Kind;
use super::events::{Told, tell_start_note};
use crate::api::EventLog;
use crate::state_folder::keeper::{Keeper, Remembered};
use anyhow::Result;
use container::state_folder;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use words::size;

/// Reports an event to everybody.
pub(super) type Tell = Arc<dyn Fn(Told) + Send + Sync>;

/// What the start needs of the state that was kept.
#[derive(Default)]
pub(super) struct Remembering {
    /// Keeps the state from now on; `None` if it is not kept.
    pub keeper: Option<Arc<Keeper>>,
    /// The folder of the state; `None` if it is not kept.
    pub folder: Option<PathBuf>,
    /// The limit of background work that an operator set, for this and later servers.
    pub rate_bytes_per_s: Option<u64>,
    /// The serial numbers of the spares that the array had when it was served last.
    pub spares: BTreeSet<String>,
    /// The event that the server starts, to be reported before everything else. People see for themselves that they
    /// have started it.
    pub beginning: Option<Told>,
    /// Notes that people should see.
    pub notes: Vec<Told>,
}

impl Remembering {
    /// Lets `log` continue where the server before ended; `container_uuid` is that of the array, if it outlasts the
    /// process. Whatever goes wrong becomes a note.
    pub fn begin(container_uuid: Option<&str>, log: &EventLog, tell: &Tell) -> Remembering {
        let Some(uuid) = container_uuid else {
            return Remembering {
                beginning: Some(started(&Remembered::default())),
                ..Remembering::default()
            };
        };
        let warn = tell.clone();
        let start = || -> Result<(PathBuf, Keeper, Remembered)> {
            let folder = state_folder::choose()?;
            let warn = move |text| warn(not_kept(text));
            let (keeper, remembered) = Keeper::start(&folder, uuid, log, warn)?;
            Ok((state_folder::of_array(&folder, uuid), keeper, remembered))
        };
        match start() {
            Ok((folder, keeper, remembered)) => Remembering {
                folder: Some(folder),
                keeper: Some(Arc::new(keeper)),
                rate_bytes_per_s: remembered.rate_bytes_per_s,
                beginning: Some(started(&remembered)),
                spares: remembered.spares,
                notes: remembered.unread.into_iter().map(not_kept).collect(),
            },
            Err(error) => Remembering {
                beginning: Some(started(&Remembered::default())),
                notes: vec![not_kept(format!(
                    "events and the rate are forgotten when this process ends: {error:#}"
                ))],
                ..Remembering::default()
            },
        }
    }

    /// The limit to begin with: `option`, else the one that was kept, else none. A note says where it comes from.
    pub fn choose_rate(&mut self, option: Option<u64>) -> u64 {
        let note = match (option, self.rate_bytes_per_s) {
            (Some(option), Some(ordered)) if option != ordered => format!(
                "--rate takes precedence: background work is {}; `fullstripe rate` had set it to be {}",
                limit(option),
                limit(ordered)
            ),
            (None, Some(ordered)) if ordered > 0 => format!(
                "background work is {}, as `fullstripe rate` has set it; `fullstripe rate unlimited` ends that",
                limit(ordered)
            ),
            _ => String::new(),
        };
        if !note.is_empty() {
            self.notes.push(tell_start_note(&note));
        }
        option.or(self.rate_bytes_per_s).unwrap_or(0)
    }
}

fn limit(bytes_per_s: u64) -> String {
    match bytes_per_s {
        0 => "unlimited".to_owned(),
        limit => format!("limited to {}/s of each drive", size(limit)),
    }
}

fn started(remembered: &Remembered) -> Told {
    let mut text = format!(
        "process {} serves the array, fullstripe {}",
        std::process::id(),
        env!("CARGO_PKG_VERSION")
    );
    if remembered.is_cut_short {
        text += "; the process before it recorded no end: it was killed, or the machine went down";
    }
    Told::of_process(Kind::ServerStarted, text, remembered.is_cut_short)
}

/// The event that something is not kept across restarts; `text` says what.
pub(super) fn not_kept(text: String) -> Told {
    Told::of_process(Kind::NotRemembered, text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ordered: Option<u64>, option: Option<u64>) -> (u64, String) {
        let mut remembering = Remembering {
            rate_bytes_per_s: ordered,
            ..Remembering::default()
        };
        let rate = remembering.choose_rate(option);
        let notes: Vec<String> = remembering
            .notes
            .into_iter()
            .map(|told| told.text)
            .collect();
        (rate, notes.concat())
    }

    #[test]
    fn the_option_comes_before_what_was_ordered_and_both_are_told() {
        let mut text = String::new();
        for (ordered, option) in [
            (None, None),
            (None, Some(1 << 20)),
            (Some(200 << 20), None),
            (Some(0), None),
            (Some(200 << 20), Some(1 << 20)),
            (Some(200 << 20), Some(0)),
            (Some(200 << 20), Some(200 << 20)),
        ] {
            let (rate, note) = with(ordered, option);
            text += &format!("{ordered:?} {option:?}: {rate}; {note}.\n");
        }
        insta::assert_snapshot!(text, @r"
        None None: 0; .
        None Some(1048576): 1048576; .
        Some(209715200) None: 209715200; background work is limited to 200 MiB/s of each drive, as `fullstripe rate` has set it; `fullstripe rate unlimited` ends that.
        Some(0) None: 0; .
        Some(209715200) Some(1048576): 1048576; --rate takes precedence: background work is limited to 1 MiB/s of each drive; `fullstripe rate` had set it to be limited to 200 MiB/s of each drive.
        Some(209715200) Some(0): 0; --rate takes precedence: background work is unlimited; `fullstripe rate` had set it to be limited to 200 MiB/s of each drive.
        Some(209715200) Some(209715200): 209715200; .
        ");
    }
}

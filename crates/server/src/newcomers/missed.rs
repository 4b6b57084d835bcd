//! Spares that the array had when it was served last and that have not come: nothing uses a spare, so nobody else misses it.
//!
//! The serial numbers of the array's spares are kept for the next start. A spare that is not part of the array in time is told of
//! once, and is none of the array's spares from then on.

use super::Told;
use crate::event_kinds::Kind;
use crate::remembering::not_kept;
use crate::state_folder::keeper::Keeper;
use crate::status::MemberStatus;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is known of the array's spares, by their serial numbers.
#[derive(Default)]
pub struct Missed {
    /// Keeps the spares for the next start; `None` if nothing is kept.
    keeper: Option<Arc<Keeper>>,
    /// The spares that are kept.
    kept: BTreeSet<String>,
    /// Those of the last server that have not come yet.
    awaited: BTreeSet<String>,
    /// How long after the first look a spare may come.
    come_within: Duration,
    /// When those that have not come are told of; `None` before the first look.
    tell_at: Option<Instant>,
}

impl Missed {
    /// Awaits the `spares` of the last server, as `keeper` has kept them.
    #[must_use]
    pub fn new(spares: BTreeSet<String>, keeper: Option<Arc<Keeper>>) -> Missed {
        Missed {
            keeper,
            kept: spares.clone(),
            awaited: spares,
            ..Missed::default()
        }
    }

    /// The same, with so long for them to come.
    #[must_use]
    pub fn coming_within(self, come_within: Duration) -> Missed {
        Missed {
            come_within,
            ..self
        }
    }

    /// Awaits none, and keeps none: whoever serves the array names its spares.
    pub fn give_up(mut self, tell: &dyn Fn(Told)) {
        self.awaited.clear();
        self.keep(BTreeSet::new(), tell);
    }

    /// Looks whether spares have come, are late, or have become others.
    pub fn look(&mut self, members: &[MemberStatus], now: Instant, tell: &dyn Fn(Told)) {
        let has_come = |serial: &String| members.iter().any(|one| one.serial == *serial);
        self.awaited.retain(|serial| !has_come(serial));
        let spares = members.iter().filter(|one| one.state == "spare");
        let present: BTreeSet<String> = spares.map(|one| one.serial.clone()).collect();
        if now >= *self.tell_at.get_or_insert(now + self.come_within) {
            for serial in std::mem::take(&mut self.awaited) {
                tell(missing(&serial, self.come_within, present.len()));
            }
        }
        self.keep(&present | &self.awaited, tell);
    }

    fn keep(&mut self, spares: BTreeSet<String>, tell: &dyn Fn(Told)) {
        let Some(keeper) = self.keeper.as_ref().filter(|_| spares != self.kept) else {
            return;
        };
        self.kept.clone_from(&spares);
        if let Err(error) = keeper.keep_spares(spares) {
            tell(not_kept(format!(
                "if a spare is gone at the next start, nobody will miss it: {error:#}"
            )));
        }
    }
}

/// The event that the spare with this serial number has not come; the array has `left` others.
fn missing(serial: &str, within: Duration, left: usize) -> Told {
    let left = match left {
        0 => "no other spare".to_owned(),
        1 => "1 other spare".to_owned(),
        _ => format!("{left} other spares"),
    };
    let text = format!(
        "the spare with the serial number {serial} is missing: the array had it when it was served last, and it has not come within \
         {} s; the array has {left}",
        within.as_secs()
    );
    Told::of_process(Kind::SpareMissing, text, true)
}

#[cfg(test)]
mod tests;

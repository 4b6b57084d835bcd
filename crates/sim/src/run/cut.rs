//! Support for [`crate::cuts`]: stopping a run at every instant, and beginning a run on drives as a power cut has
//! left them.

use super::{Failure, Run};
use crate::cuts::images::Cut;
use crate::cuts::tape::Clock;
use crate::drive::Drive;
use crate::history::History;
use crate::machine::{Ending, Machine};
use crate::oracle::Oracle;
use engine::control::record::Record;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// How long a start is followed after the array has begun to serve: by then its records have been updated, and
/// resyncs and rebuilds have begun.
const FOLLOWED_NS: u64 = 2_000_000;

/// An instant of a history at which the power can be cut.
pub(crate) struct Moment {
    /// The states that the drives may have.
    pub cut: Cut,
    /// The values that clients may read.
    pub oracles: Vec<Oracle>,
    /// Number of answers that clients had received: a state is examined again only after more answers.
    pub answered: u64,
}

/// Runs a history and calls `look` with every instant in `window`, in nanoseconds, at which something has
/// changed.
///
/// # Errors
/// If the history or `look` fails.
pub(crate) fn moments(
    history: &History,
    window: Range<u64>,
    mut look: impl FnMut(Moment) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut run = Run::new(history, false)?;
    let clock = record(&run);
    run.start()?;
    run.schedule_action();
    follow(&mut run, &clock, window, &mut look)
}

/// Continues a run, and calls `look` with every instant in `window`, in nanoseconds, at which something has
/// changed.
fn follow(
    run: &mut Run<'_>,
    clock: &Clock,
    window: Range<u64>,
    look: &mut impl FnMut(Moment) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut seen = None;
    loop {
        let Some(happening) = run.machine.borrow_mut().queue.take() else {
            return Ok(());
        };
        if run.now_ns() > window.end {
            return Ok(());
        }
        let before = clock.get();
        run.happen(happening)?;
        if run.now_ns() >= window.start {
            // Several writes can happen in one step, as when a drive is prepared; there are instants between them
            // too.
            for until in before + 1..clock.get() {
                let on_their_way = run.machine.borrow().writes_on_their_way();
                look(Moment {
                    cut: Cut::new(&run.machine.borrow().drives, until, on_their_way),
                    oracles: run.oracles.clone(),
                    answered: run.counts.requests,
                })?;
            }
        }
        let mut machine = run.machine.borrow_mut();
        let tapes = machine.drives.iter_mut();
        tapes.for_each(|drive| {
            if let Some(tape) = &mut drive.tape {
                tape.fold();
            }
        });
        if machine.queue.now_ns() < window.start {
            continue;
        }
        let now = (
            clock.get(),
            machine.writes_on_their_way().len(),
            run.counts.requests,
        );
        if seen.replace(now) == Some(now) {
            continue;
        }
        let moment = Moment {
            cut: Cut::now(&machine, clock.get()),
            oracles: run.oracles.clone(),
            answered: run.counts.requests,
        };
        drop(machine);
        look(moment)?;
    }
}

/// Runs a history until `cut_ns`, ends the process there, and calls `look` with every instant of the start that
/// follows: until the array serves, and for the first milliseconds after that ([`FOLLOWED_NS`]).
///
/// # Errors
/// As [`moments`], or if the start is refused.
pub(crate) fn moments_of_start(
    history: &History,
    cut_ns: u64,
    mut look: impl FnMut(Moment) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut run = Run::new(history, false)?;
    run.start()?;
    run.schedule_action();
    while run.now_ns() < cut_ns {
        let Some(happening) = run.machine.borrow_mut().queue.take() else {
            break;
        };
        run.happen(happening)?;
    }
    // All writes in flight have been carried out and none is lost: that leaves most to repair at the start.
    let begun = run.machine.borrow().writes_on_their_way();
    if let Some(process) = run.process.take() {
        process.end(Ending::Process);
    }
    for (bay, offset_bytes, bytes) in begun {
        run.machine.borrow_mut().drives[bay].tamper(offset_bytes, &bytes);
    }
    run.forget_flying();
    let oracles = run.oracles.iter_mut();
    let in_flight: Vec<Vec<u64>> = oracles.map(|oracle| oracle.crash(true)).collect();
    // Drives that had dropped out are back.
    let mut machine = run.machine.borrow_mut();
    let drives = machine.drives.iter_mut();
    drives.for_each(|drive| drive.faults.come_back());
    drop(machine);
    let clock = record(&run);
    run.start()?;
    let before = clock.get();
    for until in 0..=before {
        let machine = run.machine.borrow();
        let cut = Cut::new(&machine.drives, until, Vec::new());
        drop(machine);
        look(Moment {
            cut,
            oracles: run.oracles.clone(),
            answered: 0,
        })?;
    }
    run.admit_lost_writes(&in_flight);
    let now_ns = run.now_ns();
    follow(&mut run, &clock, now_ns..now_ns + FOLLOWED_NS, &mut look)
}

fn record(run: &Run<'_>) -> Clock {
    let clock = Clock::default();
    let mut machine = run.machine.borrow_mut();
    let drives = machine.drives.iter_mut();
    drives.for_each(|drive| drive.record(&clock));
    clock
}

/// Starts the array of a history from the state that a power cut has left, reads all of it, lets it become whole,
/// and checks the content of the drives. Returns whether there is an array; without `may_be_nothing`, its absence
/// is an error. `started` is called when the array has been started and not read yet.
///
/// # Errors
/// The first violated expectation.
pub(crate) fn judge(
    history: &History,
    drives: Vec<Drive>,
    oracles: Vec<Oracle>,
    may_be_nothing: bool,
    started: impl FnOnce(&Record, &[Oracle]),
) -> Result<bool, Failure> {
    let mut run = Run::new(history, false)?;
    let bays = drives.len();
    run.machine = Rc::new(RefCell::new(Machine::new(history.seed, drives, false)));
    run.oracles = oracles;
    run.next_action = history.actions.len();
    run.suspect_until_ns = vec![0; bays];
    run.meddled = vec![false; bays];
    let in_flight: Vec<Vec<u64>> = run
        .oracles
        .iter_mut()
        .map(|oracle| oracle.crash(true))
        .collect();
    match run.start() {
        Err(Failure::Refused(_)) if may_be_nothing => return Ok(false),
        other => other?,
    }
    run.admit_lost_writes(&in_flight);
    if let Some(process) = &run.process {
        started(process.record(), &run.oracles);
    }
    run.read_everything()?;
    run.heal()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuts::scenes::{Kind, scene};
    use engine::layout::Level;

    /// The times at which another drive takes the slot.
    fn changes_of_slot(history: &History, slot: usize, end_ns: u64) -> Vec<u64> {
        let mut run = Run::new(history, false).expect("a sound history");
        run.start().expect("the array starts");
        run.schedule_action();
        let (mut member, mut changes) = (None, Vec::new());
        while run.now_ns() < end_ns {
            let Some(happening) = run.machine.borrow_mut().queue.take() else {
                break;
            };
            run.happen(happening).expect("the run has no failure");
            let process = run.process.as_ref().expect("the array serves");
            let found = process.record().volumes[0].slots[slot].member;
            if member.replace(found).is_some_and(|before| before != found) {
                changes.push(run.now_ns());
            }
        }
        changes
    }

    #[test]
    fn replacements_are_cut_before_and_after_the_drives_have_changed_places() {
        for kind in [Kind::Replace, Kind::StartReplace] {
            for level in [Level::Raid1, Level::Raid10, Level::Raid5] {
                let scene = scene(level, kind).expect("there is such a scene");
                let changes = changes_of_slot(&scene.history, 1, scene.window.end);
                assert_eq!(changes.len(), 1, "{kind:?} {level:?} {changes:?}");
                assert!(scene.window.contains(&changes[0]), "{kind:?} {level:?}");
            }
        }
    }
}

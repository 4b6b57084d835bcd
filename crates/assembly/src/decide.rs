//! The only place that decides how each volume of a container starts, for commands that serve it as well as for those
//! that only display it.
//!
//! Each volume starts on its own merits: one that lacks a member it cannot work without, or whose data would
//! be in doubt, is not started and not changed, on record or on the drives, while others are served from the same
//! drives. If no volume can start, or the record itself is not understood, the whole container is refused.

use crate::assemble::bitmap::{FoundBitmap, read_all, start_modes};
use crate::log::rehearse;
use crate::member::Member;
use metadata::imsm::choose::{Assembly, MemberState};
use metadata::imsm::log::LogReport;
use metadata::imsm::start::{
    RefusedReason, StartMode, StartOptions, TRUST_RETURNED_FLAG, start_mode_without_log,
};

/// How a container is to be started.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The chosen record and drives, with the drives that are taken back.
    pub assembly: Assembly,
    /// The bitmaps of its volumes.
    pub bitmaps: Vec<FoundBitmap>,
    /// How each volume starts; if a write-hole log has to be replayed, how it starts once that has succeeded.
    pub modes: Vec<StartMode>,
    /// What the replay would do, by volume.
    pub replays: Vec<Option<LogReport>>,
    options: StartOptions,
}

/// Decides about `assembly` with the options that the user has accepted. With `read_only`, nothing may be written.
#[must_use]
pub fn decide(
    drives: &[impl Member],
    assembly: &Assembly,
    options: StartOptions,
    read_only: bool,
) -> Decision {
    let taken_back = || {
        let mut assembly = assembly.clone();
        assembly.take_back();
        assembly
    };
    // Taking a drive back requires writing to it.
    if options.trust_returned_drive && !read_only {
        return Decision::of(drives, taken_back(), options, read_only);
    }
    let mut decision = Decision::of(drives, assembly.clone(), options, read_only);
    if !assembly.returned.is_empty() && !read_only {
        let trusted = Decision::of(drives, taken_back(), options, read_only);
        for (mode, trusted) in decision.modes.iter_mut().zip(&trusted.modes) {
            if let StartMode::Refused { override_flag, .. } = mode
                && !is_refused(trusted)
            {
                *override_flag = Some(TRUST_RETURNED_FLAG);
            }
        }
    }
    decision
}

fn is_refused(mode: &StartMode) -> bool {
    matches!(mode, StartMode::Refused { .. })
}

impl Decision {
    fn of(
        drives: &[impl Member],
        assembly: Assembly,
        options: StartOptions,
        read_only: bool,
    ) -> Decision {
        let bitmaps = read_all(drives, &assembly);
        let modes = start_modes(&assembly, &bitmaps, options);
        let replays = modes.iter().enumerate().map(|(at, mode)| {
            let replays = matches!(mode, StartMode::ReadWrite { replay: true, .. });
            rehearse(drives, &assembly, at).filter(|_| replays)
        });
        let mut decision = Decision {
            replays: replays.collect(),
            modes,
            bitmaps,
            assembly,
            options,
        };
        for at in 0..decision.modes.len() {
            if let Some(refused) = decision.refused_by_log(at, read_only) {
                decision.modes[at] = refused;
            }
        }
        decision
    }

    /// The refusal of a volume whose log has to be replayed, if it must not be replayed or does not settle enough.
    fn refused_by_log(&self, at: usize, read_only: bool) -> Option<StartMode> {
        let StartMode::ReadWrite {
            replay: true,
            lost_slots,
            ..
        } = &self.modes[at]
        else {
            return None;
        };
        if read_only && !lost_slots.is_empty() {
            return Some(StartMode::Refused {
                reason: RefusedReason::ReplayWrites,
                override_flag: None,
            });
        }
        Some(self.outlook(at)).filter(is_refused)
    }

    /// How a volume would be started once its write-hole log has been replayed.
    #[must_use]
    pub fn outlook(&self, at: usize) -> StartMode {
        match &self.replays[at] {
            Some(report) if !report.is_conclusive() && !is_refused(&self.modes[at]) => {
                let present = self.assembly.present();
                start_mode_without_log(&self.assembly.mpb, at, &present, self.options)
            }
            _ => self.modes[at].clone(),
        }
    }

    /// Whether a volume is started, even if only for reading.
    #[must_use]
    pub fn starts(&self, at: usize) -> bool {
        !is_refused(&self.modes[at])
    }

    /// Why a volume is not started, and the option with which it would be started nevertheless.
    #[must_use]
    pub fn refusal(
        &self,
        drives: &[impl Member],
        at: usize,
    ) -> Option<(String, Option<&'static str>)> {
        let StartMode::Refused {
            reason,
            override_flag,
        } = &self.modes[at]
        else {
            return None;
        };
        let mut why = reason.to_string();
        if let Some(report) = &self.replays[at]
            && *reason != RefusedReason::ReplayWrites
        {
            why += &format!(", and its write-hole log cannot repair that ({report})");
        }
        let order = &self.assembly.mpb.volumes[at].current_map().order;
        let listed = order.iter().filter_map(|entry| {
            let state = self.assembly.members.get(entry.disk_index as usize);
            match state {
                Some(MemberState::Evicted { drive, reason }) => Some((*drive, *reason)),
                _ => None,
            }
        });
        // A drive that the record does not list may be the missing one under another serial, like a renamed file.
        let others = self.assembly.outsiders.iter().copied();
        for (drive, reason) in listed.chain(others.filter(|_| reason.lacks_members())) {
            why += &format!("; {} does not serve: {reason}", drives[drive].name());
        }
        Some((why, *override_flag))
    }

    /// The same as a sentence.
    #[must_use]
    pub fn sentence(&self, drives: &[impl Member], at: usize) -> Option<String> {
        let (why, option) = self.refusal(drives, at)?;
        let name = self.assembly.mpb.volumes[at].name;
        let hint = option.map_or(String::new(), |flag| {
            format!("; {flag} starts it all the same")
        });
        Some(format!("volume {name} is not started: {why}{hint}"))
    }

    /// Why nothing of the container is started: its record is not understood, or no volume can be started.
    #[must_use]
    pub fn refused(&self, drives: &[impl Member]) -> Option<String> {
        let concerns_all = |mode: &StartMode| matches!(mode, StartMode::Refused { reason, .. } if reason.concerns_container());
        if let Some(at) = self.modes.iter().position(concerns_all) {
            return self.sentence(drives, at);
        }
        let sentences = (0..self.modes.len()).map(|at| self.sentence(drives, at));
        let all: Option<Vec<String>> = sentences.collect();
        all.map(|sentences| sentences.join("; "))
    }
}

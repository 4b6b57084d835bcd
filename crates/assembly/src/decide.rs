//! How each volume of a container starts. This is decided here and nowhere else, for who serves it as well as for
//! who only wants to know.
//!
//! Each volume starts on its own merits: one that lacks a member that it cannot do without, or whose data would
//! be in doubt, stays as it is, on record and on the drives, while others are served from the same drives. Where
//! none can start, or the record itself is not understood, the container is refused.

use crate::assemble::bitmap::{FoundBitmap, read_all, start_modes};
use crate::log::rehearse;
use crate::member::Member;
use metadata::imsm::choose::{Assembly, MemberState};
use metadata::imsm::log::Report;
use metadata::imsm::start::{
    RefusedReason, StartMode, StartOptions, TRUST_RETURNED_FLAG, start_mode_without_log,
};

/// What is to be done with a container.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What was chosen, with the drives that were taken back.
    pub assembly: Assembly,
    /// The bitmaps of its volumes.
    pub bitmaps: Vec<FoundBitmap>,
    /// How each volume starts. Where a write-hole log has to be replayed, this is what follows if that succeeds.
    pub modes: Vec<StartMode>,
    /// What the replay would do, by volume.
    pub replays: Vec<Option<Report>>,
    options: StartOptions,
}

/// Decides about `assembly`, with what the user has accepted. `read_only`: nothing may be written at all.
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
    // To be taken back, a drive has to be written.
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

    /// A volume whose log has to be replayed, but must not be, or does not settle enough.
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

    /// How a volume would go on once its write-hole log has been replayed.
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

    /// Whether a volume starts, if only for reading.
    #[must_use]
    pub fn starts(&self, at: usize) -> bool {
        !is_refused(&self.modes[at])
    }

    /// Why a volume is not started, and the option that would start it all the same.
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
            why += &format!(", and its write-hole log does not settle that ({report})");
        }
        let order = &self.assembly.mpb.volumes[at].current_map().order;
        let listed = order.iter().filter_map(|entry| {
            let state = self.assembly.members.get(entry.disk_index as usize);
            match state {
                Some(MemberState::Evicted { drive, reason }) => Some((*drive, *reason)),
                _ => None,
            }
        });
        // A drive that the record does not list may be the one that is missing, as a file with a new name is.
        let others = self.assembly.outsiders.iter().copied();
        for (drive, reason) in listed.chain(others.filter(|_| reason.lacks_members())) {
            why += &format!("; {} does not serve: {reason}", drives[drive].name());
        }
        Some((why, *override_flag))
    }

    /// The same in a sentence.
    #[must_use]
    pub fn sentence(&self, drives: &[impl Member], at: usize) -> Option<String> {
        let (why, option) = self.refusal(drives, at)?;
        let name = self.assembly.mpb.volumes[at].name;
        let hint = option.map_or(String::new(), |flag| {
            format!("; {flag} starts it all the same")
        });
        Some(format!("volume {name} is not started: {why}{hint}"))
    }

    /// Why nothing of the container is started: its record is not understood, or no volume can be.
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

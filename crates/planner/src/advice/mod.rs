//! What costs the drives of a machine their speed, each as a pair of plans: the machine as it is, and with one thing changed.
//!
//! [`changes`] finds what may cost something: a link below what the drive supports, an uplink that several drives share, drives on
//! another socket, a wide slot with one drive, fewer queues than cores that submit. Whether it costs anything, and how much, is left to the plans: three loads on a RAID 0
//! of these drives, which is as fast as drives and links allow.

mod changes;
#[cfg(test)]
mod tests;

use crate::files::add_drive;
use crate::plan::ask::usual_state;
use crate::plan::loads::load;
use crate::predict::Virtual;
use crate::predict::library::Library;
use crate::predict::many::{Answered, Wanted};
use crate::work::{Watch, Work};
use anyhow::{Result, anyhow, ensure};
use changes::Change;
use engine::limits::VOLUME_MEMBERS_MAX;
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;
use lab::schema::setup::{Level, Reference, Setup};
use lab::workload::size::Size;
use lab::workload::{Operation, Workload};
use models::platform::Machine;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// A gain of less than this is none: runs with other seeds differ by as much.
const LEAST_GAIN_PERCENT: f64 = 1.0;

/// Most cores of the engine that plans of advice use.
const MOST_CORES: usize = 8;

/// One thing that could be changed, and what the array would gain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it is about: the names of drives, or of the node that they share.
    pub about: String,
    /// What is the matter.
    pub what: String,
    /// What was changed in the second plan.
    pub change: String,
    /// Drives that the array has more in the second plan.
    pub more_drives: usize,
    /// The array under each load, as it is and with the change.
    pub loads: Vec<Gain>,
}

impl Advice {
    /// The load that gains most.
    ///
    /// # Panics
    /// There is no load, which [`advise`] excludes.
    #[must_use]
    pub fn greatest(&self) -> &Gain {
        let by_gain = |one: &&Gain, other: &&Gain| one.gain_percent.total_cmp(&other.gain_percent);
        self.loads.iter().max_by(by_gain).expect("there are loads")
    }

    /// Whether the change would gain anything under one of the loads.
    #[must_use]
    pub fn gains(&self) -> bool {
        self.greatest().gain_percent >= LEAST_GAIN_PERCENT
    }
}

/// One load, with two plans.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The load: `sequential reads of 128 KiB`.
    pub load: String,
    /// What the array moves as it is.
    pub now_bytes_per_s: f64,
    /// What it moves with the change.
    pub then_bytes_per_s: f64,
    /// How much more that is.
    pub gain_percent: f64,
}

impl Gain {
    /// How much less the array moves as it is than with the change.
    #[must_use]
    pub fn lost_percent(&self) -> f64 {
        (1.0 - self.now_bytes_per_s / self.then_bytes_per_s) * 100.0
    }
}

/// Compares the machine as it is with each change that may gain something. `drive` is an id or a file, as `plan` takes them;
/// the machine has the bays of the array's drives alone.
///
/// # Errors
/// There are too many drives for one array. The drive is not known or its sheet lacks figures, or a plan cannot be computed.
pub fn advise(
    machine: &Machine,
    drive: &str,
    work: Work,
    watch: &dyn Watch,
) -> Result<Vec<Advice>> {
    ensure!(
        machine.bays.len() <= VOLUME_MEMBERS_MAX,
        "there are {} drives, and an array has at most {VOLUME_MEMBERS_MAX}: name those of one array",
        machine.bays.len()
    );
    let mut library = Library::default();
    let reference = Reference::from(drive.to_owned());
    add_drive(&mut library, Path::new(""), &reference)?;
    let profile = library.profile(&reference);
    let link = profile.map_err(|missing| anyhow!(missing.reason))?.link;
    let changes = changes::all(machine, link);
    let mut wanted = Wanted::new();
    for (number, change) in changes.iter().enumerate() {
        for (name, machine) in change.machines(number, machine) {
            library.add_machine(&name, machine)?;
            library.keep_queues_of(&name, machine);
            if let Some(socket) = change.buffers_on {
                library.keep_buffers_on(&name, socket);
            }
            for (_, workload) in loads(machine, change.cores) {
                let one = configuration(drive, machine, &name, (workload, change.cores));
                wanted.insert(one, BTreeSet::from([Metric::BytesPerSecond]));
            }
        }
    }
    let predictor = Virtual {
        quick: true,
        library,
        ..Virtual::default()
    };
    let (answered, _) = work.answer(&predictor, &wanted, watch);
    changes
        .iter()
        .enumerate()
        .map(|change| advice(change, machine, drive, &answered))
        .collect()
}

fn advice(
    (number, change): (usize, &Change),
    machine: &Machine,
    drive: &str,
    answered: &Answered,
) -> Result<Advice> {
    let rate = |name: &str, machine: &Machine, workload: Workload| -> Result<f64> {
        let load = (workload, change.cores);
        let answer = answered.get(&configuration(drive, machine, name, load));
        let answer = answer.expect("it was wanted").as_ref();
        let answer = answer.map_err(|missing| anyhow!(missing.reason.clone()))?;
        let value = answer.summary.get(&Metric::BytesPerSecond);
        Ok(value.expect("every run moves bytes").value)
    };
    let [now, then] = change.machines(number, machine);
    let pairs = loads(now.1, change.cores)
        .into_iter()
        .zip(loads(then.1, change.cores));
    let gains = pairs.map(|((load, workload), (_, workload_then))| {
        let now_bytes_per_s = rate(&now.0, now.1, workload)?;
        let then_bytes_per_s = rate(&then.0, then.1, workload_then)?;
        Ok(Gain {
            load: load.to_owned(),
            now_bytes_per_s,
            then_bytes_per_s,
            gain_percent: (then_bytes_per_s / now_bytes_per_s - 1.0) * 100.0,
        })
    });
    Ok(Advice {
        about: change.about.clone(),
        what: change.what.clone(),
        change: change.change.clone(),
        more_drives: then.1.bays.len() - now.1.bays.len(),
        loads: gains.collect::<Result<_>>()?,
    })
}

/// The loads, with clients for every drive, and for each of `cores` that submit.
fn loads(machine: &Machine, cores: Option<u32>) -> [(&'static str, Workload); 3] {
    let threads = (machine.bays.len() as u32).max(4).max(cores.unwrap_or(0));
    [
        ("sequential reads of 128 KiB", Operation::Read, 128 << 10),
        ("sequential writes of 128 KiB", Operation::Write, 128 << 10),
        ("random reads of 4 KiB", Operation::RandRead, 4 << 10),
    ]
    .map(|(name, op, bytes)| (name, load(op, Size::new(bytes), threads, 32)))
}

fn configuration(
    drive: &str,
    machine: &Machine,
    platform: &str,
    (workload, cores): (Workload, Option<u32>),
) -> Configuration {
    let usual_cores = machine.bays.len().min(MOST_CORES) as u32;
    let count = machine.bays.len();
    let (level, stack) = match count {
        1 => (Level::Single, "none"),
        _ => (Level::Raid0, "fullstripe"),
    };
    Configuration {
        setup: Setup {
            drive: Reference::from(drive.to_owned()),
            count: count as u32,
            level,
            platform: Reference::Id(platform.to_owned()),
            host: "linux-6.12".to_owned(),
            stack: stack.to_owned(),
            chunk_kib: None,
            engine_cores: (count > 1).then_some(cores.unwrap_or(usual_cores)),
            export: None,
            condition: None,
            rebuild_mb_s: None,
        },
        state: usual_state(workload.op),
        workload,
    }
}

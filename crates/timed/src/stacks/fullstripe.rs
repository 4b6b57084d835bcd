//! The engine itself: the shards that serve real drives, in virtual time, charged by their counters.

use super::{Rebuilt, Stack};
use crate::array::Array;
use crate::machine::SharedPlatform;
use crate::prices::{Meter, Prices};
use crate::world::TimedWorld;
use anyhow::{Result, anyhow, bail};
use engine::options::Options;
use engine::stats::Stats;
use engine::turn::Shard;

/// A shard and the meter of its work.
struct Core {
    shard: Shard<TimedWorld>,
    meter: Meter,
    touched_until_ns: u64,
}

/// See the module's prose.
pub struct Fullstripe {
    cores: Vec<Core>,
    size_bytes: u64,
    component_bytes: u64,
    members: usize,
    machine: Option<SharedPlatform>,
    rebuilds_in_bands_of: Option<u32>,
}

impl Fullstripe {
    /// The engine on an array, with the prices of its work.
    ///
    /// # Errors
    ///
    /// When such an array is impossible.
    pub fn new(array: &Array, prices: &Prices) -> Result<Fullstripe> {
        let impossible = |error| anyhow!("the array: {error}");
        let geometry = array.geometry().map_err(impossible)?;
        let shards = array.shards(Options::default()).map_err(impossible)?;
        let core = |shard| Core {
            shard,
            meter: Meter::new(prices),
            touched_until_ns: 0,
        };
        Ok(Fullstripe {
            cores: shards.into_iter().map(core).collect(),
            size_bytes: geometry.size_bytes,
            component_bytes: geometry.component_bytes,
            members: usize::from(array.members),
            machine: None,
            rebuilds_in_bands_of: array.rebuilding.map(|_| geometry.band_bytes()),
        })
    }
}

impl Stack for Fullstripe {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn drives(&self) -> usize {
        self.members
    }

    fn cores(&self) -> usize {
        self.cores.len()
    }

    fn is_on_clients_cores(&self) -> bool {
        false
    }

    fn metadata_offset_bytes(&self) -> u64 {
        self.component_bytes
    }

    #[inline]
    fn world(&mut self, core: usize) -> &mut TimedWorld {
        &mut self.cores[core].shard.world
    }

    fn turn(&mut self, core: usize, now_ns: u64) -> Result<u64> {
        let core = &mut self.cores[core];
        core.shard.world.now_ns = now_ns;
        core.shard.turn();
        if let Some(event) = core.shard.world.trouble.take() {
            bail!("{event:?}, although nothing fails here");
        }
        let work = core.meter.charge(core.shard.engine.stats());
        if let Some(machine) = &self.machine
            && work.touched_bytes > 0
        {
            let mut machine = machine.borrow_mut();
            core.touched_until_ns = machine.touch_buffers_ns(now_ns, work.touched_bytes);
        }
        Ok(work.instructions_ns)
    }

    fn work_in(&mut self, machine: SharedPlatform) {
        self.machine = Some(machine);
    }

    fn touched_until_ns(&self, core: usize) -> u64 {
        self.cores[core].touched_until_ns
    }

    fn wake_ns(&self, core: usize) -> Option<u64> {
        self.cores[core].shard.engine.next_wake().map(|at| at.0)
    }

    fn rebuilt_bytes(&self) -> Option<Rebuilt> {
        let band_bytes = self.rebuilds_in_bands_of?;
        Some(Rebuilt {
            done_bytes: self.counters().plans_background * u64::from(band_bytes),
            total_bytes: self.component_bytes,
        })
    }

    fn counters(&self) -> Stats {
        let all = self.cores.iter().map(|core| core.shard.engine.stats());
        all.fold(Stats::default(), |sum, stats| sum.plus(stats))
    }
}

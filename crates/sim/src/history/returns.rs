//! Inserts drives that come back while the array is in service into the acts of a history.
//!
//! A drive that dropped out or was failed is plugged in again a few requests later, with its old content.
//! Sometimes an outage happens while the array takes it back.

use super::lies::put;
use super::{Act, Action, Errand, Fault, Meddling, Order, Outage, Strike, Topology};
use crate::random::Stream;

/// Largest number of acts between the loss of a drive and its return.
const AWAY_ACTS_MAX: u64 = 12;

/// Inserts the returns of a seed into its acts. One drive is always lost, so that there can be a return.
pub fn insert(seed: u64, topology: &Topology, mut acts: Vec<Action>) -> Vec<Action> {
    let mut random = Stream::new(seed, "returns", 0);
    let bay = random.below(u64::from(topology.members)) as usize;
    let at = random.below(acts.len() as u64 / 2 + 1) as usize;
    put(&mut acts, at, Act::Fault(Fault::DropOut(bay)));
    let mut at = 0;
    while at < acts.len() {
        let lost = match acts[at].act {
            Act::Fault(Fault::DropOut(bay) | Fault::Errors(bay, ..)) => Some(bay),
            Act::Order(Order::Fail(bay)) => Some(bay),
            _ => None,
        };
        if let Some(bay) = lost.filter(|_| random.chance(3, 4)) {
            let later = at + 1 + random.below(AWAY_ACTS_MAX) as usize;
            let later = later.min(acts.len());
            put(&mut acts, later, Act::Order(Order::BringBack(bay)));
            if random.chance(1, 3) {
                put(&mut acts, later, Act::Fault(strike(&mut random)));
            }
        }
        at += 1;
    }
    acts
}

/// An outage at one of the next commands, some of which take the drive back.
fn strike(random: &mut Stream) -> Fault {
    let errands = [
        Errand::Metadata,
        Errand::Metadata,
        Errand::Write,
        Errand::Flush,
    ];
    let strike = Strike {
        errand: random.pick(&errands),
        spared: random.below(24) as u8,
        answered: random.chance(1, 2),
    };
    let outage = random.pick(&[Outage::PowerCut, Outage::PowerCut, Outage::Crash]);
    let mut meddling = vec![Meddling::Return];
    if random.chance(1, 4) {
        meddling.push(Meddling::CutAgain(random.below(24) as u8));
    }
    Fault::OutageAt(strike, outage, meddling)
}

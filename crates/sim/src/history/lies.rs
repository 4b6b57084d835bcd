//! Lies among the acts of a history: writes that are lost or go elsewhere, and flushes that do nothing.
//!
//! A lie about a write waits for the next write to the data of a volume. A lie about a flush makes a difference
//! only if the power is cut before the next flush, so a flush and a power cut are inserted with it.

use super::{Act, Action, Ask, Fault, Meddling, Outage, Topology};
use crate::drive::lies::Untruth;
use crate::random::Stream;
use engine::request::Operation;

/// Inserts one to three lies into the acts of a seed; mostly the same drive tells all of them.
pub fn insert(seed: u64, topology: &Topology, mut acts: Vec<Action>) -> Vec<Action> {
    let mut random = Stream::new(seed, "lies", 0);
    let liar = random.below(u64::from(topology.members)) as usize;
    for _ in 0..random.between(1, 3) {
        let any = random.below(u64::from(topology.members)) as usize;
        let bay = if random.chance(1, 4) { any } else { liar };
        let volume = random.below(topology.volumes.len() as u64) as u8;
        let (start_bytes, length_bytes) = topology.extent(volume);
        let within = start_bytes..start_bytes + length_bytes;
        let at = random.below(acts.len() as u64 + 1) as usize;
        let by = 512 * random.between(1, (length_bytes / 512 - 1).max(1));
        match random.below(5) {
            0 | 1 => {
                let lie = Fault::Lie(bay, Untruth::LostWrite, within);
                put(&mut acts, at, Act::Fault(lie));
            }
            2 | 3 => {
                let lie = Fault::Lie(bay, Untruth::MisdirectedWrite(by), within);
                put(&mut acts, at, Act::Fault(lie));
            }
            _ => {
                let later = at + random.between(1, 6) as usize;
                let outage = Fault::Outage(Outage::PowerCut, vec![Meddling::Return]);
                let later = later.min(acts.len());
                put(&mut acts, later, Act::Fault(outage));
                let flush = Act::Ask(Ask {
                    connection: 0,
                    volume,
                    operation: Operation::Flush,
                    fua: false,
                    offset_bytes: 0,
                    length_bytes: 0,
                });
                put(&mut acts, at, flush);
                let lie = Fault::Lie(bay, Untruth::DroppedFlush, within);
                put(&mut acts, at, Act::Fault(lie));
            }
        }
    }
    acts
}

/// Inserts an act before the one at index `at`, with the same time.
pub(super) fn put(acts: &mut Vec<Action>, at: usize, act: Act) {
    let number = acts.iter().map(|act| act.number).max().unwrap_or(0) + 1;
    let next = acts.get(at).or(acts.last());
    let at_ns = next.map_or(0, |next| next.at_ns);
    let action = Action { at_ns, act, number };
    acts.insert(at, action);
}

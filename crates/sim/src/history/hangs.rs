//! Inserts drives that hang into the histories whose clients use block devices or are virtual machines: while a drive hangs
//! under load, their requests have to get other memory, or wait for it. Sometimes the process ends meanwhile.

use super::scenes::place;
use super::{Act, Action, Ask, Fault, Meddling, Outage, Topology};
use crate::random::Stream;
use engine::request::Operation;

const MS: u64 = 1_000_000;
const SECTOR: u64 = 4096;
/// From the failure of a drive until nobody waits for it any more ([`engine::limits::ABANDON_AFTER`]), and some more.
const GIVEN_UP_AFTER_NS: u64 = 700 * MS;

/// Inserts the hangs of a seed into its acts.
pub fn insert(seed: u64, topology: &Topology, mut acts: Vec<Action>) -> Vec<Action> {
    let mut random = Stream::new(seed, "hangs", 0);
    let mut number = acts.iter().map(|act| act.number).max().unwrap_or(0);
    for _ in 0..random.between(1, 2) {
        let scene = scene(&mut random, topology);
        let at = random.below(acts.len() as u64 + 1) as usize;
        place(&mut acts, at, scene, &mut number);
    }
    acts
}

/// Requests, a drive that hangs under them, and more requests once they have been given up.
fn scene(random: &mut Stream, topology: &Topology) -> (Vec<(u64, Act)>, u64) {
    let mut acts = Vec::new();
    let bay = random.below(u64::from(topology.members)) as usize;
    let given_up_ns = topology.deadline_ns + GIVEN_UP_AFTER_NS;
    let hang_ns = given_up_ns * random.between(2, 4);
    let reads = random.between(1, 7);
    for _ in 0..random.between(0, 8) {
        acts.push((0, ask(random, topology, reads)));
    }
    acts.push((random.below(40_000), Act::Fault(Fault::Hang(bay, hang_ns))));
    let mut at_ns = 50_000;
    for _ in 0..random.between(8, 24) {
        at_ns += random.below(20_000);
        acts.push((at_ns, ask(random, topology, reads)));
    }
    at_ns = given_up_ns + random.below(given_up_ns);
    for _ in 0..random.between(4, 16) {
        at_ns += random.below(MS);
        acts.push((at_ns, ask(random, topology, reads)));
    }
    let outages = [Outage::Stop, Outage::Crash, Outage::PowerCut];
    if random.chance(1, 3) {
        let outage = Fault::Outage(random.pick(&outages), vec![Meddling::Return]);
        acts.push((at_ns + random.below(MS), Act::Fault(outage)));
    }
    (acts, random.pick(&[at_ns, hang_ns]) + 2 * MS)
}

/// A short request, of eight `reads` of which read.
fn ask(random: &mut Stream, topology: &Topology, reads: u64) -> Act {
    let volume = random.below(topology.volumes.len() as u64) as u8;
    let sectors = topology.size_bytes(volume) / SECTOR;
    let length = random.between(1, 4).min(sectors);
    let reads = random.chance(reads, 8);
    Act::Ask(Ask {
        connection: random.below(4) as u8,
        volume,
        operation: if reads {
            Operation::Read
        } else {
            Operation::Write
        },
        fua: !reads && random.chance(1, 8),
        offset_bytes: random.below(sectors - length + 1) * SECTOR,
        length_bytes: (length * SECTOR) as u32,
    })
}

//! Inserts updates that the metadata cannot express into the acts of a history.

use super::lies::put;
use super::{Act, Action, Fault};
use crate::machine::refusals::Update;
use crate::random::Stream;

/// One in this many histories has such updates.
const ONE_IN: u64 = 3;

/// Inserts the inexpressible updates of a seed into its acts.
pub fn insert(seed: u64, mut acts: Vec<Action>) -> Vec<Action> {
    let mut random = Stream::new(seed, "inexpressible", 0);
    if !random.chance(1, ONE_IN) {
        return acts;
    }
    for _ in 0..random.between(1, 3) {
        let update = random.pick(&Update::ALL);
        let count = random.pick(&[1, 1, 2, u8::MAX]);
        let at = random.below(acts.len() as u64 + 1) as usize;
        let fault = Fault::Inexpressible(update, count);
        put(&mut acts, at, Act::Fault(fault));
    }
    acts
}

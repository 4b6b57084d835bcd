//! Updates of the metadata that cannot be expressed, among the acts of a history.

use super::lies::put;
use super::{Act, Action, Fault};
use crate::machine::refusals::Update;
use crate::random::Stream;

/// One history in so many has some.
const ONE_IN: u64 = 3;

/// Puts those of a seed among its acts.
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

//! From a request to work: it is let in, cut up, and becomes commands, parts under locks, or letters to other shards.

pub(super) mod admit;
pub(super) mod cut;
mod expect;
mod issue;
pub(super) mod single;
mod trouble;

//! From a request to work: it is let in, cut up, and becomes commands, parts under locks, or messages to other shards.

pub(super) mod admit;
mod answers;
pub(super) mod cut;
mod expect;
mod issue;
mod pieces;
mod reconstruct;
pub(super) mod single;
mod slots;
mod trouble;
mod writing;

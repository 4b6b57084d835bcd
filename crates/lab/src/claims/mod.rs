//! The frozen claims: what five publications report that can be checked, and how predictions are scored against it.
//!
//! `claims/` at the top of the repository is data with a hash; its README explains each key. A claim is an expression
//! over figures of points, and an interval. The two are separated as soon as they are read:
//!
//! 1. [`book`] parses the files and separates them. [`book::Questions`] are configurations and the names of the figures
//!    wanted; a predictor receives nothing else. [`book::Book`] keeps expressions, intervals and uses.
//! 2. A [`predictor::Predictor`] answers questions one by one. It receives no name, no claim and no interval.
//! 3. [`score`] evaluates the expressions ([`expression`]) with the answers and compares them with the intervals.
//!
//! **Facts are counted instead of rows**: rows that say the same thing share a fact, and a fact passes when all its
//! rows pass. C rows (used for fitting) and V rows (evidence) are never added up, and a row that cannot be computed has
//! not passed.

pub mod book;
pub mod expression;
pub mod predictor;
pub mod score;

//! The frozen claims: what five publications report that can be checked, and how a prediction is
//! scored.
//!
//! `claims/` at the top of the repository is data with a hash; its README says what each key means.
//! A claim is an expression over figures of points, and an interval. The two are kept apart here
//! from the first line on:
//!
//! 1. [`book`] parses the files and parts them. [`book::Questions`] are configurations and the
//!    names of the figures wanted; nothing else reaches a predictor. [`book::Book`] keeps
//!    expressions, intervals, uses.
//! 2. A [`predictor::Predictor`] answers questions one by one. It is given no name, no claim, no
//!    interval.
//! 3. [`score`] evaluates the expressions ([`expression`]) and joins the two.
//!
//! **Facts, not rows, are counted**: rows that say the same thing share a fact, and a fact passes
//! when all its rows do. What was fitted to (C) is never added to what is evidence (V), and a row
//! that cannot be computed has not passed.

pub mod book;
pub mod expression;
pub mod predictor;
pub mod score;

//! What an array will do, before anybody has bought it: [`predict`] leads from a configuration to its figures, by
//! running the engine in virtual time over models of drives and machines ([`timed`]).

pub mod predict;

//! The forms of files: configurations and suites are read as TOML, results are written as JSON.
//!
//! Every file begins with `schema = 1`; a file of another version is refused. Unknown keys are refused everywhere,
//! because ignoring a misspelt key would measure something other than was asked for. An error is one sentence that
//! names file, key and rule ([`document`]).

pub mod catalogue;
pub mod configuration;
pub mod document;
pub mod measurement;
pub mod metric;
pub mod results;
pub mod setup;
pub mod suite;

pub use models::nearest;

/// The version of all forms that this program reads and writes.
pub const SCHEMA: u32 = 1;

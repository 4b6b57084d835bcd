//! What is written down: configurations and suites come in as TOML, results go out as JSON.
//!
//! Every file begins with `schema = 1`; a file of another version is refused, not guessed at.
//! Unknown keys are refused everywhere, because a misspelt key that is ignored measures something
//! else than was asked for. Refusals are one sentence that names file, key and rule ([`document`]).

pub mod catalogue;
pub mod configuration;
pub mod document;
pub mod metric;
pub mod results;
pub mod setup;
pub mod suite;

pub use models::nearest;

/// The version of all forms that this program reads and writes.
pub const SCHEMA: u32 = 1;

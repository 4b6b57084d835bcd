//! Nothing but tests: see `tests/volume.rs`.

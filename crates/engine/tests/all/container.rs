//! What concerns the whole container: two volumes on one set of drives, checkpoints, restarts.

mod rebuilds;
mod replacing;
mod shared;
mod volumes;

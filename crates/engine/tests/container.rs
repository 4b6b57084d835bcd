//! What concerns the whole container: two volumes on one set of drives, checkpoints, restarts.

#[path = "container/rebuilds.rs"]
mod rebuilds;
#[path = "container/replacing.rs"]
mod replacing;
#[path = "container/shared.rs"]
mod shared;
#[path = "container/volumes.rs"]
mod volumes;

mod memory;

//! A hundred times more of everything than a shard has room for: every request is answered and right, queues
//! are seen to be full, and a second flood takes no more memory than the first.

#[path = "limits/flood.rs"]
mod flood;
#[path = "limits/orders.rs"]
mod orders;
#[path = "limits/requests.rs"]
mod requests;
#[path = "limits/shards.rs"]
mod shards;

#[path = "all/memory/mod.rs"]
mod memory;

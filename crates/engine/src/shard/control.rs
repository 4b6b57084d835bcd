//! What the controller decides reaches this shard, and what it has to judge by.

mod adopt;
mod standstill;

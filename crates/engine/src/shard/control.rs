//! How this shard takes in the controller's messages, and when it may judge deadlines.

mod adopt;
mod on_record;
mod standstill;

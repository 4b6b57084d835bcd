//! The write-intent bitmaps at work: on every shard the writes that wait for bits, on the first one their keeper.

mod keep;
mod writes;

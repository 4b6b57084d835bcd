//! The write-intent bitmaps at work: on every shard the writes that wait for bits, on the first shard the bitmaps'
//! keepers.

mod bits;
mod keep;
mod writes;

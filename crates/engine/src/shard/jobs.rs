//! The array's own work: rebuild, resync, replace and scrub, and stripes that somebody looks at.

mod background;
mod inspect;

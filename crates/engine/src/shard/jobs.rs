//! The array's own work: rebuild, resync, replace and scrub, and stripes that an operator inspects.

mod background;
mod inspect;
mod walk;

//! Levels, sizes and limits of volumes.
//!
//! * [`Level`]: the four levels and how the format stores them;
//! * [`layout`]: where a new volume starts and how large it becomes;
//! * [`limits`]: what the format cannot express, and what only some readers accept;
//! * [`extent`]: place and size of a volume in an existing record, checked before they are used.

pub mod extent;
pub mod layout;
mod level;
pub mod limits;

#[cfg(test)]
mod tests;

pub use extent::{Extent, GeometryProblem, check_volume};
pub use layout::{Layout, SizeRequest, lay_out};
pub use level::Level;
pub use limits::{GeometryError, Shape, WideReason};

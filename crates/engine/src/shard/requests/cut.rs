//! What a request is cut into.

use crate::layout::Location;
use crate::units::Buffer;

/// A piece of a request inside one chunk and one band.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub place: Location,
    pub length: u32,
    /// First byte in the volume.
    pub offset: u64,
    pub buffer: Buffer,
}

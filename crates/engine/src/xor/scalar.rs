//! The kernels in plain 64-bit words, for processors without a vector kernel and as the tests' oracle.

use super::kernel;

/// See [`super::xor_into`].
///
/// # Safety
///
/// As [`super::xor_into`].
pub(super) unsafe fn xor_into(target: *mut u8, sources: &[*const u8], length: usize) {
    // SAFETY: the caller's promise; 64-bit words need no special instructions.
    unsafe { kernel::xor_into::<u64>(target, sources, length) }
}

/// See [`super::xor_is_zero`].
///
/// # Safety
///
/// As [`super::xor_is_zero`].
pub(super) unsafe fn xor_is_zero(sources: &[*const u8], length: usize) -> bool {
    // SAFETY: the caller's promise; 64-bit words need no special instructions.
    unsafe { kernel::xor_is_zero::<u64>(sources, length) }
}

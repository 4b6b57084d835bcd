//! Parity arithmetic: the xor of any number of equally long sources, in one pass.
//!
//! Every source byte is read once and the target is written once, whatever the number of sources; a
//! loop of `target ^= source` would move the target through the cache once per source and reach about
//! half the speed. The instruction set is chosen at the first call, by the rule in [`detect`]. `kernel` is one
//! generic loop; the instruction sets differ in their registers only. `scalar` is the reference that the tests
//! compare the others with.
//!
//! Parity is written to a drive soon after it is computed, so [`xor_into`] leaves it in the cache. Bytes that go
//! to memory that is not read soon are better *streamed*: stored past the caches, which saves reading the lines
//! that are about to be overwritten. [`copy_streaming`] streams a copy. [`copy_and_xor`] streams copies of its
//! sources and computes their parity, and reads them once for both.
//!
//! This is the engine's only module with `unsafe`: payload memory belongs to the world, and the engine
//! knows it by address only. [`fetch_to_write`] is here because it needs `unsafe` too, although it has nothing to
//! do with parity.

#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod detect;
mod kernel;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use detect::{Instructions, instructions};

use kernel::Kernels;

/// A source of [`copy_and_xor`] and where it is copied to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// First byte of the source.
    pub from: *const u8,
    /// First byte of the copy.
    pub to: *mut u8,
}

/// Prefetches the cache line of `place` for a write a few dozen nanoseconds later. This is only a hint: it has no
/// other effect, and does nothing on processors other than x86-64.
#[inline]
pub(crate) fn fetch_to_write<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction has no effect that a program could notice, whatever the address; processors that do
    // not know it execute it as a no-op.
    unsafe {
        core::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) core::ptr::from_ref(place),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = place;
}

/// Computes `target = sources[0] ^ sources[1] ^ …` over `length` bytes.
///
/// One source is a copy, no source gives zeros. Any alignment and any length are fine. `target` may be
/// equal to one or several of the sources.
///
/// # Safety
///
/// Every source is valid for reads of `length` bytes and `target` for writes of as many. A source either
/// starts exactly at `target` or does not overlap it. Nobody else writes these bytes during the call.
#[inline]
pub unsafe fn xor_into(target: *mut u8, sources: &[*const u8], length: usize) {
    // SAFETY: the caller's promise is passed on unchanged; `kernels` names only what this processor and
    // operating system execute.
    unsafe { (kernels().xor_into)(target, sources, length) }
}

/// Whether `sources[0] ^ sources[1] ^ …` is zero in all `length` bytes; stops early when it is not.
///
/// True for no sources or no bytes.
///
/// # Safety
///
/// Every source is valid for reads of `length` bytes, and nobody writes them during the call.
#[inline]
#[must_use]
pub unsafe fn xor_is_zero(sources: &[*const u8], length: usize) -> bool {
    // SAFETY: as in `xor_into`.
    unsafe { (kernels().xor_is_zero)(sources, length) }
}

/// Copies `length` bytes past the caches, if the instruction set has such stores. The copy is visible to all
/// processors when the call returns. For bytes that are not read soon.
///
/// # Safety
///
/// `from` is valid for reads of `length` bytes, `to` for writes of as many, and they do not overlap.
/// Nobody else writes these bytes during the call.
#[inline]
pub unsafe fn copy_streaming(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: as in `xor_into`.
    unsafe { (kernels().copy_streaming)(to, from, length) }
}

/// Computes `target` as the xor of all sources, streams each source to its copy and the result to
/// `target_copy` as well, all in one pass. `target` itself stays in the cache.
///
/// # Safety
///
/// Every source is valid for reads of `length` bytes, `target`, `target_copy` and every copy for writes
/// of as many. No written range overlaps any other range named here. Nobody else writes these bytes during the
/// call.
#[inline]
pub unsafe fn copy_and_xor(
    target: *mut u8,
    target_copy: *mut u8,
    copies: &[Copied],
    length: usize,
) {
    // SAFETY: as in `xor_into`.
    unsafe { (kernels().copy_and_xor)(target, target_copy, copies, length) }
}

#[inline]
fn kernels() -> &'static Kernels {
    match instructions() {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => &x86::AVX512,
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => &x86::AVX2,
        #[cfg(target_arch = "x86_64")]
        Instructions::Sse2 => &x86::SSE2,
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon => &aarch64::NEON,
        _ => &scalar::SCALAR,
    }
}

//! Parity arithmetic: the xor of any number of equally long sources, in one pass.
//!
//! Every source byte is read once and the target is written once, whatever the number of sources; a
//! loop of `target ^= source` would move the target through the cache once per source and reach about
//! half the speed. The instruction set is chosen at the first call: AVX2 where processor and operating
//! system offer it, SSE2 on every other x86-64, plain 64-bit words elsewhere. `scalar` is the oracle that
//! the tests hold the others against. An AVX-512 kernel measured the same as AVX2 on Zen 4, where both
//! wait for the cache, so there is none.
//!
//! Stores are ordinary ones. Parity is written to a drive soon after it is computed, so it should stay in
//! the cache; non-temporal stores would be one more kernel behind the same two functions.
//!
//! This is the engine's only module with `unsafe`: payload memory belongs to the world, and the engine
//! knows it by address only.

#![allow(unsafe_code)]

mod detect;
mod kernel;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use detect::{Instructions, instructions};

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
    // SAFETY: the caller's promise is passed on unchanged; `instructions` names only what this processor
    // and operating system execute.
    unsafe {
        match instructions() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => x86::xor_into_avx2(target, sources, length),
            #[cfg(target_arch = "x86_64")]
            Instructions::Sse2 => x86::xor_into_sse2(target, sources, length),
            _ => scalar::xor_into(target, sources, length),
        }
    }
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
    unsafe {
        match instructions() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => x86::xor_is_zero_avx2(sources, length),
            #[cfg(target_arch = "x86_64")]
            Instructions::Sse2 => x86::xor_is_zero_sse2(sources, length),
            _ => scalar::xor_is_zero(sources, length),
        }
    }
}

//! The AArch64 kernels: the generic loop with NEON registers, which every such processor has.
//!
//! The architecture has non-temporal stores, but Rust has no intrinsic for them, so streaming uses ordinary
//! stores here.

use super::kernel::{Lanes, kernels};
use core::arch::aarch64::{uint8x16_t, veorq_u8, vld1q_u8, vmaxvq_u8, vorrq_u8, vst1q_u8};

// SAFETY: `vld1q_u8` and `vst1q_u8` touch sixteen bytes at any alignment.
unsafe impl Lanes for uint8x16_t {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn fence() {}

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { veorq_u8(self, other) }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { vorrq_u8(self, other) }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { vmaxvq_u8(self) == 0 }
    }
}

kernels!(
    /// 16-byte registers.
    NEON,
    uint8x16_t,
    #[target_feature(enable = "neon")]
);

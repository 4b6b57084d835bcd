//! The x86-64 kernels: SSE2 and AVX2 registers under the one generic loop.

use super::kernel::{self, Lanes};
use core::arch::x86_64::{
    __m128i, __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128, _mm256_loadu_si256, _mm256_or_si256,
    _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
};

macro_rules! x86_lanes {
    ($register:ty, $load:ident, $store:ident, $xor:ident, $or:ident, $is_zero:expr) => {
        // SAFETY: the unaligned load and store of a register type touch exactly its size.
        unsafe impl Lanes for $register {
            const BYTES: usize = size_of::<$register>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { $store(to.cast(), self) }
            }

            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $xor(self, other) }
            }

            #[inline(always)]
            unsafe fn or(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $or(self, other) }
            }

            #[inline(always)]
            unsafe fn is_zero(self) -> bool {
                // SAFETY: the caller's promise.
                unsafe { $is_zero(self) }
            }
        }
    };
}

x86_lanes!(
    __m128i,
    _mm_loadu_si128,
    _mm_storeu_si128,
    _mm_xor_si128,
    _mm_or_si128,
    |register| _mm_movemask_epi8(_mm_cmpeq_epi8(register, _mm_setzero_si128())) == 0xFFFF
);
x86_lanes!(
    __m256i,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_xor_si256,
    _mm256_or_si256,
    |register| _mm256_testz_si256(register, register) == 1
);

macro_rules! x86_kernels {
    ($register:ty, $features:literal, $xor_into:ident, $xor_is_zero:ident) => {
        /// See [`super::xor_into`].
        ///
        /// # Safety
        ///
        /// As [`super::xor_into`], and the processor has the instructions in the function's name.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $xor_into(target: *mut u8, sources: &[*const u8], length: usize) {
            // SAFETY: the caller's promise.
            unsafe { kernel::xor_into::<$register>(target, sources, length) }
        }

        /// See [`super::xor_is_zero`].
        ///
        /// # Safety
        ///
        /// As [`super::xor_is_zero`], and the processor has the instructions in the function's name.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $xor_is_zero(sources: &[*const u8], length: usize) -> bool {
            // SAFETY: the caller's promise.
            unsafe { kernel::xor_is_zero::<$register>(sources, length) }
        }
    };
}

x86_kernels!(__m128i, "sse2", xor_into_sse2, xor_is_zero_sse2);
x86_kernels!(__m256i, "avx2", xor_into_avx2, xor_is_zero_avx2);

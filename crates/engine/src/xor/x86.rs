//! The x86-64 kernels: the generic loop with SSE2, AVX2 and AVX-512 registers.

use super::kernel::{Lanes, kernels};
use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_setzero_si128, _mm_sfence, _mm_storeu_si128, _mm_stream_si128, _mm_xor_si128,
    _mm256_loadu_si256, _mm256_or_si256, _mm256_storeu_si256, _mm256_stream_si256,
    _mm256_testz_si256, _mm256_xor_si256, _mm512_loadu_si512, _mm512_or_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_test_epi32_mask, _mm512_xor_si512,
};

macro_rules! x86_lanes {
    (
        $register:ty, $load:ident, $store:ident, $stream:ident, $xor:ident, $or:ident,
        $is_zero:expr
    ) => {
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
            unsafe fn stream(self, to: *mut u8) {
                // SAFETY: the caller's promise, alignment included.
                unsafe { $stream(to.cast(), self) }
            }

            #[inline(always)]
            unsafe fn fence() {
                // SAFETY: every x86-64 has the instruction.
                unsafe { _mm_sfence() }
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
    _mm_stream_si128,
    _mm_xor_si128,
    _mm_or_si128,
    |register| _mm_movemask_epi8(_mm_cmpeq_epi8(register, _mm_setzero_si128())) == 0xFFFF
);
x86_lanes!(
    __m256i,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_stream_si256,
    _mm256_xor_si256,
    _mm256_or_si256,
    |register| _mm256_testz_si256(register, register) == 1
);
x86_lanes!(
    __m512i,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_stream_si512,
    _mm512_xor_si512,
    _mm512_or_si512,
    |register| _mm512_test_epi32_mask(register, register) == 0
);

kernels!(
    /// 16-byte registers, part of every x86-64.
    SSE2,
    __m128i,
    #[target_feature(enable = "sse2")]
);
kernels!(
    /// 32-byte registers.
    AVX2,
    __m256i,
    #[target_feature(enable = "avx2")]
);
kernels!(
    /// 64-byte registers.
    AVX512,
    __m512i,
    #[target_feature(enable = "avx512f")]
);

//! Chooses the instruction set: the processor must have it, the operating system must save its registers across
//! context switches, and it must be the faster choice.
//!
//! `core` has no feature detection, so this module executes CPUID. The choice is kept in one byte; two threads
//! that detect at the same time get the same result.
//!
//! **The rule for AVX-512**: it is chosen only on processors where it is known to be at least as fast as AVX2.
//! Those are AMD processors from family 1Ah (Zen 5) on, whose loads and stores are 64 bytes wide, and Intel
//! processors with AVX512_VPOPCNTDQ (Ice Lake and later), where 64-byte instructions do not lower the clock of
//! the whole core. Zen 4 splits 64-byte instructions into halves: parity of 2 to 8 sources was within ±10 % of
//! AVX2's speed in the caches, and up to 20 % slower from memory, so AVX2 is used there.

use core::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that there is a kernel for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Instructions {
    /// Plain 64-bit words.
    Scalar = 1,
    /// 16-byte registers, part of every x86-64.
    Sse2 = 2,
    /// 32-byte registers.
    Avx2 = 3,
    /// 64-byte registers.
    Avx512 = 4,
    /// 16-byte registers, part of every AArch64.
    Neon = 5,
}

impl Instructions {
    /// The common name of the instruction set.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Instructions::Scalar => "scalar",
            Instructions::Sse2 => "SSE2",
            Instructions::Avx2 => "AVX2",
            Instructions::Avx512 => "AVX-512",
            Instructions::Neon => "NEON",
        }
    }
}

/// The chosen set as a number; 0 before the first detection.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use on this machine.
#[inline]
#[must_use]
pub fn instructions() -> Instructions {
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Instructions::Scalar,
        2 => Instructions::Sse2,
        3 => Instructions::Avx2,
        4 => Instructions::Avx512,
        5 => Instructions::Neon,
        _ => choose(),
    }
}

#[cold]
fn choose() -> Instructions {
    let chosen = detect();
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    chosen
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Instructions {
    Instructions::Neon
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Instructions {
    Instructions::Scalar
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Instructions {
    x86::Processor::ask().choice()
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    //! Bits from Intel's manual, volume 1, chapters 14 ("Detection of Intel AVX2") and 15 ("Detection of
    //! AVX-512 Foundation"), and volume 2, CPUID.

    use super::Instructions;
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    const LEAF1_ECX_OSXSAVE: u32 = 1 << 27;
    const LEAF1_ECX_AVX: u32 = 1 << 28;
    const LEAF7_EBX_AVX2: u32 = 1 << 5;
    const LEAF7_EBX_AVX512F: u32 = 1 << 16;
    const LEAF7_ECX_AVX512_VPOPCNTDQ: u32 = 1 << 14;
    /// The XMM registers and the upper halves of the YMM registers.
    const XCR0_AVX: u64 = 0b110;
    /// As [`XCR0_AVX`], and the mask registers, the upper halves of ZMM, and the upper sixteen ZMM.
    const XCR0_AVX512: u64 = 0b1110_0110;
    const FAMILY_ZEN5: u32 = 0x1A;

    /// The properties that decide the choice.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Processor {
        /// Registers EBX, EDX, ECX of leaf 0, in this order: twelve letters.
        pub vendor: [u8; 12],
        pub family: u32,
        pub avx2: bool,
        pub avx512f: bool,
        pub avx512_vpopcntdq: bool,
    }

    impl Processor {
        /// Queries this processor. Instructions whose registers the operating system does not save are reported
        /// as missing.
        pub fn ask() -> Processor {
            let leaf0 = __cpuid(0);
            let mut processor = Processor::default();
            let letters = [leaf0.ebx, leaf0.edx, leaf0.ecx];
            for (part, register) in processor.vendor.chunks_exact_mut(4).zip(letters) {
                part.copy_from_slice(&register.to_le_bytes());
            }
            let leaf1 = __cpuid(1);
            let (family, extended) = (leaf1.eax >> 8 & 0xF, leaf1.eax >> 20 & 0xFF);
            processor.family = if family == 0xF {
                family + extended
            } else {
                family
            };
            let avx = LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX;
            if leaf0.eax < 7 || leaf1.ecx & avx != avx {
                return processor;
            }
            // SAFETY: OSXSAVE says that the instruction exists and the operating system has enabled it.
            let state = unsafe { enabled_state() };
            let leaf7 = __cpuid_count(7, 0);
            processor.avx2 = state & XCR0_AVX == XCR0_AVX && leaf7.ebx & LEAF7_EBX_AVX2 != 0;
            processor.avx512f =
                state & XCR0_AVX512 == XCR0_AVX512 && leaf7.ebx & LEAF7_EBX_AVX512F != 0;
            processor.avx512_vpopcntdq =
                processor.avx512f && leaf7.ecx & LEAF7_ECX_AVX512_VPOPCNTDQ != 0;
            processor
        }

        /// See the rule in the module's prose.
        pub fn choice(&self) -> Instructions {
            let wide_pays = match &self.vendor {
                b"AuthenticAMD" => self.family >= FAMILY_ZEN5,
                b"GenuineIntel" => self.avx512_vpopcntdq,
                _ => false,
            };
            if self.avx512f && wide_pays {
                Instructions::Avx512
            } else if self.avx2 {
                Instructions::Avx2
            } else {
                Instructions::Sse2
            }
        }
    }

    #[target_feature(enable = "xsave")]
    fn enabled_state() -> u64 {
        // SAFETY: register 0 exists wherever the instruction does.
        unsafe { _xgetbv(0) }
    }
}

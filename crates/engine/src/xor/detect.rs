//! Which instructions the processor has and the operating system saves across context switches.
//!
//! `core` has no feature detection, so CPUID is asked here. The answer is kept in one byte; two threads
//! that ask at the same time find the same answer.

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
}

impl Instructions {
    /// The name people know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Instructions::Scalar => "scalar",
            Instructions::Sse2 => "SSE2",
            Instructions::Avx2 => "AVX2",
        }
    }
}

/// Zero: nobody has asked yet.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use on this machine.
#[inline]
#[must_use]
pub fn instructions() -> Instructions {
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Instructions::Scalar,
        2 => Instructions::Sse2,
        3 => Instructions::Avx2,
        _ => choose(),
    }
}

#[cold]
fn choose() -> Instructions {
    let chosen = detect();
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    chosen
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Instructions {
    Instructions::Scalar
}

/// Bits from Intel's manual, volume 1, chapter 14 ("Detection of Intel AVX2").
#[cfg(target_arch = "x86_64")]
fn detect() -> Instructions {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    const LEAF1_ECX_OSXSAVE: u32 = 1 << 27;
    const LEAF1_ECX_AVX: u32 = 1 << 28;
    const LEAF7_EBX_AVX2: u32 = 1 << 5;
    /// XMM and YMM halves.
    const XCR0_AVX: u64 = 0b110;

    #[target_feature(enable = "xsave")]
    fn enabled_state() -> u64 {
        // SAFETY: register 0 exists wherever the instruction does.
        unsafe { _xgetbv(0) }
    }

    if __cpuid(0).eax < 7 {
        return Instructions::Sse2;
    }
    let features = __cpuid(1).ecx;
    if features & (LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX) != LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX {
        return Instructions::Sse2;
    }
    // SAFETY: OSXSAVE says that the instruction exists and the operating system has enabled it.
    let state = unsafe { enabled_state() };
    let extended = __cpuid_count(7, 0).ebx;
    if state & XCR0_AVX == XCR0_AVX && extended & LEAF7_EBX_AVX2 != 0 {
        Instructions::Avx2
    } else {
        Instructions::Sse2
    }
}

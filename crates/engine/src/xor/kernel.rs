//! The one loop behind all instruction sets, generic over the width of a register.
//!
//! Everything here is `inline(always)`: the functions in [`super::x86`] carry the `target_feature`
//! attribute, and only inside them do the loads and stores become single instructions.

/// A register's worth of bytes.
///
/// # Safety
///
/// `BYTES` is the number of bytes that `load` reads and `store` writes, at any alignment.
pub(super) unsafe trait Lanes: Copy {
    /// Bytes of the register.
    const BYTES: usize;

    /// Reads a register from memory.
    ///
    /// # Safety
    ///
    /// `from` is valid for reads of [`Lanes::BYTES`], and the processor has the instructions.
    unsafe fn load(from: *const u8) -> Self;

    /// Writes the register to memory.
    ///
    /// # Safety
    ///
    /// `to` is valid for writes of [`Lanes::BYTES`], and the processor has the instructions.
    unsafe fn store(self, to: *mut u8);

    /// Bitwise exclusive or.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn xor(self, other: Self) -> Self;

    /// Bitwise or.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn or(self, other: Self) -> Self;

    /// Whether every bit is zero.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn is_zero(self) -> bool;
}

/// Registers that one step of the main loop combines: enough to hide the latency of the loads, few
/// enough that SSE2 and AVX2 (16 registers) do not spill.
const UNROLL: usize = 4;

/// See [`super::xor_into`].
///
/// # Safety
///
/// As [`super::xor_into`], and the processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn xor_into<L: Lanes>(target: *mut u8, sources: &[*const u8], length: usize) {
    // Fixed counts keep the source addresses in registers; five sources are a six-drive RAID 5.
    // SAFETY: the caller's promise is passed on unchanged.
    unsafe {
        match *sources {
            [] => core::ptr::write_bytes(target, 0, length),
            [a] => core::ptr::copy(a, target, length),
            [a, b] => xor_all::<L>(target, &[a, b], length),
            [a, b, c] => xor_all::<L>(target, &[a, b, c], length),
            [a, b, c, d] => xor_all::<L>(target, &[a, b, c, d], length),
            [a, b, c, d, e] => xor_all::<L>(target, &[a, b, c, d, e], length),
            [a, b, c, d, e, f] => xor_all::<L>(target, &[a, b, c, d, e, f], length),
            [a, b, c, d, e, f, g] => xor_all::<L>(target, &[a, b, c, d, e, f, g], length),
            _ => xor_all::<L>(target, sources, length),
        }
    }
}

#[inline(always)]
unsafe fn xor_all<L: Lanes>(target: *mut u8, sources: &[*const u8], length: usize) {
    let mut at = 0;
    // SAFETY: `at + step <= length` holds for every access, and the caller vouches for `length` bytes.
    // A target equal to a source is fine: the step's loads all come before its stores.
    unsafe {
        while length - at >= UNROLL * L::BYTES {
            let sums = gather::<L, UNROLL>(sources, at);
            for (lane, sum) in sums.into_iter().enumerate() {
                sum.store(target.add(at + lane * L::BYTES));
            }
            at += UNROLL * L::BYTES;
        }
        while length - at >= L::BYTES {
            let [sum] = gather::<L, 1>(sources, at);
            sum.store(target.add(at));
            at += L::BYTES;
        }
        while length - at >= 8 {
            let [sum] = gather::<u64, 1>(sources, at);
            sum.store(target.add(at));
            at += 8;
        }
        while at < length {
            let [sum] = gather::<u8, 1>(sources, at);
            sum.store(target.add(at));
            at += 1;
        }
    }
}

/// See [`super::xor_is_zero`].
///
/// # Safety
///
/// As [`super::xor_is_zero`], and the processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn xor_is_zero<L: Lanes>(sources: &[*const u8], length: usize) -> bool {
    if sources.is_empty() {
        return true;
    }
    let mut at = 0;
    // SAFETY: as in `xor_all`.
    unsafe {
        while length - at >= UNROLL * L::BYTES {
            let [a, b, c, d] = gather::<L, UNROLL>(sources, at);
            if !a.or(b).or(c.or(d)).is_zero() {
                return false;
            }
            at += UNROLL * L::BYTES;
        }
        while length - at >= 8 {
            let [sum] = gather::<u64, 1>(sources, at);
            if sum != 0 {
                return false;
            }
            at += 8;
        }
        while at < length {
            let [sum] = gather::<u8, 1>(sources, at);
            if sum != 0 {
                return false;
            }
            at += 1;
        }
    }
    true
}

/// The xor of `N` neighbouring registers of all sources, from `at` on. There is at least one source.
#[inline(always)]
unsafe fn gather<L: Lanes, const N: usize>(sources: &[*const u8], at: usize) -> [L; N] {
    // SAFETY: the caller keeps `at + N * L::BYTES` within the sources' length and has checked that
    // `sources` is not empty.
    unsafe {
        let first = *sources.get_unchecked(0);
        let mut sums: [L; N] =
            core::array::from_fn(|lane| L::load(first.add(at + lane * L::BYTES)));
        for &source in sources.get_unchecked(1..) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.xor(L::load(source.add(at + lane * L::BYTES)));
            }
        }
        sums
    }
}

macro_rules! integer_lanes {
    ($integer:ty) => {
        // SAFETY: an integer's size is what `read_unaligned` and `write_unaligned` touch.
        unsafe impl Lanes for $integer {
            const BYTES: usize = size_of::<$integer>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                unsafe { from.cast::<$integer>().read_unaligned() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<$integer>().write_unaligned(self) }
            }

            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            unsafe fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            unsafe fn is_zero(self) -> bool {
                self == 0
            }
        }
    };
}

integer_lanes!(u64);
integer_lanes!(u8);

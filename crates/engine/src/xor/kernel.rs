//! The one loop behind all instruction sets, generic over the width of a register.
//!
//! Everything here is `inline(always)`: the functions that [`kernels!`] generates have the `target_feature`
//! attribute, and only inside them do the loads and stores compile to single instructions.

use super::Copied;

/// One instruction set's kernels. Their contracts are those of the functions of the same names in
/// [`super`]; in addition the processor must have the instructions.
pub(super) struct Kernels {
    pub xor_into: unsafe fn(*mut u8, &[*const u8], usize),
    pub xor_is_zero: unsafe fn(&[*const u8], usize) -> bool,
    pub copy_streaming: unsafe fn(*mut u8, *const u8, usize),
    pub copy_and_xor: unsafe fn(*mut u8, *mut u8, &[Copied], usize),
}

/// Generates a [`Kernels`] for one register type, whose functions have the given attribute.
macro_rules! kernels {
    ($(#[doc = $prose:literal])* $name:ident, $register:ty, #[$compiled:meta]) => {
        $(#[doc = $prose])*
        pub(super) static $name: $crate::xor::kernel::Kernels = {
            use $crate::xor::{Copied, kernel};

            #[$compiled]
            unsafe fn xor_into(target: *mut u8, sources: &[*const u8], length: usize) {
                // SAFETY: the caller's promise.
                unsafe { kernel::xor_into::<$register>(target, sources, length) }
            }

            #[$compiled]
            unsafe fn xor_is_zero(sources: &[*const u8], length: usize) -> bool {
                // SAFETY: the caller's promise.
                unsafe { kernel::xor_is_zero::<$register>(sources, length) }
            }

            #[$compiled]
            unsafe fn copy_streaming(to: *mut u8, from: *const u8, length: usize) {
                // SAFETY: the caller's promise.
                unsafe { kernel::copy_streaming::<$register>(to, from, length) }
            }

            #[$compiled]
            unsafe fn copy_and_xor(
                target: *mut u8,
                target_copy: *mut u8,
                copies: &[Copied],
                length: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    kernel::copy_and_xor::<$register>(target, target_copy, copies, length);
                }
            }

            kernel::Kernels {
                xor_into,
                xor_is_zero,
                copy_streaming,
                copy_and_xor,
            }
        };
    };
}
pub(super) use kernels;

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

    /// Writes the register to memory past the caches, if there is such a store.
    ///
    /// # Safety
    ///
    /// As [`Lanes::store`], and `to` is aligned to [`Lanes::BYTES`].
    unsafe fn stream(self, to: *mut u8);

    /// Makes streamed stores visible to all processors before any later store.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn fence();

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

/// Registers of each source that one step of the main loop combines: enough to hide the latency of the loads, few
/// enough that SSE2 and AVX2 (16 registers) do not spill.
const UNROLL: usize = 4;

/// As [`UNROLL`], where the number of sources is not fixed, and for [`copy_and_xor`]: the cost of moving to the
/// next source is spread over more registers. With 16 sources that is 40 % faster than [`UNROLL`].
const COLUMN: usize = 8;

/// Streamed stores begin at a multiple of this: the size of a cache line, and of the widest register.
const LINE_BYTES: usize = 64;

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
            [a, b] => xor_all::<L, UNROLL>(target, &[a, b], length),
            [a, b, c] => xor_all::<L, UNROLL>(target, &[a, b, c], length),
            [a, b, c, d] => xor_all::<L, UNROLL>(target, &[a, b, c, d], length),
            [a, b, c, d, e] => xor_all::<L, UNROLL>(target, &[a, b, c, d, e], length),
            [a, b, c, d, e, f] => xor_all::<L, UNROLL>(target, &[a, b, c, d, e, f], length),
            [a, b, c, d, e, f, g] => xor_all::<L, UNROLL>(target, &[a, b, c, d, e, f, g], length),
            _ => xor_all::<L, COLUMN>(target, sources, length),
        }
    }
}

#[inline(always)]
unsafe fn xor_all<L: Lanes, const STEP: usize>(
    target: *mut u8,
    sources: &[*const u8],
    length: usize,
) {
    let mut at = 0;
    // SAFETY: `at + step <= length` holds for every access, and the caller vouches for `length` bytes.
    // A target equal to a source is fine: the step's loads all come before its stores.
    unsafe {
        while length - at >= STEP * L::BYTES {
            let sums = gather::<L, STEP>(sources, at);
            for (lane, sum) in sums.into_iter().enumerate() {
                sum.store(target.add(at + lane * L::BYTES));
            }
            at += STEP * L::BYTES;
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

/// See [`super::copy_streaming`].
///
/// # Safety
///
/// As [`super::copy_streaming`], and the processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn copy_streaming<L: Lanes>(to: *mut u8, from: *const u8, length: usize) {
    let head = to.align_offset(LINE_BYTES).min(length);
    let mut at = head;
    // SAFETY: `at` stays within `length`, which the caller vouches for; `to + at` is on a line's border
    // when the loop begins and moves by whole lines.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, head);
        while length - at >= UNROLL * L::BYTES {
            let registers = gather::<L, UNROLL>(&[from], at);
            for (lane, register) in registers.into_iter().enumerate() {
                register.stream(to.add(at + lane * L::BYTES));
            }
            at += UNROLL * L::BYTES;
        }
        core::ptr::copy_nonoverlapping(from.add(at), to.add(at), length - at);
        L::fence();
    }
}

/// See [`super::copy_and_xor`].
///
/// # Safety
///
/// As [`super::copy_and_xor`], and the processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn copy_and_xor<L: Lanes>(
    target: *mut u8,
    target_copy: *mut u8,
    copies: &[Copied],
    length: usize,
) {
    let aligned = |to: *mut u8| to.addr().is_multiple_of(LINE_BYTES);
    let streamed = aligned(target_copy) && copies.iter().all(|copied| aligned(copied.to));
    if copies.is_empty() {
        // SAFETY: the caller vouches for `length` bytes of both.
        unsafe {
            core::ptr::write_bytes(target, 0, length);
            core::ptr::write_bytes(target_copy, 0, length);
        }
        return;
    }
    let mut at = 0;
    // SAFETY: `at + width <= length` holds for every access, and the caller vouches for `length` bytes.
    // Streams begin on a line's border and move by whole lines: eight words are one.
    unsafe {
        while streamed && length - at >= COLUMN * L::BYTES {
            column::<L, COLUMN>(target, target_copy, copies, at, true);
            at += COLUMN * L::BYTES;
        }
        while length - at >= L::BYTES {
            column::<L, 1>(target, target_copy, copies, at, false);
            at += L::BYTES;
        }
        while at < length {
            column::<u8, 1>(target, target_copy, copies, at, false);
            at += 1;
        }
        L::fence();
    }
}

/// `N` neighbouring registers of [`copy_and_xor`], from `at` on. There is at least one copy.
#[inline(always)]
unsafe fn column<L: Lanes, const N: usize>(
    target: *mut u8,
    target_copy: *mut u8,
    copies: &[Copied],
    at: usize,
    stream: bool,
) {
    // SAFETY: the caller keeps `at + N * L::BYTES` within the length, has checked that `copies` is not
    // empty, and streams only to borders of lines.
    unsafe {
        let put = |register: L, to: *mut u8| {
            if stream {
                register.stream(to);
            } else {
                register.store(to);
            }
        };
        let copy = |copied: &Copied, lane: usize| {
            let register = L::load(copied.from.add(at + lane * L::BYTES));
            put(register, copied.to.add(at + lane * L::BYTES));
            register
        };
        let mut sums: [L; N] = core::array::from_fn(|lane| copy(copies.get_unchecked(0), lane));
        for copied in copies.get_unchecked(1..) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.xor(copy(copied, lane));
            }
        }
        for (lane, sum) in sums.into_iter().enumerate() {
            put(sum, target_copy.add(at + lane * L::BYTES));
            sum.store(target.add(at + lane * L::BYTES));
        }
    }
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
            unsafe fn stream(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { self.store(to) }
            }

            #[inline(always)]
            unsafe fn fence() {}

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

//! The kernels in plain 64-bit words, for processors without a vector kernel and as the reference of the tests.

use super::kernel::kernels;

kernels!(
    /// 64-bit words; ordinary stores only.
    SCALAR,
    u64,
    #[inline]
);

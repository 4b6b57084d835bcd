//! What the kernel shows of this machine's hardware, below a root that tests can choose.
//!
//! | what | file |
//! |---|---|
//! | files below `/sys` and `/proc` | [`files`] |
//! | speed and width of a PCIe link | [`link`] |
//! | PCIe devices that matter to drives | [`pci`] |
//! | NVMe controllers | [`nvme`] |

// A library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod files;
pub mod link;
pub mod nvme;
pub mod pci;

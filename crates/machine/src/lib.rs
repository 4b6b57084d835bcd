//! What the kernel shows of this machine's hardware, below a root that tests can choose.
//!
//! [`seen::Seen`] is all of it: board, processors, memory, the PCIe tree down to the drives, and what could not be seen. Nothing is
//! changed, and most is seen without root.
//!
//! | what | file |
//! |---|---|
//! | files below `/sys` and `/proc` | [`files`] |
//! | the whole machine | [`seen`] |
//! | sockets, cores, clocks, idle states, NUMA nodes | [`processors`] |
//! | board, memory modules and slots, from the firmware's tables | [`firmware`] |
//! | the PCIe tree between sockets and drives | [`tree`] |
//! | speed and width of a PCIe link | [`link`] |
//! | packets and retimers of a PCIe device | [`config_space`] |
//! | PCIe devices that matter to drives | [`pci`] |
//! | NVMe controllers | [`nvme`] |
//! | machines for tests | `samples` |

// A library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod config_space;
pub mod files;
pub mod firmware;
pub mod link;
pub mod nvme;
pub mod pci;
pub mod processors;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod seen;
pub mod tree;

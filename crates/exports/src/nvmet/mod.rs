//! Exports to other machines by NVMe over TCP: the kernel's NVMe target (nvmet) offers the block device of a volume.
//!
//! The target is configured by folders, files and links in configfs, usually `/sys/kernel/config/nvmet`:
//!
//! ```text
//! hosts/HOSTNQN                                            a host that is known
//! subsystems/NQN/attr_allow_any_host, attr_serial, ...     what hosts connect to: one for each volume
//!                allowed_hosts/HOSTNQN -> hosts/HOSTNQN    who may connect
//!                namespaces/1/device_path, device_uuid, enable
//! ports/ID/addr_trtype, addr_adrfam, addr_traddr, addr_trsvcid   an address
//!          subsystems/NQN -> subsystems/NQN                what is offered there
//! ```
//!
//! [`address`] and [`names`] are what an export is called, [`target`] makes, finds and removes it, [`made`] remembers which of
//! these folders fullstripe has made, so that nothing else is ever changed or removed, and [`tree`] are the calls to configfs.
//!
//! While a namespace is enabled or disabled the kernel waits for the volume, and nobody can interrupt it. So the process that
//! serves the volume makes none of these calls itself: a short-lived child does ([`confine`] has it give up what it does not
//! need). A server that waited in such a call could be killed, but would keep its drives and the device, so that no other
//! server could answer what the kernel waits for.

pub mod address;
pub mod made;
pub mod names;
pub mod target;
pub mod tree;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use address::Address;
use anyhow::{Result, bail};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::path::PathBuf;

/// Where configfs is mounted.
pub const CONFIGFS: &str = "/sys/kernel/config";
/// Where it is remembered what fullstripe has made. Like configfs it is empty after a boot.
pub const NOTES: &str = "/run/fullstripe/nvmet";

/// An export that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The volume's UUID, from which all names of the export come.
    pub identity: [u8; 16],
    /// The kernel's block device.
    pub device: PathBuf,
    /// Where hosts connect.
    pub address: Address,
    /// Which hosts may connect.
    pub hosts: Hosts,
}

/// Which hosts may use a volume. A host says itself who it is, and nothing proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Hosts with these NQNs, in order and each once.
    Named(Vec<String>),
    /// Every host that can reach the address.
    Any,
}

impl Hosts {
    /// Of the choices of an operator: the names of hosts, or any host.
    ///
    /// # Errors
    /// Neither is chosen, or both, or a name is no NQN: one sentence.
    pub fn chosen(named: &[String], any: bool) -> Result<Hosts> {
        match (named, any) {
            ([], true) => return Ok(Hosts::Any),
            ([], false) => bail!(
                "whoever can connect to this address could read and write everything; give --nvmet-host NQN for each host that may \
                 (`cat /etc/nvme/hostnqn` shows it there), or --insecure if this is what you want"
            ),
            (_, true) => bail!(
                "--nvmet-host and --insecure contradict each other; name the hosts, or let every host in"
            ),
            (_, false) => {}
        }
        let mut named = named.to_vec();
        for name in &named {
            if let Err(wrong) = names::check_host(name) {
                bail!(wrong);
            }
        }
        named.sort();
        named.dedup();
        Ok(Hosts::Named(named))
    }
}

/// Has this process, which is root, give up all capabilities but that for TCP ports below 1024. The files of configfs are
/// root's, so changing them needs none.
///
/// # Errors
/// The kernel refuses.
pub fn confine() -> Result<()> {
    let held = rustix::thread::capabilities(None)?;
    let kept = held.permitted & CapabilitySet::NET_BIND_SERVICE;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

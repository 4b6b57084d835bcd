//! Makes, finds and removes the export of a volume in the kernel's target.
//!
//! Of what others have made nothing is changed, with one exception: a link by which somebody else's port offers our subsystem
//! goes when the subsystem goes. A port is shared by all volumes of this machine that have its address, whichever server
//! serves them; the last one removes it. A host is shared in the same way. So servers take turns: [`Target::make`] and
//! [`Target::remove`] hold a lock.

use super::address::Address;
use super::made::{Kind, Notes};
use super::names;
use super::tree::Calls;
use super::{Hosts, Wanted};
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another server may take with its own change.
const TURN_WITHIN: Duration = Duration::from_secs(15);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The first port that is tried; the kernel takes any number of 16 bits.
const FIRST_PORT: u16 = 1;

/// The kernel's target.
pub struct Target<'a> {
    configfs: PathBuf,
    root: PathBuf,
    notes: Notes,
    calls: &'a dyn Calls,
}

/// An export of fullstripe's that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The block device that is offered.
    pub device: PathBuf,
    /// Where hosts connect; `None` if it is offered nowhere, or its namespace is not enabled.
    pub address: Option<Address>,
    /// Which hosts may connect.
    pub hosts: Hosts,
}

/// A port with the wanted address.
struct Port {
    name: String,
    is_ours: bool,
}

fn has(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

impl<'a> Target<'a> {
    /// The target whose configfs is mounted at `configfs`, with the notes in the folder `notes`.
    #[must_use]
    pub fn new(configfs: &Path, notes: &Path, calls: &'a dyn Calls) -> Target<'a> {
        Target {
            configfs: configfs.to_owned(),
            root: configfs.join("nvmet"),
            notes: Notes::new(notes),
            calls,
        }
    }

    fn folder(&self, kind: Kind, name: &str) -> PathBuf {
        self.root.join(kind.folder()).join(name)
    }

    fn is_ours(&self, kind: Kind, name: &str) -> Result<bool> {
        let path = self.folder(kind, name);
        self.notes.is_ours(self.calls, kind, name, &path)
    }

    /// Checks what can be checked before anything is made: the kernel has the target, and neither the subsystem nor the
    /// address is somebody else's.
    ///
    /// # Errors
    /// One sentence: what is wrong, and what to do.
    pub fn check(&self, wanted: &Wanted) -> Result<()> {
        self.check_loaded()?;
        let nqn = names::nqn(&wanted.identity);
        let subsystem = self.folder(Kind::Subsystem, &nqn);
        ensure!(
            !subsystem.exists() || self.is_ours(Kind::Subsystem, &nqn)?,
            "the NVMe target has a subsystem {nqn} already, and fullstripe did not make it; whoever did has to remove {} first",
            subsystem.display()
        );
        self.usable_port(&wanted.address)?;
        Ok(())
    }

    fn check_loaded(&self) -> Result<()> {
        if self.root.is_dir() {
            return Ok(());
        }
        let configfs = self.configfs.display();
        let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
        let above = self.configfs.parent().and_then(device);
        match device(&self.configfs) {
            here if here.is_some() && here == above => bail!(
                "configfs is not mounted; run `mount -t configfs none {configfs}`, and `modprobe nvmet-tcp` if that was not done"
            ),
            _ => bail!("the kernel's NVMe target is not loaded; run `modprobe nvmet-tcp` first"),
        }
    }

    /// Makes the export. One that is left over from an earlier server is removed first.
    ///
    /// # Errors
    /// One sentence. Nothing is left of it.
    pub fn make(&self, wanted: &Wanted) -> Result<()> {
        self.check_loaded()?;
        let _turn = self.take_turn()?;
        self.check(wanted)?;
        let nqn = names::nqn(&wanted.identity);
        self.take_away(&nqn)?;
        self.build(&nqn, wanted)
            .map_err(|error| match self.take_away(&nqn) {
                Ok(_) => error,
                Err(other) => error.context(format!("a part of it is left over ({other:#})")),
            })
    }

    /// Removes the export, and the port and the hosts that no other export of ours uses. Returns whether there was one.
    ///
    /// # Errors
    /// One sentence; some of it may be left.
    pub fn remove(&self, nqn: &str) -> Result<bool> {
        if !self.root.is_dir() {
            self.notes.forget(Kind::Subsystem, nqn)?;
            return Ok(false);
        }
        let _turn = self.take_turn()?;
        self.take_away(nqn)
    }

    /// The export of this name, if fullstripe has made it and it is still there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn find(&self, nqn: &str) -> Result<Option<Found>> {
        if !self.is_ours(Kind::Subsystem, nqn)? {
            return Ok(None);
        }
        // Nothing may vanish while it is read.
        let _turn = self.take_turn()?;
        let subsystem = self.folder(Kind::Subsystem, nqn);
        let hosts = match self.read(&subsystem.join("attr_allow_any_host"))?.as_str() {
            "1" => Hosts::Any,
            _ => Hosts::Named(self.list(&subsystem.join("allowed_hosts"))?),
        };
        let namespace = subsystem.join("namespaces/1");
        if !namespace.is_dir() {
            return Ok(Some(Found {
                device: PathBuf::new(),
                address: None,
                hosts,
            }));
        }
        let is_enabled = self.read(&namespace.join("enable"))? == "1";
        let ports = self.ports_with(nqn)?;
        let address = match ports.first().filter(|_| is_enabled) {
            Some(port) => self.address_of(port)?,
            None => None,
        };
        Ok(Some(Found {
            device: self.read(&namespace.join("device_path"))?.into(),
            address,
            hosts,
        }))
    }

    fn build(&self, nqn: &str, wanted: &Wanted) -> Result<()> {
        let subsystem = self.make_ours(Kind::Subsystem, nqn)?;
        let any = if wanted.hosts == Hosts::Any { "1" } else { "0" };
        self.write(&subsystem.join("attr_allow_any_host"), any)?;
        self.write(
            &subsystem.join("attr_serial"),
            &names::serial(&wanted.identity),
        )?;
        self.write(&subsystem.join("attr_model"), names::MODEL)?;
        self.add_namespace(&subsystem, wanted)?;
        if let Hosts::Named(hosts) = &wanted.hosts {
            for host in hosts {
                self.let_in(&subsystem, host)?;
            }
        }
        self.offer_at(&wanted.address, nqn, &subsystem)
    }

    fn add_namespace(&self, subsystem: &Path, wanted: &Wanted) -> Result<()> {
        let namespace = subsystem.join("namespaces/1");
        self.make_folder(&namespace)?;
        let device = wanted.device.display();
        self.write(&namespace.join("device_path"), &device.to_string())?;
        self.write(
            &namespace.join("device_uuid"),
            &names::uuid(&wanted.identity),
        )?;
        let enabled = self.calls.write(&namespace.join("enable"), "1");
        enabled.map_err(|error| {
            self.explain(
                error,
                format_args!("the NVMe target does not take {device}"),
            )
        })
    }

    fn let_in(&self, subsystem: &Path, host: &str) -> Result<()> {
        let known = self.folder(Kind::Host, host);
        if !known.is_dir() {
            self.make_ours(Kind::Host, host)?;
        }
        let allowed = subsystem.join("allowed_hosts").join(host);
        let linked = self.calls.link(&known, &allowed);
        linked.map_err(|error| {
            self.explain(
                error,
                format_args!("the NVMe target does not let {host} in"),
            )
        })
    }

    fn offer_at(&self, address: &Address, nqn: &str, subsystem: &Path) -> Result<()> {
        let port = match self.usable_port(address)? {
            Some(port) => self.folder(Kind::Port, &port),
            None => self.make_port(address)?,
        };
        let linked = self
            .calls
            .link(subsystem, &port.join("subsystems").join(nqn));
        linked.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ADDRINUSE) => {
                anyhow!("something else listens at {address} already; give another port")
            }
            Some(Errno::ADDRNOTAVAIL) => anyhow!(
                "this machine does not have the address {}; `ip address` shows those that it has",
                address.ip
            ),
            Some(Errno::ACCESS) if address.port < 1024 => anyhow!(
                "ports below 1024, like that of {address}, are for root; give another port, or run serve as root"
            ),
            Some(Errno::INVAL) => anyhow!(
                "the kernel's NVMe target does not listen on TCP; run `modprobe nvmet-tcp` first"
            ),
            _ => self.explain(
                error,
                format_args!("the NVMe target does not listen at {address}"),
            ),
        })
    }

    fn make_port(&self, address: &Address) -> Result<PathBuf> {
        let taken = self.list(&self.root.join(Kind::Port.folder()))?;
        let mut numbers = (FIRST_PORT..=u16::MAX).map(|number| number.to_string());
        let free = numbers.find(|number| !taken.contains(number));
        let free = free.context("the NVMe target has no room for another port")?;
        let port = self.make_ours(Kind::Port, &free)?;
        let family = if address.ip.is_ipv6() { "ipv6" } else { "ipv4" };
        self.write(&port.join("addr_trtype"), "tcp")?;
        self.write(&port.join("addr_adrfam"), family)?;
        self.write(&port.join("addr_traddr"), &address.ip.to_string())?;
        self.write(&port.join("addr_trsvcid"), &address.port.to_string())?;
        Ok(port)
    }

    /// Our port with this address, if there is one.
    fn usable_port(&self, address: &Address) -> Result<Option<String>> {
        let Some(port) = self.port_with(address)? else {
            return Ok(None);
        };
        ensure!(
            port.is_ours,
            "port {} of the NVMe target has the address {address} already, and fullstripe did not make it; give another address or \
             port number",
            port.name
        );
        Ok(Some(port.name))
    }

    fn port_with(&self, address: &Address) -> Result<Option<Port>> {
        for name in self.list(&self.root.join(Kind::Port.folder()))? {
            if self.address_of(&name)?.as_ref() == Some(address) {
                let is_ours = self.is_ours(Kind::Port, &name)?;
                return Ok(Some(Port { name, is_ours }));
            }
        }
        Ok(None)
    }

    /// The address of a port; `None` if it is for another transport or has none yet.
    fn address_of(&self, port: &str) -> Result<Option<Address>> {
        let port = self.folder(Kind::Port, port);
        if self.read(&port.join("addr_trtype"))? != "tcp" {
            return Ok(None);
        }
        let ip: Option<IpAddr> = self.read(&port.join("addr_traddr"))?.parse().ok();
        let number: Option<u16> = self.read(&port.join("addr_trsvcid"))?.parse().ok();
        Ok(ip.zip(number).map(|(ip, port)| Address { ip, port }))
    }

    /// The ports at which the subsystem is offered.
    fn ports_with(&self, nqn: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.list(&self.root.join(Kind::Port.folder()))? {
            let offered = self.folder(Kind::Port, &name).join("subsystems");
            if self.list(&offered)?.iter().any(|one| one == nqn) {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Removes what there is of our export. The port goes first: hosts lose their connection, and try to connect again, before
    /// they could see that the namespace is gone.
    fn take_away(&self, nqn: &str) -> Result<bool> {
        if !self.is_ours(Kind::Subsystem, nqn)? {
            self.notes.forget(Kind::Subsystem, nqn)?;
            return Ok(false);
        }
        for port in self.ports_with(nqn)? {
            let offered = self.folder(Kind::Port, &port).join("subsystems").join(nqn);
            self.unlink(&offered)?;
        }
        let subsystem = self.folder(Kind::Subsystem, nqn);
        let allowed = subsystem.join("allowed_hosts");
        for host in self.list(&allowed)? {
            self.unlink(&allowed.join(host))?;
        }
        let namespaces = subsystem.join("namespaces");
        for namespace in self.list(&namespaces)? {
            let namespace = namespaces.join(namespace);
            self.write(&namespace.join("enable"), "0")?;
            self.remove_folder(&namespace)?;
        }
        self.remove_folder(&subsystem)?;
        self.notes.forget(Kind::Subsystem, nqn)?;
        self.remove_unused(Kind::Port)?;
        self.remove_unused(Kind::Host)?;
        Ok(true)
    }

    /// Removes what we have made of this kind and no export uses: the kernel says of a port or a host whether it is used.
    fn remove_unused(&self, kind: Kind) -> Result<()> {
        for name in self.list(&self.root.join(kind.folder()))? {
            if !self.is_ours(kind, &name)? {
                continue;
            }
            match self.calls.remove_folder(&self.folder(kind, &name)) {
                Ok(()) => self.notes.forget(kind, &name)?,
                Err(error) if has(&error, Errno::BUSY) || has(&error, Errno::NOTEMPTY) => {}
                Err(error) => {
                    let what = format_args!("the NVMe target does not remove {kind} {name}");
                    return Err(self.explain(error, what));
                }
            }
        }
        Ok(())
    }

    /// Makes a folder, and notes that it is ours.
    fn make_ours(&self, kind: Kind, name: &str) -> Result<PathBuf> {
        let path = self.folder(kind, name);
        self.make_folder(&path)?;
        if let Err(error) = self.notes.add(self.calls, kind, name, &path) {
            // What is not noted would never be removed.
            self.remove_folder(&path)?;
            return Err(error);
        }
        Ok(path)
    }

    fn take_turn(&self) -> Result<File> {
        let ports = self.root.join(Kind::Port.folder());
        let lock =
            File::open(&ports).with_context(|| format!("cannot open {}", ports.display()))?;
        let give_up = Instant::now() + TURN_WITHIN;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(Errno::WOULDBLOCK) if Instant::now() < give_up => {
                    std::thread::sleep(LOOK_AGAIN_AFTER);
                }
                Err(Errno::WOULDBLOCK) => bail!(
                    "another change of the NVMe target has not ended within {} s; try again when it has",
                    TURN_WITHIN.as_secs()
                ),
                Err(errno) => bail!("cannot lock {}: {errno}", ports.display()),
            }
        }
    }

    fn explain(&self, error: io::Error, what: impl Display) -> anyhow::Error {
        let root = self.root.display();
        match has(&error, Errno::ACCESS) || has(&error, Errno::PERM) {
            true => anyhow!("no permission to change {root}; run serve as root"),
            false => anyhow!("{what}: {error}"),
        }
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        let made = self.calls.make_folder(path);
        made.map_err(|error| self.explain(error, format_args!("cannot make {}", path.display())))
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        let removed = self.calls.remove_folder(path);
        removed
            .map_err(|error| self.explain(error, format_args!("cannot remove {}", path.display())))
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        let removed = self.calls.unlink(path);
        removed
            .map_err(|error| self.explain(error, format_args!("cannot remove {}", path.display())))
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let written = self.calls.write(path, text);
        written
            .map_err(|error| self.explain(error, format_args!("cannot write {}", path.display())))
    }

    fn read(&self, path: &Path) -> Result<String> {
        let read = self.calls.read(path);
        read.with_context(|| format!("cannot read {}", path.display()))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        let listed = self.calls.list(path);
        listed.with_context(|| format!("cannot list {}", path.display()))
    }
}

//! Changes of the kernel's NVMe target ([`exports::nvmet`]), each made by a short-lived child of the serving process.
//!
//! The kernel waits for the volume while such a change is made. A child holds no drive and no device, so a server that is
//! killed meanwhile ends, and the next one answers what the kernel waits for. The child is the same program, called with
//! [`COMMAND`] and an [`Order`] as JSON; it answers with JSON on standard output, or with a sentence on standard error. A
//! program that embeds this library has to call [`carry_out`] then, or does without this way to reach volumes.

use anyhow::{Context, Result, bail};
use exports::nvmet::address::Address;
use exports::nvmet::made::{Kind, Notes};
use exports::nvmet::names;
use exports::nvmet::target::Target;
use exports::nvmet::tree::System;
use exports::nvmet::{CONFIGFS, Hosts, NOTES, Wanted, confine};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// The hidden command of the program that carries out an order.
pub const COMMAND: &str = "nvmet-helper";
/// Longer than a drive usually may take to answer. A child that takes longer is left to the kernel.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// An answer has the names of hosts, or is a sentence.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Export a volume to other machines by NVMe over TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmetRequest {
    /// Where hosts connect: `tcp://IP[:PORT]`; the port is 4420 unless given.
    pub address: String,
    /// The NQNs of the hosts that may use the volume.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Let in every host that can reach the address; then `hosts` is empty.
    #[serde(default)]
    pub any_host: bool,
}

impl NvmetRequest {
    /// What is wanted for the block device `device` of the volume with this UUID.
    ///
    /// # Errors
    /// One sentence: the address or a host cannot be what it is, or it is not said who may connect.
    pub fn wanted(&self, identity: [u8; 16], device: &Path) -> Result<Wanted> {
        let address: Result<Address, String> = self.address.parse();
        Ok(Wanted {
            identity,
            device: device.to_owned(),
            address: address.map_err(anyhow::Error::msg)?,
            hosts: Hosts::chosen(&self.hosts, self.any_host)?,
        })
    }
}

/// How a volume is exported by NVMe over TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NvmetStatus {
    /// Where hosts connect: `tcp://IP:PORT`.
    pub address: String,
    /// The subsystem's NQN.
    pub nqn: String,
    /// The NQNs of the hosts that may use the volume; empty if every host may.
    pub hosts: Vec<String>,
    /// Every host that can reach the address may use the volume.
    pub any_host: bool,
}

impl NvmetStatus {
    /// The export that is wanted, once it is made.
    #[must_use]
    pub fn of(wanted: &Wanted) -> NvmetStatus {
        NvmetStatus::new(&wanted.identity, &wanted.address, &wanted.hosts)
    }

    fn new(identity: &[u8; 16], address: &Address, hosts: &Hosts) -> NvmetStatus {
        NvmetStatus {
            address: address.to_string(),
            nqn: names::nqn(identity),
            hosts: match hosts {
                Hosts::Named(hosts) => hosts.clone(),
                Hosts::Any => Vec::new(),
            },
            any_host: *hosts == Hosts::Any,
        }
    }
}

/// What a child is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Check whether the export can be made.
    Check(Details),
    /// Make the export.
    Make(Details),
    /// Remove the export of the volume with this UUID.
    Remove([u8; 16]),
    /// Find the export of the volume with this UUID.
    Find([u8; 16]),
}

/// An export that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    identity: [u8; 16],
    device: PathBuf,
    request: NvmetRequest,
}

impl Details {
    /// What `request` means for the block device `device` of the volume with this UUID.
    #[must_use]
    pub fn new(identity: [u8; 16], device: &Path, request: &NvmetRequest) -> Details {
        Details {
            identity,
            device: device.to_owned(),
            request: request.clone(),
        }
    }

    fn wanted(&self) -> Result<Wanted> {
        self.request.wanted(self.identity, &self.device)
    }
}

/// An export that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundExport {
    /// The block device that is offered.
    pub device: PathBuf,
    /// How; `None` if no host can use it.
    pub status: Option<NvmetStatus>,
}

/// Carries out orders.
pub trait NvmeTarget: Send {
    /// Whether there may be an export of the volume with this UUID.
    fn may_have(&self, identity: &[u8; 16]) -> bool;

    /// Carries out an order. Returns what was found, if that was the order.
    ///
    /// # Errors
    /// One sentence.
    fn ask(&self, order: &Order) -> Result<Option<FoundExport>>;
}

/// Has children of this process carry out orders.
pub struct Children;

impl NvmeTarget for Children {
    fn may_have(&self, identity: &[u8; 16]) -> bool {
        Notes::new(Path::new(NOTES)).has(Kind::Subsystem, &names::nqn(identity))
    }

    fn ask(&self, order: &Order) -> Result<Option<FoundExport>> {
        // This program, also after another one was put in its place.
        let mut program = Command::new("/proc/self/exe");
        program.arg0("fullstripe").arg(COMMAND).arg(as_json(order));
        // A signal from the terminal is not for it.
        program.process_group(0);
        let answer = answer_of(program, ANSWER_WITHIN)?;
        serde_json::from_str(&answer)
            .context("the child that changes the NVMe target gave no answer that is understood")
    }
}

/// Runs the program, and returns what it has printed.
fn answer_of(mut program: Command, within: Duration) -> Result<String> {
    let child = program
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.context("cannot start a child that changes the NVMe target")?;
    let give_up = Instant::now() + within;
    let status = loop {
        match child.try_wait().context("cannot wait for a child")? {
            Some(status) => break status,
            None if Instant::now() < give_up => std::thread::sleep(LOOK_EVERY),
            None => {
                leave(child);
                bail!(
                    "the kernel has not changed its NVMe target within {} s; it may wait for the volume",
                    within.as_secs()
                );
            }
        }
    };
    let printed = match status.success() {
        true => text_from(child.stdout.take())?,
        false => bail!(failure(&text_from(child.stderr.take())?)),
    };
    Ok(printed)
}

/// What a child has said, without the name of the program in front.
fn failure(said: &str) -> String {
    let said = said.trim();
    match said {
        "" => "the child that changes the NVMe target was ended".to_owned(),
        _ => said.strip_prefix("fullstripe: ").unwrap_or(said).to_owned(),
    }
}

fn text_from(pipe: Option<impl Read>) -> Result<String> {
    let mut text = String::new();
    let pipe = pipe.expect("it is piped").take(ANSWER_BYTES_MAX);
    std::io::BufReader::new(pipe)
        .read_to_string(&mut text)
        .context("cannot read what a child has said")?;
    Ok(text)
}

/// Leaves a child that waits in the kernel, and takes note of its end when that comes.
fn leave(mut child: Child) {
    let name = std::thread::Builder::new().name("nvmet".to_owned());
    // Without a thread the child is a zombie when it has ended, until this process ends too.
    let _ = name.spawn(move || child.wait());
}

/// What the child does: carries out an order, given as JSON, and returns the answer.
///
/// # Errors
/// One sentence.
pub fn carry_out(order: &str) -> Result<String> {
    confine()?;
    let order: Order = serde_json::from_str(order).context("this is no order")?;
    let target = Target::new(Path::new(CONFIGFS), Path::new(NOTES), &System);
    let found = match order {
        Order::Check(details) => {
            target.check(&details.wanted()?)?;
            None
        }
        Order::Make(details) => {
            target.make(&details.wanted()?)?;
            None
        }
        Order::Remove(identity) => {
            target.remove(&names::nqn(&identity))?;
            None
        }
        Order::Find(identity) => {
            let found = target.find(&names::nqn(&identity))?;
            found.map(|found| FoundExport {
                status: found
                    .address
                    .map(|address| NvmetStatus::new(&identity, &address, &found.hosts)),
                device: found.device,
            })
        }
    };
    Ok(as_json(&found))
}

fn as_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("orders and answers are made of what JSON has")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_child_answers_or_says_why_not() {
        let answer = |script| answer_of(shell(script), Duration::from_secs(20));
        assert_eq!(answer("echo null").unwrap(), "null\n");
        let refused = |script| answer(script).unwrap_err().to_string();
        assert_eq!(
            refused("echo 'fullstripe: not loaded' >&2; exit 1"),
            "not loaded"
        );
        assert_eq!(
            refused("kill -9 $$"),
            "the child that changes the NVMe target was ended"
        );
    }

    #[test]
    fn a_child_that_waits_is_left() {
        let waited = answer_of(shell("sleep 5"), Duration::ZERO).unwrap_err();
        assert_eq!(
            waited.to_string(),
            "the kernel has not changed its NVMe target within 0 s; it may wait for the volume"
        );
    }

    #[test]
    fn orders_and_answers_are_read_as_they_were_written() {
        let request = NvmetRequest {
            address: "tcp://10.0.0.5".to_owned(),
            hosts: vec!["nqn.a".to_owned()],
            any_host: false,
        };
        let details = Details::new([7; 16], Path::new("/dev/ublkb0"), &request);
        let wanted = details.wanted().unwrap();
        for order in [
            Order::Check(details.clone()),
            Order::Make(details),
            Order::Remove([7; 16]),
            Order::Find([7; 16]),
        ] {
            assert_eq!(
                serde_json::from_str::<Order>(&as_json(&order)).unwrap(),
                order
            );
        }
        let status = NvmetStatus::of(&wanted);
        assert_eq!(status.address, "tcp://10.0.0.5:4420");
        assert_eq!((status.any_host, status.hosts), (false, request.hosts));
    }

    #[test]
    fn a_request_that_cannot_be_is_refused() {
        let refused = |request: NvmetRequest| {
            let wanted = request.wanted([7; 16], Path::new("/dev/ublkb0"));
            wanted.unwrap_err().to_string()
        };
        let request = |address: &str| NvmetRequest {
            address: address.to_owned(),
            ..NvmetRequest::default()
        };
        assert!(refused(request("tcp://server")).contains("is no address of NVMe over TCP"));
        assert!(refused(request("tcp://10.0.0.5")).contains("--nvmet-host NQN"));
    }
}

//! All that this machine shows of itself, and what could not be seen.

use super::files::Files;
use super::firmware::{Board, Tables};
use super::processors::Processors;
use super::tree::{Kind, Tree};
use std::collections::BTreeSet;

/// A machine as its kernel shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Its names.
    pub board: Board,
    /// Its processors.
    pub processors: Processors,
    /// Memory modules and slots; `None` if the firmware's tables cannot be read.
    pub tables: Option<Tables>,
    /// Memory channels with modules, of all sockets; `None` if no driver for error correction shows them.
    pub memory_channels: Option<u64>,
    /// How the drives are connected.
    pub tree: Tree,
    /// What could not be seen, one sentence each, and why.
    pub not_seen: Vec<String>,
}

impl Seen {
    /// Reads everything.
    #[must_use]
    pub fn read(files: &Files) -> Seen {
        let mut seen = Seen {
            board: Board::read(files),
            processors: Processors::read(files),
            tables: Tables::read(files),
            memory_channels: memory_channels(files),
            tree: Tree::read(files),
            not_seen: Vec::new(),
        };
        seen.not_seen = seen.gaps();
        seen
    }

    fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.tables.is_none() {
            gaps.push(
                "memory modules and slots: the firmware's tables in /sys/firmware/dmi/tables are absent, or only root may read them"
                    .to_owned(),
            );
        }
        gaps.extend(self.hidden_of_drives());
        if self
            .tree
            .places
            .iter()
            .any(|place| place.kind == Kind::ChipsetPort)
        {
            gaps.push(
                "the link between chipset and processor: no file of the kernel shows it".to_owned(),
            );
        }
        gaps.extend(self.unknown_places());
        gaps
    }

    /// What drives do not show.
    fn hidden_of_drives(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        let drives = &self.tree.drives;
        let named = |is_so: &dyn Fn(&super::tree::Drive) -> bool| {
            let names: Vec<&str> = drives
                .iter()
                .filter(|drive| is_so(drive))
                .map(|drive| drive.name.as_str())
                .collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(names) = named(&|drive| drive.now.is_none() || drive.own.is_none()) {
            gaps.push(format!(
                "the links of {names}: the kernel shows no speed or width, as in a virtual machine"
            ));
        }
        if let Some(names) = named(&|drive| drive.express.is_none()) {
            gaps.push(format!("retimers and packet sizes of {names}: only root may read the configuration space, or it is cut short"));
        }
        let is_lost = |drive: &super::tree::Drive| self.processors.socket_of(drive.node).is_none();
        if let Some(names) = named(&is_lost) {
            gaps.push(format!(
                "the socket of {names}: it is not known, so they count as drives of the first"
            ));
        }
        gaps
    }

    fn unknown_places(&self) -> Vec<String> {
        let unknown = self
            .tree
            .places
            .iter()
            .filter(|place| place.kind == Kind::Unknown);
        let unknown = unknown.map(|place| {
            format!("what {} is, which lies between a drive and its socket: it is no bridge that this program knows", place.address)
        });
        unknown.collect()
    }
}

/// Channels with modules, as the kernel's drivers for error correction (EDAC) show them.
fn memory_channels(files: &Files) -> Option<u64> {
    const CONTROLLERS: &str = "/sys/devices/system/edac/mc";
    let mut channels = BTreeSet::new();
    for controller in files.list(CONTROLLERS) {
        for module in files.list(&format!("{CONTROLLERS}/{controller}")) {
            let folder = format!("{CONTROLLERS}/{controller}/{module}");
            let place = files.text(&format!("{folder}/dimm_location"));
            let Some(place) = place.filter(|_| files.number(&format!("{folder}/size")) > Some(0))
            else {
                continue;
            };
            let mut words = place.split_whitespace();
            let channel = words
                .by_ref()
                .find(|word| *word == "channel")
                .and(words.next());
            channels.extend(channel.map(|channel| (controller.clone(), channel.to_owned())));
        }
    }
    (!channels.is_empty()).then_some(channels.len() as u64)
}

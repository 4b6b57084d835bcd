//! NVMe controllers: their identity, how they are connected, and whether the connection is as fast as it
//! could be.

use super::files::Files;
use super::finding::Finding;
use super::pci;
use std::collections::{BTreeMap, BTreeSet};
use words::count;

const CLASS: &str = "/sys/class/nvme";

/// A controller as sysfs shows it.
struct Controller {
    name: String,
    /// The controller's folder in sysfs.
    folder: String,
    /// The folder of its PCI device, with links followed; `None` for a controller on a network.
    pci: Option<String>,
    /// Its block devices, by their names in `/dev`.
    namespaces: Vec<String>,
}

/// All findings about NVMe; if there are `chosen` block devices, only those about their
/// controllers.
pub fn check(files: &Files, chosen: Option<&BTreeSet<String>>) -> Vec<Finding> {
    let mut controllers = list(files);
    if let Some(chosen) = chosen {
        let is_chosen = |name: &String| chosen.contains(name);
        controllers.retain(|controller| controller.namespaces.iter().any(is_chosen));
    }
    let mut findings = Vec::new();
    if chosen.is_none() {
        findings.extend(pci::hidden_drives(files));
        if controllers.is_empty() {
            findings.push(
                Finding::note("NVMe", "no NVMe drive is visible")
                    .advise("files and other block devices can be members as well"),
            );
        }
    }
    for controller in &controllers {
        findings.push(controller.describe(files));
        findings.extend(controller.state(files));
        if let Some(folder) = &controller.pci {
            findings.extend(pci::slow_link(files, &controller.name, folder));
        }
    }
    findings.extend(several_nodes(files, &controllers));
    findings.extend(several_paths(&controllers));
    if !controllers.is_empty() {
        findings.push(polling_queues(files));
    }
    findings
}

fn list(files: &Files) -> Vec<Controller> {
    let names = files.list(CLASS);
    let controllers = names.into_iter().filter(|name| {
        let number = name.strip_prefix("nvme");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    controllers
        .map(|name| {
            let folder = format!("{CLASS}/{name}");
            let is_local = files.text(&format!("{folder}/transport")).as_deref() == Some("pcie");
            let entries = files.list(&folder);
            Controller {
                pci: is_local
                    .then(|| files.real(&format!("{folder}/device")))
                    .flatten(),
                namespaces: entries.iter().filter_map(|name| namespace(name)).collect(),
                name,
                folder,
            }
        })
        .collect()
}

/// The block device of a namespace's entry: `nvme0n1` both for `nvme0n1` and for `nvme0c1n1`, which is one of several
/// paths.
fn namespace(entry: &str) -> Option<String> {
    let (subsystem, rest) = split_number(entry.strip_prefix("nvme")?)?;
    let rest = match rest.strip_prefix('c') {
        Some(path) => split_number(path)?.1,
        None => rest,
    };
    let (number, "") = split_number(rest.strip_prefix('n')?)? else {
        return None;
    };
    Some(format!("nvme{subsystem}n{number}"))
}

fn split_number(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let (number, rest) = text.split_at(text.len() - rest.len());
    (!number.is_empty()).then_some((number, rest))
}

impl Controller {
    fn attribute(&self, files: &Files, name: &str) -> Option<String> {
        files.text(&format!("{}/{name}", self.folder))
    }

    /// The NUMA node; the attribute is absent, or negative, if the firmware does not say.
    fn numa_node(&self, files: &Files) -> Option<u32> {
        self.attribute(files, "numa_node")?.parse().ok()
    }

    fn describe(&self, files: &Files) -> Finding {
        let attribute = |name| self.attribute(files, name);
        let mut parts = vec![attribute("model").unwrap_or_else(|| "unknown model".to_owned())];
        parts.extend(attribute("firmware_rev").map(|text| format!("firmware {text}")));
        parts.extend(attribute("serial").map(|text| format!("serial {text}")));
        match &self.pci {
            Some(folder) => {
                parts.extend(pci::link(files, folder).map(|link| link.to_string()));
                let vmd = pci::vmd_above(files, folder);
                parts.extend(vmd.map(|address| format!("behind VMD {address}")));
            }
            None => {
                let transport =
                    attribute("transport").unwrap_or_else(|| "an unknown way".to_owned());
                parts.push(format!("reached over {transport}"));
            }
        }
        parts.extend(
            self.numa_node(files)
                .map(|node| format!("NUMA node {node}")),
        );
        parts.push(match self.namespaces.len() {
            0 => "no namespace".to_owned(),
            _ => self.namespaces.join(", "),
        });
        Finding::ok(&self.name, parts.join(", "))
    }

    fn state(&self, files: &Files) -> Option<Finding> {
        let state = self.attribute(files, "state")?;
        if state != "live" {
            return Some(
                Finding::warning(&self.name, format!("the controller is {state}, not live"))
                    .advise("look for the reason in the kernel log"),
            );
        }
        self.namespaces.is_empty().then(|| {
            Finding::note(
                &self.name,
                "the controller has no namespace, so there is no block device",
            )
            .advise("nvme create-ns and nvme attach-ns make one")
        })
    }
}

fn several_nodes(files: &Files, controllers: &[Controller]) -> Option<Finding> {
    let mut nodes: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for controller in controllers {
        if let Some(node) = controller.numa_node(files) {
            nodes.entry(node).or_default().push(&controller.name);
        }
    }
    if nodes.len() < 2 {
        return None;
    }
    let parts: Vec<String> = nodes
        .iter()
        .map(|(node, names)| format!("node {node} has {}", names.join(", ")))
        .collect();
    Some(
        Finding::note(
            "NUMA",
            format!("drives sit on {} nodes: {}", nodes.len(), parts.join("; ")),
        )
        .advise("an array of drives of one node, served under numactl --cpunodebind, is fastest"),
    )
}

fn several_paths(controllers: &[Controller]) -> Vec<Finding> {
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for controller in controllers {
        for namespace in &controller.namespaces {
            paths.entry(namespace).or_default().push(&controller.name);
        }
    }
    let shared = paths.into_iter().filter(|(_, names)| names.len() > 1);
    shared
        .map(|(namespace, names)| {
            Finding::note(
                namespace,
                format!(
                    "{} lead to it: {}",
                    count(names.len(), "path"),
                    names.join(", ")
                ),
            )
            .advise("mdadm takes no such drive into an IMSM array")
        })
        .collect()
}

/// Polling queues help rings that poll the device (`IORING_SETUP_IOPOLL`). The rings of `serve` wait for interrupts.
fn polling_queues(files: &Files) -> Finding {
    let queues = files.number("/sys/module/nvme/parameters/poll_queues");
    match queues {
        Some(queues) if queues > 0 => Finding::note(
            "NVMe",
            format!("{queues} queues of each drive are for polling, which fullstripe does not use"),
        )
        .advise("nvme.poll_queues=0 gives them back to interrupts"),
        _ => Finding::ok("NVMe", "no polling queues; completions come by interrupt"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_the_names_of_their_block_devices() {
        assert_eq!(namespace("nvme0n1").as_deref(), Some("nvme0n1"));
        assert_eq!(namespace("nvme3c12n4").as_deref(), Some("nvme3n4"));
        for other in ["nvme0", "nvme0n1p2", "hwmon3", "nvmen1", "nvme0c1", "ng0n1"] {
            assert_eq!(namespace(other), None, "{other}");
        }
    }
}

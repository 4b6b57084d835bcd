//! NVMe controllers: their identity, how they are connected, and whether the connection is as fast as it
//! could be.

use super::finding::Finding;
use super::pci;
use machine::files::Files;
use machine::link::Link;
use machine::nvme::{Controller, list};
use machine::pci::vmd_above;
use std::collections::{BTreeMap, BTreeSet};
use words::count;

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
        findings.push(describe(controller, files));
        findings.extend(state(controller, files));
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

fn describe(controller: &Controller, files: &Files) -> Finding {
    let attribute = |name| controller.attribute(files, name);
    let mut parts = vec![attribute("model").unwrap_or_else(|| "unknown model".to_owned())];
    parts.extend(attribute("firmware_rev").map(|text| format!("firmware {text}")));
    parts.extend(attribute("serial").map(|text| format!("serial {text}")));
    match &controller.pci {
        Some(folder) => {
            parts.extend(Link::read(files, folder, "current").map(|link| link.to_string()));
            let vmd = vmd_above(files, folder);
            parts.extend(vmd.map(|address| format!("behind VMD {address}")));
        }
        None => {
            let transport = attribute("transport").unwrap_or_else(|| "an unknown way".to_owned());
            parts.push(format!("reached over {transport}"));
        }
    }
    parts.extend(
        controller
            .numa_node(files)
            .map(|node| format!("NUMA node {node}")),
    );
    parts.push(match controller.namespaces.len() {
        0 => "no namespace".to_owned(),
        _ => controller.namespaces.join(", "),
    });
    Finding::ok(&controller.name, parts.join(", "))
}

fn state(controller: &Controller, files: &Files) -> Option<Finding> {
    let state = controller.attribute(files, "state")?;
    if state != "live" {
        return Some(
            Finding::warning(
                &controller.name,
                format!("the controller is {state}, not live"),
            )
            .advise("look for the reason in the kernel log"),
        );
    }
    controller.namespaces.is_empty().then(|| {
        Finding::note(
            &controller.name,
            "the controller has no namespace, so there is no block device",
        )
        .advise("nvme create-ns and nvme attach-ns make one")
    })
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

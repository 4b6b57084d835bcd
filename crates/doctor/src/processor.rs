//! Processors: the instruction set for parity, cores, NUMA nodes, and frequency limits.

use super::Machine;
use super::finding::Finding;
use machine::files::{Files, range_count};
use std::collections::BTreeMap;
use words::count;

/// All findings about processors.
pub fn check(machine: &Machine) -> Vec<Finding> {
    let files = &machine.files;
    let mut findings = vec![parity(machine.instructions)];
    findings.extend(cores(files));
    findings.extend(governor(files));
    findings
}

fn parity(instructions: &str) -> Finding {
    let what = format!("parity is computed with {instructions}");
    if instructions == "AVX2" {
        Finding::ok("processor", what)
    } else {
        Finding::note("processor", what).advise(
            "processors with AVX2 are faster; in a virtual machine, pass the host's model on",
        )
    }
}

fn cores(files: &Files) -> Vec<Finding> {
    let Some(online) = files
        .text("/sys/devices/system/cpu/online")
        .and_then(|text| range_count(&text))
    else {
        return Vec::new();
    };
    let nodes = files
        .text("/sys/devices/system/node/online")
        .and_then(|text| range_count(&text))
        .unwrap_or(1);
    let status = files.text("/proc/self/status").unwrap_or_default();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(|text| range_count(text.trim()))
        .unwrap_or(online);
    let what = format!(
        "{} on {}",
        count(online as usize, "logical processor"),
        count(nodes as usize, "NUMA node")
    );
    vec![if allowed < online {
        Finding::note(
            "cores",
            format!("{what}, of which this process may use {allowed}"),
        )
        .advise("give serve no more --shards than that")
    } else if online == 1 {
        Finding::note("cores", what).advise("serve, its clients and interrupts share one processor")
    } else {
        Finding::ok("cores", what)
    }]
}

/// The governor `powersave` keeps the lowest frequency, except with drivers that choose the frequency themselves
/// (intel_pstate and amd-pstate in active mode), for which it is only a hint.
fn governor(files: &Files) -> Option<Finding> {
    const CHOOSE_THEMSELVES: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
    const CPUS: &str = "/sys/devices/system/cpu";
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_lowest = false;
    for cpu in files.list(CPUS) {
        let folder = format!("{CPUS}/{cpu}/cpufreq");
        let Some(governor) = files.text(&format!("{folder}/scaling_governor")) else {
            continue;
        };
        let driver = files.text(&format!("{folder}/scaling_driver"));
        let chooses = driver.is_some_and(|name| CHOOSE_THEMSELVES.contains(&name.as_str()));
        is_lowest |= governor == "powersave" && !chooses;
        *governors.entry(governor).or_default() += 1;
    }
    if governors.is_empty() {
        return None;
    }
    let names: Vec<&str> = governors.keys().map(String::as_str).collect();
    let what = format!("frequency governor {}", names.join(" and "));
    let advice = "cpupower frequency-set -g performance";
    Some(if is_lowest {
        Finding::warning(
            "cores",
            format!("{what}: powersave stays at the lowest frequency"),
        )
        .advise(advice)
    } else if names == ["performance"] {
        Finding::ok("cores", what)
    } else {
        Finding::note("cores", what).advise(format!("for the shortest latencies: {advice}"))
    })
}

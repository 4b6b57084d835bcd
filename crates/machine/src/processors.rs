//! Processors: sockets, cores, clocks, NUMA nodes, and the deepest idle state.

use super::files::{Files, range_values};
use std::collections::{BTreeMap, BTreeSet};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// An idle state of a core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleState {
    /// Its name: `C6`.
    pub name: String,
    /// Idle time after which it pays to enter it.
    pub residency_us: u64,
    /// Time to leave it.
    pub exit_us: u64,
}

/// All processors that are online. Sockets are taken to be alike. Of two kinds of cores, only those for performance count, because
/// the others are far slower. In a virtual machine, sockets are what its maker likes: unless it has NUMA nodes too, they are one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Processors {
    /// Sockets.
    pub sockets: u64,
    /// Cores of each.
    pub cores_per_socket: u64,
    /// Threads of each core.
    pub threads_per_core: u64,
    /// What the processor calls itself.
    pub model: Option<String>,
    /// The clock that its maker rates it with.
    pub rated_mhz: Option<u64>,
    /// The highest clock of one core.
    pub highest_mhz: Option<u64>,
    /// The deepest idle state that is not disabled; `None` if the kernel shows none.
    pub deepest_idle: Option<IdleState>,
    /// Whether a hypervisor runs this machine.
    pub is_virtual: bool,
    /// The socket of each NUMA node whose processors are all of one socket, by the node's number.
    pub socket_of_node: BTreeMap<u32, u64>,
}

impl Processors {
    /// Reads them.
    #[must_use]
    pub fn read(files: &Files) -> Processors {
        let info = files.text("/proc/cpuinfo").unwrap_or_default();
        let model = said_of_first(&info, "model name");
        let is_virtual = said_of_first(&info, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
        let nodes = files
            .list(NODES)
            .iter()
            .filter(|name| number_of(name, "node").is_some())
            .count();
        let mut topology = Topology::read(files);
        if is_virtual && topology.sockets.len() > nodes.max(1) {
            topology.join_sockets();
        }
        let rated = files.number(&format!("{CPUS}/cpu0/cpufreq/base_frequency"));
        let highest = files.number(&format!("{CPUS}/cpu0/cpufreq/cpuinfo_max_freq"));
        Processors {
            sockets: topology.sockets.len().max(1) as u64,
            cores_per_socket: topology.cores_per_socket(),
            threads_per_core: topology.threads_per_core(),
            rated_mhz: rated
                .map(|khz| khz / 1000)
                .or_else(|| clock_in(model.as_deref()?)),
            highest_mhz: highest.map(|khz| khz / 1000),
            deepest_idle: deepest_idle(files),
            is_virtual,
            socket_of_node: topology.socket_of_node(files),
            model,
        }
    }

    /// The socket of a NUMA node; `None` if it is not known, unless there is only one socket.
    #[must_use]
    pub fn socket_of(&self, node: Option<u32>) -> Option<u64> {
        let known = node.and_then(|node| self.socket_of_node.get(&node).copied());
        known.or((self.sockets == 1).then_some(0))
    }
}

/// What `/proc/cpuinfo` says about the first processor after `key`.
fn said_of_first(info: &str, key: &str) -> Option<String> {
    info.lines().find_map(|line| {
        let (name, said) = line.split_once(':')?;
        (name.trim() == key).then(|| said.trim().to_owned())
    })
}

/// The rated clock in the name of a processor of Intel: `… @ 3.00GHz`.
fn clock_in(model: &str) -> Option<u64> {
    let (_, clock) = model.rsplit_once("@ ")?;
    let ghz: f64 = clock.strip_suffix("GHz")?.trim().parse().ok()?;
    (0.1..10.0)
        .contains(&ghz)
        .then_some((ghz * 1000.0).round() as u64)
}

/// Which processor of the kernel is a thread of which core of which socket.
struct Topology {
    /// The sockets' numbers as the kernel gives them, in order.
    sockets: Vec<i64>,
    /// Of each processor: the place of its socket in `sockets`.
    socket_of_cpu: BTreeMap<u64, u64>,
    /// The threads of each core, as the kernel lists them.
    cores: BTreeSet<String>,
}

impl Topology {
    fn read(files: &Files) -> Topology {
        let mut packages = BTreeMap::new();
        let mut cores = BTreeSet::new();
        let performance = files.text("/sys/devices/cpu_core/cpus");
        let performance = performance.and_then(|text| range_values(&text));
        for name in files.list(CPUS) {
            let Some(cpu) = number_of(&name, "cpu") else {
                continue;
            };
            if performance
                .as_ref()
                .is_some_and(|cpus| !cpus.contains(&cpu))
            {
                continue;
            }
            let folder = format!("{CPUS}/{name}/topology");
            let package = files.text(&format!("{folder}/physical_package_id"));
            let Some(package) = package.and_then(|text| text.parse::<i64>().ok()) else {
                continue;
            };
            packages.insert(cpu, package);
            let siblings = files.text(&format!("{folder}/thread_siblings_list"));
            cores.insert(siblings.unwrap_or_else(|| cpu.to_string()));
        }
        let sockets: BTreeSet<i64> = packages.values().copied().collect();
        let sockets: Vec<i64> = sockets.into_iter().collect();
        let place = |package| sockets.iter().position(|socket| *socket == package);
        let socket_of_cpu = packages
            .into_iter()
            .filter_map(|(cpu, package)| Some((cpu, place(package)? as u64)));
        Topology {
            socket_of_cpu: socket_of_cpu.collect(),
            sockets,
            cores,
        }
    }

    /// Takes all processors for those of one socket.
    fn join_sockets(&mut self) {
        self.sockets.truncate(1);
        self.socket_of_cpu
            .values_mut()
            .for_each(|socket| *socket = 0);
    }

    fn cores_per_socket(&self) -> u64 {
        (self.cores.len() as u64 / self.sockets.len().max(1) as u64).max(1)
    }

    fn threads_per_core(&self) -> u64 {
        (self.socket_of_cpu.len() as u64 / self.cores.len().max(1) as u64).max(1)
    }

    fn socket_of_node(&self, files: &Files) -> BTreeMap<u32, u64> {
        let names = files.list(NODES);
        let sockets = names.iter().filter_map(|name| {
            let node = u32::try_from(number_of(name, "node")?).ok()?;
            let cpus = files.text(&format!("{NODES}/{name}/cpulist"))?;
            let cpus = range_values(&cpus)?;
            let sockets: BTreeSet<u64> = cpus
                .iter()
                .filter_map(|cpu| self.socket_of_cpu.get(cpu).copied())
                .collect();
            let is_one = sockets.len() == 1;
            Some((node, sockets.into_iter().next().filter(|_| is_one)?))
        });
        sockets.collect()
    }
}

/// The number in a name such as `cpu12`; `None` for `cpufreq`.
fn number_of(name: &str, kind: &str) -> Option<u64> {
    name.strip_prefix(kind)?.parse().ok()
}

fn deepest_idle(files: &Files) -> Option<IdleState> {
    let folder = format!("{CPUS}/cpu0/cpuidle");
    let states = files.list(&folder);
    let states = states.iter().filter_map(|state| {
        let at = |name| format!("{folder}/{state}/{name}");
        let is_off = files.number(&at("disable")).is_some_and(|off| off > 0);
        (!is_off).then_some(())?;
        Some(IdleState {
            name: files.text(&at("name"))?,
            residency_us: files.number(&at("residency"))?,
            exit_us: files.number(&at("latency"))?,
        })
    });
    states.max_by_key(|state| state.residency_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_in_the_name_of_some_processors() {
        let clock = |model| clock_in(model);
        assert_eq!(
            clock("Intel(R) Xeon(R) Gold 6154 CPU @ 3.00GHz"),
            Some(3000)
        );
        for name in ["AMD EPYC 9554P 64-Core Processor", "x @ GHz", "x @ 99GHz"] {
            assert_eq!(clock(name), None, "{name}");
        }
    }
}

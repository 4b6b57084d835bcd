//! Under which conditions something was measured, and which of them make its figures doubtful.
//!
//! All facts are names and texts, so that two results can be compared fact by fact. What the kernel does not show is left out. A
//! drive's temperature and what was written to it are read before and after (NVMe, as root only).

use drives::drive::Drive;
use drives::nvme::{Health, health, identify};
use machine::files::{Files, last_part, parent};
use machine::link::Link;
use machine::processors::Processors;
use machine::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use words::and;

const CPUS: &str = "/sys/devices/system/cpu";
/// From this time to wake on, an idle state shows in the latency of any drive: 10 % of the 100 us that flash takes.
const WAKE_MAX_US: u64 = 10;

/// The conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Facts by name; units come last in the names.
    pub facts: BTreeMap<&'static str, String>,
    /// What makes figures doubtful, as sentences without their full stops.
    pub marks: Vec<String>,
}

impl Environment {
    /// The conditions on the machine below `files`, with block device number `device` as the target.
    #[must_use]
    pub fn read(files: &Files, device: Option<(u32, u32)>) -> Environment {
        let mut environment = Environment::default();
        environment.processors(files);
        if let Some(folder) = folder_of(files, device) {
            environment.block_device(files, &folder);
            environment.driver(files, &format!("{folder}/device/driver"));
            if let Some(drive) = nvme_of(files, &folder) {
                environment.nvme(files, &drive);
            }
        }
        environment
    }

    fn set(&mut self, name: &'static str, value: Option<String>) {
        if let Some(value) = value {
            self.facts.insert(name, value);
        }
    }

    fn mark(&mut self, sentence: String) {
        self.marks.push(sentence);
    }

    fn processors(&mut self, files: &Files) {
        let Processors {
            sockets,
            cores_per_socket,
            threads_per_core,
            model,
            deepest_idle,
            is_virtual,
            ..
        } = Processors::read(files);
        self.set("kernel", files.text("/proc/sys/kernel/osrelease"));
        self.set("processor", model);
        self.set("sockets", Some(sockets.to_string()));
        self.set("cores_per_socket", Some(cores_per_socket.to_string()));
        self.set("threads_per_core", Some(threads_per_core.to_string()));
        self.set("virtual_machine", Some(is_virtual.to_string()));
        if is_virtual {
            self.mark("this is a virtual machine, whose host decides when it runs".to_owned());
        }
        if let Some(idle) = deepest_idle {
            let words = format!("{} ({} us to wake)", idle.name, idle.exit_us);
            if idle.exit_us > WAKE_MAX_US {
                self.mark(format!("processors may sleep in {words}, which adds to the latency of few requests; see cpupower idle-set"));
            }
            self.set("deepest_idle", Some(words));
        }
        let governors: BTreeSet<String> = files
            .list(CPUS)
            .iter()
            .filter_map(|name| files.text(&format!("{CPUS}/{name}/cpufreq/scaling_governor")))
            .collect();
        let governors: Vec<&str> = governors.iter().map(String::as_str).collect();
        if !governors.is_empty() {
            if governors != ["performance"] {
                self.mark(format!(
                    "clocks are governed by {}, which raises them only under load; see cpupower frequency-set -g performance",
                    and(&governors)
                ));
            }
            self.set("governor", Some(governors.join(" ")));
        }
    }

    fn block_device(&mut self, files: &Files, folder: &str) {
        for (name, file) in [
            ("model", "device/model"),
            ("firmware", "device/firmware_rev"),
            ("sector_bytes", "queue/logical_block_size"),
            ("physical_sector_bytes", "queue/physical_block_size"),
            ("largest_request_kib", "queue/max_sectors_kb"),
            ("requests_of_a_queue", "queue/nr_requests"),
            ("write_cache", "queue/write_cache"),
            ("io_poll", "queue/io_poll"),
        ] {
            self.set(name, files.text(&format!("{folder}/{file}")));
        }
        // The one in use is in brackets: `[none] mq-deadline`.
        let schedulers = files.text(&format!("{folder}/queue/scheduler"));
        let used = schedulers
            .as_deref()
            .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0));
        if let Some(used) = used.filter(|used| *used != "none") {
            self.mark(format!(
                "requests pass the scheduler {used}, which takes time and may change their order"
            ));
        }
        self.set("scheduler", used.map(str::to_owned));
    }

    /// The driver to which this link leads. Most drivers have the kernel's version and say none.
    fn driver(&mut self, files: &Files, link: &str) {
        let Some(folder) = files.real(link) else {
            return;
        };
        let name = last_part(&folder);
        self.set("driver", Some(name.to_owned()));
        self.set(
            "driver_version",
            files.text(&format!("/sys/module/{name}/version")),
        );
    }

    fn nvme(&mut self, files: &Files, drive: &machine::tree::Drive) {
        let in_words = |link: Option<Link>| link.map(|link| link.to_string());
        self.driver(
            files,
            &format!("/sys/bus/pci/devices/{}/driver", drive.address),
        );
        self.set("pci_address", Some(drive.address.clone()));
        self.set("link", in_words(drive.now));
        self.set("link_of_drive", in_words(drive.own));
        self.set("numa_node", drive.node.map(|node| node.to_string()));
        self.set("queues", drive.queues.map(|queues| queues.to_string()));
        if let (Some(now), Some(own)) = (drive.now, drive.own)
            && now != own
        {
            self.mark(format!(
                "the drive's link runs at {now}, and the drive can do {own}"
            ));
        }
        let processors = Processors::read(files);
        let threads =
            processors.sockets * processors.cores_per_socket * processors.threads_per_core;
        if let Some(queues) = drive.queues.filter(|queues| *queues < threads) {
            self.mark(format!(
                "the drive has {queues} queues for {threads} processors, which share them"
            ));
        }
        if processors.sockets > 1 {
            self.mark(format!(
                "the machine has {} sockets, and threads are bound to none: name the processors of the drive's NUMA node with taskset",
                processors.sockets
            ));
        }
    }
}

/// The folder of a block device; that of its drive, if it is a partition, since queue and controller are the drive's.
fn folder_of(files: &Files, device: Option<(u32, u32)>) -> Option<String> {
    let (major, minor) = device?;
    let folder = files.real(&format!("/sys/dev/block/{major}:{minor}"))?;
    let is_part = files.exists(&format!("{folder}/partition"));
    Some(match is_part {
        true => parent(&folder).to_owned(),
        false => folder,
    })
}

/// The NVMe drive whose block device has this folder.
fn nvme_of(files: &Files, folder: &str) -> Option<machine::tree::Drive> {
    let name = last_part(folder);
    let mut drives = Tree::read(files).drives.into_iter();
    drives.find(|drive| drive.namespaces.iter().any(|own| own == name))
}

/// What passes the link of the NVMe drive that is block device number `device`, if it is one and says so.
pub(crate) fn link_bytes_per_s(files: &Files, device: Option<(u32, u32)>) -> Option<f64> {
    let drive = nvme_of(files, &folder_of(files, device)?)?;
    drive.now.map(Link::bytes_per_s)
}

/// What tells the drive that is block device number `device` from another one, and the partition if it is one. `None` if the kernel
/// does not say.
pub(crate) fn identity(files: &Files, device: Option<(u32, u32)>) -> Option<String> {
    let folder = folder_of(files, device)?;
    let text = |folder: &str, name: &str| files.text(&format!("{folder}/{name}"));
    let names = [
        "wwid",
        "uuid",
        "serial",
        "dm/uuid",
        "device/wwid",
        "device/serial",
    ];
    let of_drive: Vec<String> = names
        .iter()
        .filter_map(|name| text(&folder, name))
        .collect();
    if of_drive.is_empty() {
        return None;
    }
    let (major, minor) = device?;
    let own = format!("/sys/dev/block/{major}:{minor}");
    let of_part = ["partition", "start"]
        .iter()
        .filter_map(|name| text(&own, name));
    let all: Vec<String> = of_drive.into_iter().chain(of_part).collect();
    Some(all.join(" "))
}

/// How often each processor, and its package, was slowed down because it was hot, by the kernel's counters. Processors of one package
/// show the same events, so counts are not added up.
fn slowed_down(files: &Files) -> BTreeMap<String, u64> {
    let counts = files.list(CPUS).into_iter().flat_map(|cpu| {
        ["core_throttle_count", "package_throttle_count"].map(|count| {
            let name = format!("{cpu}/thermal_throttle/{count}");
            let value = files.number(&format!("{CPUS}/{name}"));
            Some((name, value?))
        })
    });
    counts.flatten().collect()
}

/// What an NVMe drive says of itself before a session, and how often processors had been slowed down.
pub(crate) struct Before {
    health: Option<Health>,
    slowed_down: BTreeMap<String, u64>,
}

impl Before {
    /// Reads it, if the drive is one that answers.
    pub fn read(files: &Files, drive: &Drive) -> Before {
        Before {
            health: drive.fd().and_then(|fd| health(fd).ok()),
            slowed_down: slowed_down(files),
        }
    }

    /// Adds what has happened since then.
    pub fn compare(&self, files: &Files, drive: &Drive, environment: &mut Environment) {
        environment.heat(&self.slowed_down, &slowed_down(files));
        let (Some(before), Some(fd)) = (&self.health, drive.fd()) else {
            return;
        };
        let Ok(after) = health(fd) else {
            environment
                .mark("the drive no longer tells its health, though it did before".to_owned());
            return;
        };
        let warning = identify(fd)
            .ok()
            .and_then(|controller| controller.warning_celsius);
        environment.since(before, &after, warning);
    }
}

impl Environment {
    fn heat(&mut self, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) {
        let more = before
            .iter()
            .filter_map(|(name, before)| Some(after.get(name)?.saturating_sub(*before)));
        let Some(times) = more.max() else {
            return;
        };
        self.set("processors_slowed_down_times", Some(times.to_string()));
        if times > 0 {
            self.mark(format!(
                "processors were slowed down at least {times} times meanwhile because they were hot"
            ));
        }
    }

    fn since(&mut self, before: &Health, after: &Health, warning_celsius: Option<i32>) {
        self.set("celsius_before", Some(before.celsius.to_string()));
        self.set("celsius_after", Some(after.celsius.to_string()));
        self.set("used_percent_after", Some(after.used_percent.to_string()));
        let written = after.written_bytes.saturating_sub(before.written_bytes);
        self.set("drive_written_bytes", Some(written.to_string()));
        if let Some(warning) = warning_celsius.filter(|warning| after.celsius >= *warning) {
            self.mark(format!(
                "the drive had {} °C at the end, and warns from {warning} °C on: it may have slowed down to stay cool",
                after.celsius
            ));
        }
        if after.media_errors > before.media_errors {
            self.mark(format!(
                "the drive could not correct {} errors meanwhile",
                after.media_errors - before.media_errors
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::samples;
    use std::fs;
    use std::path::Path;

    /// The files of a machine, in which `nvme0n1` is block device 259:0 with a queue.
    fn machine(folder: &Path, name: &str) -> Files {
        samples::build(samples::facts(name), folder, samples::Reader::Root);
        let (device, numbers) = (
            folder.join("sys/devices/block/nvme0n1"),
            folder.join("sys/dev/block"),
        );
        fs::create_dir_all(device.join("queue")).expect("a folder");
        fs::create_dir_all(&numbers).expect("a folder");
        fs::write(device.join("queue/scheduler"), "none [mq-deadline] kyber\n")
            .expect("it is written");
        fs::write(device.join("queue/logical_block_size"), "512\n").expect("it is written");
        std::os::unix::fs::symlink(&device, numbers.join("259:0")).expect("a link");
        Files::below(folder)
    }

    #[test]
    fn facts_are_read_and_doubtful_ones_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = machine(folder.path(), "dual_socket_switch");
        let cpufreq = folder.path().join("sys/devices/system/cpu/cpu0/cpufreq");
        fs::create_dir_all(&cpufreq).expect("a folder");
        fs::write(cpufreq.join("scaling_governor"), "powersave\n").expect("it is written");
        let found = Environment::read(&files, Some((259, 0)));
        assert_eq!(found.facts["sector_bytes"], "512");
        assert_eq!(found.facts["scheduler"], "mq-deadline");
        assert_eq!(found.facts["governor"], "powersave");
        assert_eq!(found.facts["sockets"], "2");
        assert!(
            found.facts.contains_key("link") && found.facts.contains_key("pci_address"),
            "{found:?}"
        );
        assert!(link_bytes_per_s(&files, Some((259, 0))).is_some_and(|rate| rate > 1e9));
        assert_eq!(identity(&files, Some((259, 0))), None);
        let device = folder.path().join("sys/devices/block/nvme0n1");
        fs::write(device.join("wwid"), "eui.0025\n").expect("it is written");
        let part = device.join("nvme0n1p2");
        fs::create_dir_all(&part).expect("a folder");
        fs::write(part.join("partition"), "2\n").expect("it is written");
        fs::write(part.join("start"), "2048\n").expect("it is written");
        let number = folder.path().join("sys/dev/block/259:2");
        std::os::unix::fs::symlink(&part, number).expect("a link");
        let named = |minor| identity(&files, Some((259, minor)));
        assert_eq!(named(0), Some("eui.0025".to_owned()));
        assert_eq!(named(2), Some("eui.0025 2 2048".to_owned()));
        let marks = found.marks.join("\n");
        for said in [
            "scheduler mq-deadline",
            "governed by powersave",
            "has 2 sockets",
        ] {
            assert!(marks.contains(said), "{said}: {marks}");
        }
    }

    #[test]
    fn a_target_that_is_no_block_device_has_the_machines_facts_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = machine(folder.path(), "virtual_machine");
        let found = Environment::read(&files, None);
        assert_eq!(found.facts["virtual_machine"], "true");
        assert!(!found.facts.contains_key("scheduler"), "{found:?}");
        assert!(
            found
                .marks
                .iter()
                .any(|mark| mark.contains("virtual machine")),
            "{found:?}"
        );
        let gone = Environment::read(&files, Some((8, 99)));
        assert_eq!(gone, found);
        assert_eq!(link_bytes_per_s(&files, None), None);
    }

    #[test]
    fn hot_processors_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = machine(folder.path(), "dual_socket_switch");
        assert!(slowed_down(&files).is_empty());
        let count = |cpu: &str, count: &str| {
            let counts = folder
                .path()
                .join("sys/devices/system/cpu")
                .join(cpu)
                .join("thermal_throttle");
            fs::create_dir_all(&counts).expect("a folder");
            fs::write(counts.join("core_throttle_count"), count).expect("it is written");
        };
        // One was hot long ago, and another is now.
        count("cpu0", "100");
        count("cpu1", "4");
        let before = slowed_down(&files);
        count("cpu1", "6");
        let mut environment = Environment::default();
        environment.heat(&BTreeMap::new(), &before);
        assert_eq!(environment, Environment::default());
        environment.heat(&before, &slowed_down(&files));
        assert!(
            environment.marks[0].contains("slowed down at least 2 times"),
            "{environment:?}"
        );
    }

    #[test]
    fn a_hot_drive_and_what_was_written_to_it_are_told() {
        let health = |celsius, written_bytes, media_errors| Health {
            critical_warning: 0,
            celsius,
            available_spare_percent: 100,
            spare_threshold_percent: 10,
            used_percent: 3,
            read_bytes: 0,
            written_bytes,
            power_on_hours: 1,
            unsafe_shutdowns: 0,
            media_errors,
        };
        let mut environment = Environment::default();
        environment.since(&health(40, 1 << 30, 0), &health(75, 3 << 30, 2), Some(70));
        assert_eq!(
            environment.facts["drive_written_bytes"],
            (2u64 << 30).to_string()
        );
        assert_eq!(environment.facts["celsius_after"], "75");
        let marks = environment.marks.join("\n");
        assert!(
            marks.contains("warns from 70 °C on") && marks.contains("2 errors"),
            "{marks}"
        );
        let mut cool = Environment::default();
        cool.since(&health(40, 0, 1), &health(41, 0, 1), Some(70));
        assert!(cool.marks.is_empty());
    }
}

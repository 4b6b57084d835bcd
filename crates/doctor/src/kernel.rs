//! The kernel: its version, io_uring, and the modules that turn a volume into a device.

use super::Machine;
use super::finding::Finding;
use drives::ring::RingMode;
use machine::files::Files;

/// The first version whose rings can wait with a timeout.
const KERNEL_MIN: (u32, u32) = (5, 11);
/// The first version whose rings defer completions, the mode that costs least.
const KERNEL_GOOD: (u32, u32) = (6, 1);

/// All findings about the kernel.
pub fn check(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![version(&machine.files)];
    findings.extend(switch(machine));
    findings.extend(ring(machine));
    findings.extend(DEVICES.iter().map(|device| device.check(&machine.files)));
    findings
}

fn version(files: &Files) -> Finding {
    let Some(release) = files.text("/proc/sys/kernel/osrelease") else {
        return Finding::note("kernel", "its version cannot be read; is /proc mounted?");
    };
    let what = format!("Linux {release}");
    match parse_version(&release) {
        None => Finding::note(
            "kernel",
            format!("{what}, a version that is not understood"),
        ),
        Some(version) if version < KERNEL_MIN => {
            Finding::problem("kernel", what).advise("use Linux 5.11 or newer, best 6.1 or newer")
        }
        Some(version) if version < KERNEL_GOOD => Finding::note("kernel", what)
            .advise("Linux 6.1 or newer completes I/O with fewer interrupts"),
        Some(_) => Finding::ok("kernel", what),
    }
}

fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// `kernel.io_uring_disabled`: 0 everybody may, 1 a group and `CAP_SYS_ADMIN` may, 2 nobody may
/// (Documentation/admin-guide/sysctl/kernel.rst).
fn switch(machine: &Machine) -> Option<Finding> {
    let value = machine.files.text("/proc/sys/kernel/io_uring_disabled")?;
    // If the switch forbids rings to this user, the error of creating the ring says so.
    if value == "0" || machine.granted.ring.is_err() {
        return None;
    }
    Some(
        Finding::note(
            "io_uring",
            format!("kernel.io_uring_disabled is {value}: other users may get no ring"),
        )
        .advise(
            "let serve run as this user, put its group into kernel.io_uring_group, or run \
             sysctl kernel.io_uring_disabled=0",
        ),
    )
}

fn ring(machine: &Machine) -> Vec<Finding> {
    let report = match &machine.granted.ring {
        Ok(report) => report,
        Err(sentence) => return vec![Finding::problem("io_uring", sentence.clone())],
    };
    let mut findings = Vec::new();
    let text = report.to_string();
    let finding = if report.registered_memory.is_err() {
        Finding::warning("io_uring", text)
    } else if report.mode != RingMode::Deferred {
        Finding::note("io_uring", text).advise("Linux 6.1 or newer has deferred completions")
    } else if !report.registered_files {
        Finding::note("io_uring", text)
            .advise("raise RLIMIT_NOFILE so that files can be registered")
    } else if report.restricted.is_err() {
        Finding::note("io_uring", text)
    } else {
        Finding::ok("io_uring", text)
    };
    findings.push(finding);
    findings
}

/// A way to turn a volume into a device.
struct Device {
    name: &'static str,
    module: &'static str,
    /// A path that exists when the kernel has it, as a module or built in.
    sign: &'static str,
    what_for: &'static str,
}

const DEVICES: [Device; 4] = [
    Device {
        name: "nbd",
        module: "nbd",
        sign: "/sys/block/nbd0",
        what_for: "nbd-client makes a volume a device /dev/nbdN",
    },
    Device {
        name: "ublk",
        module: "ublk_drv",
        sign: "/sys/class/misc/ublk-control",
        what_for: "devices that are served by a process",
    },
    Device {
        name: "loop",
        module: "loop",
        sign: "/sys/class/misc/loop-control",
        what_for: "files as block devices",
    },
    Device {
        name: "fuse",
        module: "fuse",
        sign: "/sys/class/misc/fuse",
        what_for: "nbdfuse makes a volume a file",
    },
];

impl Device {
    fn check(&self, files: &Files) -> Finding {
        let Device {
            name,
            module,
            what_for,
            ..
        } = self;
        let release = files.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        if *name == "ublk" && drives::ublk::crashes(&release) {
            let what = format!(
                "Linux {release} crashes when a ublk device is made: fullstripe makes none"
            );
            return Finding::warning(name, what).advise(
                "boot another kernel, such as 6.18.6 or Ubuntu's 6.17.0-41; until then `attach` uses the kernel's NBD client",
            );
        }
        if files.exists(self.sign) || files.exists(&format!("/sys/module/{module}")) {
            return Finding::ok(name, format!("in the kernel ({what_for})"));
        }
        if self.can_be_loaded(files) {
            return Finding::note(name, format!("not loaded ({what_for})"))
                .advise(format!("modprobe {module} loads it"));
        }
        Finding::note(name, format!("not in this kernel ({what_for})"))
    }

    fn can_be_loaded(&self, files: &Files) -> bool {
        let release = files.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        let list = files.text(&format!("/lib/modules/{release}/modules.dep"));
        let file_name = format!("/{}.ko", self.module);
        list.unwrap_or_default().lines().any(|line| {
            let path = line.split(':').next().unwrap_or_default();
            // The name may be followed by .xz, .zst or .gz.
            path.contains(&file_name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_distributions_make_of_them() {
        assert_eq!(parse_version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(parse_version("5.11"), Some((5, 11)));
        assert_eq!(parse_version("6.18.44-custom"), Some((6, 18)));
        assert_eq!(parse_version("6.19-rc1"), Some((6, 19)));
        assert_eq!(parse_version("next"), None);
        assert_eq!(parse_version(""), None);
    }
}

//! NVMe controllers, as sysfs shows them.

use super::files::Files;

const CLASS: &str = "/sys/class/nvme";

/// A controller as sysfs shows it.
pub struct Controller {
    /// Its name: `nvme0`.
    pub name: String,
    /// The controller's folder in sysfs.
    pub folder: String,
    /// The folder of its PCI device, with links followed; `None` for a controller on a network.
    pub pci: Option<String>,
    /// Its block devices, by their names in `/dev`.
    pub namespaces: Vec<String>,
}

/// All controllers, in the order of their numbers.
#[must_use]
pub fn list(files: &Files) -> Vec<Controller> {
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
    /// The text of one of its files.
    #[must_use]
    pub fn attribute(&self, files: &Files, name: &str) -> Option<String> {
        files.text(&format!("{}/{name}", self.folder))
    }

    /// The NUMA node; the attribute is absent, or negative, if the firmware does not say.
    #[must_use]
    pub fn numa_node(&self, files: &Files) -> Option<u32> {
        self.attribute(files, "numa_node")?.parse().ok()
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

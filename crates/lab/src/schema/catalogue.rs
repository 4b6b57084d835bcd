//! Which drives, platforms, hosts and stacks may be named by id.

use crate::schema::nearest::nearest;
use crate::workload::Broken;

/// Ids that a configuration may name. Drives and platforms may be named by file as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Drives.
    pub drives: Vec<String>,
    /// Platforms.
    pub platforms: Vec<String>,
    /// Hosts: operating systems with their drivers.
    pub hosts: Vec<String>,
    /// Stacks: the code that turns a request into commands to drives.
    pub stacks: Vec<String>,
    /// Those ids that no predictor models yet. They may be named, but are not offered as the nearest ids.
    pub not_modelled: Vec<String>,
}

/// Ids of `claims/README.md`.
const DRIVES: [&str; 16] = [
    "p4510-1tb",
    "p4510-2tb",
    "p4510-4tb",
    "p4510-8tb",
    "p4500-4tb",
    "p4800x-375gb",
    "p4800x-750gb",
    "900p-280gb",
    "900p-480gb",
    "p3700-1600gb",
    "p3608-half",
    "p3608-1600gb",
    "9100max-2400gb",
    "960pro-512gb",
    "optane-memory-32gb",
    "600p-512gb",
];
const PLATFORMS: [&str; 8] = [
    "s2600wft-6154-x16",
    "s2600wft-6154-x8",
    "s2600wft-6154-optane",
    "s2600wft-8170",
    "x299-7960x",
    "z270-7700k-pch",
    "z270-7700k-cpu",
    "oakgate",
];
const HOSTS: [&str; 4] = ["linux-3.10-kpti", "linux-4.13", "windows-2017", "appliance"];
const STACKS: [&str; 5] = [
    "none",
    "md-2018",
    "vroc-windows-2017",
    "rst-z270",
    "fullstripe",
];

impl Catalogue {
    /// The ids that the frozen claims use. A caller with further profiles adds their ids.
    #[must_use]
    pub fn of_claims() -> Catalogue {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_string()).collect();
        Catalogue {
            drives: owned(&DRIVES),
            platforms: owned(&PLATFORMS),
            hosts: owned(&HOSTS),
            stacks: owned(&STACKS),
            not_modelled: Vec::new(),
        }
    }

    /// Fails unless `id` is one of `known`; the error names `key`.
    pub(super) fn check(
        &self,
        key: &'static str,
        id: &str,
        known: &[String],
    ) -> Result<(), Broken> {
        if known.iter().any(|one| one == id) {
            return Ok(());
        }
        let offered = known.iter().filter(|one| !self.not_modelled.contains(one));
        let offered = nearest(id, offered.map(String::as_str));
        let rule = format!("does not know \"{id}\"; nearest: {offered}");
        Err(Broken { key, rule })
    }
}

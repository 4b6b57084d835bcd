//! Other programs that use drives, or take over drives with RAID metadata: md and mdadm's rules, dmraid, multipath, LVM,
//! dm-crypt, btrfs, bcache, ZFS. Which drives they use is told with the drives.

use super::drives::ImsmDrive;
use super::finding::Finding;
use container::mdadm_conf::{CONFIGURATIONS, leaves};
use drives::layers::Layers;
use machine::files::Files;
use std::collections::{BTreeMap, BTreeSet};

/// The folders in the order in which udev prefers them; a file hides files of the same name in later folders.
const RULE_FOLDERS: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];

/// Finds programs that hold drives by their RAID metadata now, and programs that would take them. `imsm` are the drives with
/// IMSM metadata that were found, which decide how severe a finding is.
pub fn check(files: &Files, imsm: &[ImsmDrive]) -> Vec<Finding> {
    let text = files.text("/proc/mdstat").unwrap_or_default();
    let arrays = parse_mdstat(&text);
    let root = Root::find(files, &arrays);
    let mut findings = md_arrays(&arrays, &root);
    findings.extend(device_mapper(files));
    findings.extend(btrfs(files));
    findings.extend(bcache(files));
    findings.extend(zfs(files));
    findings.extend(automatic_assembly(
        files,
        &Arrays::of(files, imsm, &arrays, &root),
    ));
    findings
}

/// An array in `/proc/mdstat`.
#[derive(PartialEq, Eq, Debug)]
struct MdArray {
    name: String,
    members: Vec<String>,
    is_imsm_container: bool,
    /// The container to which it belongs, if it is a volume.
    container: Option<String>,
}

/// The containers of md that the root file system of this machine lies on: nothing may stop them or keep md from them.
struct Root {
    containers: Vec<String>,
}

impl Root {
    fn find(files: &Files, arrays: &[MdArray]) -> Root {
        let below = Layers::below(files.root()).root_file_system();
        let below = below.map_or_else(BTreeSet::new, |root| root.devices);
        let containers = arrays
            .iter()
            .filter(|array| array.is_imsm_container)
            .filter(|array| array.members.iter().any(|member| below.contains(member)));
        Root {
            containers: containers.map(|array| array.name.clone()).collect(),
        }
    }
}

fn md_arrays(arrays: &[MdArray], root: &Root) -> Vec<Finding> {
    if arrays.is_empty() {
        return vec![Finding::ok("md", "no Linux md array")];
    }
    arrays
        .iter()
        .map(|array| {
            let MdArray { name, members, .. } = array;
            let members = members.join(", ");
            if root.containers.contains(name) {
                let what = "Linux md holds the IMSM container that the root file system of this machine lies on";
                Finding::ok(name, format!("{what}: {members}"))
            } else if array.is_imsm_container {
                let volumes = arrays
                    .iter()
                    .filter(|other| other.container.as_ref() == Some(name))
                    .map(|volume| format!("/dev/{} ", volume.name));
                Finding::warning(name, format!("Linux md holds an IMSM container: {members}"))
                    .advise(format!(
                        "before fullstripe serves these drives: mdadm --stop {}/dev/{name}",
                        volumes.collect::<String>()
                    ))
            } else if let Some(container) = &array.container {
                Finding::note(
                    name,
                    format!("Linux md runs a volume of {container}: {members}"),
                )
            } else {
                Finding::ok(name, format!("Linux md array: {members}"))
            }
        })
        .collect()
}

/// Parses `/proc/mdstat`: each array has the line `md127 : inactive nvme1n1[1](S) nvme0n1[0](S)` and the indented line
/// `5220 blocks super external:imsm`.
fn parse_mdstat(text: &str) -> Vec<MdArray> {
    let mut arrays: Vec<MdArray> = Vec::new();
    for line in text.lines() {
        let is_indented = line.starts_with([' ', '\t']);
        if let Some((name, rest)) = line.split_once(" : ")
            && name.starts_with("md")
            && !is_indented
        {
            let words = rest.split_whitespace();
            let members = words.filter_map(|word| Some(word.split_once('[')?.0.to_owned()));
            arrays.push(MdArray {
                name: name.trim().to_owned(),
                members: members.collect(),
                is_imsm_container: false,
                container: None,
            });
        } else if let Some(array) = arrays.last_mut()
            && is_indented
            && let Some((_, kind)) = line.split_once(" super external:")
        {
            let kind = kind.split_whitespace().next().unwrap_or_default();
            array.is_imsm_container = kind == "imsm";
            // A volume names its container as /md127/0; a minus sign in place of the first slash means that the volume
            // is not to be started automatically.
            let inside = kind.trim_start_matches(['/', '-']);
            array.container = inside
                .split_once('/')
                .map(|(container, _)| container.to_owned());
        }
    }
    arrays
}

fn device_mapper(files: &Files) -> Vec<Finding> {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for device in files.list("/sys/block") {
        let folder = format!("/sys/block/{device}/dm");
        let uuid = files.text(&format!("{folder}/uuid")).unwrap_or_default();
        let prefix = ["DMRAID-", "mpath-", "LVM-", "CRYPT-"]
            .into_iter()
            .find(|prefix| uuid.starts_with(prefix));
        if let Some(prefix) = prefix {
            let name = files.text(&format!("{folder}/name")).unwrap_or(device);
            kinds.entry(prefix).or_default().push(name);
        }
    }
    kinds
        .into_iter()
        .map(|(prefix, names)| {
            let names = names.join(", ");
            match prefix {
                "DMRAID-" => Finding::warning("dmraid", format!("runs arrays: {names}")).advise(
                    "dmraid -an stops them; put nodmraid on the kernel's command line to keep it so",
                ),
                "mpath-" => Finding::note("multipath", format!("holds drives: {names}"))
                    .advise("blacklist drives for arrays in /etc/multipath.conf"),
                "CRYPT-" => Finding::ok("dm-crypt", format!("volumes: {names}")),
                _ => Finding::ok("LVM", format!("volumes: {names}")),
            }
        })
        .collect()
}

/// File systems of btrfs on several devices: mount tables show only one device of each.
fn btrfs(files: &Files) -> Vec<Finding> {
    const ALL: &str = "/sys/fs/btrfs";
    let mut findings = Vec::new();
    for uuid in files.list(ALL) {
        let devices = files.list(&format!("{ALL}/{uuid}/devices"));
        if devices.len() > 1 {
            let label = files.text(&format!("{ALL}/{uuid}/label")).unwrap_or(uuid);
            let what = format!("the file system {label} uses {}", devices.join(", "));
            findings.push(Finding::ok("btrfs", what));
        }
    }
    findings
}

fn bcache(files: &Files) -> Option<Finding> {
    let devices = files.list("/sys/block").into_iter();
    let used: Vec<String> = devices
        .filter(|name| files.exists(&format!("/sys/block/{name}/bcache")))
        .filter(|name| !name.starts_with("bcache"))
        .collect();
    (!used.is_empty()).then(|| Finding::ok("bcache", format!("uses {}", used.join(", "))))
}

/// ZFS opens the drives of a pool exclusively, and no list of the kernel shows which.
fn zfs(files: &Files) -> Option<Finding> {
    let is_loaded = files.exists("/sys/module/zfs") || files.exists("/proc/spl");
    is_loaded.then(|| {
        let what = "its module is loaded, and the kernel does not list the drives of its pools";
        Finding::note("ZFS", what).advise(
            "zpool status -P shows them; name drives to doctor to see whether they are held",
        )
    })
}

/// The IMSM arrays that were found, each once, by whom mdadm should leave them to.
struct Arrays<'a> {
    /// A container that the root file system of this machine lies on.
    of_root: Option<&'a str>,
    /// The drives of each array that mdadm's configuration leaves to others.
    left: Vec<String>,
    /// The drives of each other array.
    others: Vec<String>,
    /// Whether there is a spare that is not of the root's array.
    has_spare: bool,
}

impl<'a> Arrays<'a> {
    fn of(files: &Files, drives: &[ImsmDrive], md: &[MdArray], root: &'a Root) -> Arrays<'a> {
        let conf: Vec<String> = configurations(files).collect();
        let mut containers: BTreeMap<&str, Vec<&ImsmDrive>> = BTreeMap::new();
        for drive in drives {
            if let Some(uuid) = &drive.container {
                containers.entry(uuid).or_default().push(drive);
            }
        }
        let of_root = |drives: &[&ImsmDrive]| drives.iter().any(|drive| drive.is_of_root);
        containers.retain(|_, drives| !of_root(drives));
        let is_left = |uuid: &str| conf.iter().any(|text| leaves(text, uuid));
        let (left, others) = containers
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(uuid, _)| is_left(uuid));
        let names = |drives: Vec<&ImsmDrive>| {
            let names: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
            names.join(", ")
        };
        let mut others: Vec<String> = others.into_values().map(names).collect();
        // Of these no drive could be looked at.
        let is_looked_at = |member: &String| {
            let last = |drive: &ImsmDrive| drive.name.rsplit('/').next() == Some(member.as_str());
            drives.iter().any(last)
        };
        let unseen = md.iter().filter(|array| {
            array.is_imsm_container
                && !root.containers.contains(&array.name)
                && !array.members.iter().any(is_looked_at)
        });
        others.extend(unseen.map(|array| array.members.join(", ")));
        Arrays {
            of_root: root.containers.first().map(String::as_str),
            left: left.into_values().map(names).collect(),
            others,
            has_spare: (drives.iter()).any(|one| one.container.is_none() && !one.is_of_root),
        }
    }
}

/// Whether mdadm assembles IMSM arrays when their drives appear. Each array is judged alone: the root's is as it should be,
/// and one beside it is not for that.
fn automatic_assembly(files: &Files, arrays: &Arrays<'_>) -> Vec<Finding> {
    const ABOUT: &str = "mdadm";
    let ok = |what: String| vec![Finding::ok(ABOUT, what)];
    let Some(rule) = assembly_rule(files) else {
        return ok("no udev rule assembles arrays by itself".to_owned());
    };
    let command_line = files.text("/proc/cmdline").unwrap_or_default();
    let switch = command_line
        .split_whitespace()
        .find(|word| matches!(*word, "noiswmd" | "nodmraid"));
    if let Some(switch) = switch {
        return ok(format!(
            "the kernel's command line keeps it from IMSM drives ({switch})"
        ));
    }
    if !allows_imsm(files) {
        return ok("the AUTO line of its configuration keeps it from IMSM drives".to_owned());
    }
    let mut findings = Vec::new();
    findings.extend(arrays.left.iter().map(|drives| {
        let what = format!("its configuration keeps it from the IMSM array of {drives}");
        Finding::ok(ABOUT, what)
    }));
    if let Some(container) = arrays.of_root {
        let what = format!(
            "{rule} lets it assemble IMSM arrays, which the root file system of this machine needs ({container})"
        );
        let found = Finding::ok(ABOUT, what);
        findings.push(found.advise("`fullstripe enable` has it leave another array to fullstripe"));
    }
    let is_alone = findings.is_empty();
    let beside = arrays.others.iter().filter(|_| !is_alone);
    let beside: Vec<Finding> = beside.map(|drives| takes_beside(&rule, drives)).collect();
    findings.extend(beside);
    if is_alone {
        findings.push(takes_all(&rule, arrays));
    }
    findings
}

/// mdadm takes the array of these drives, while it needs or leaves others.
fn takes_beside(rule: &str, drives: &str) -> Finding {
    let what =
        format!("{rule} lets it assemble the IMSM array of {drives} as soon as its drives appear");
    Finding::warning("mdadm", what)
        .advise("`fullstripe enable` has it leave the array to fullstripe")
}

/// mdadm takes all arrays, and needs none.
fn takes_all(rule: &str, arrays: &Arrays<'_>) -> Finding {
    let what = format!("{rule} lets it assemble IMSM arrays as soon as their drives appear");
    let finding = match arrays.others.is_empty() && !arrays.has_spare {
        true => Finding::note("mdadm", what),
        false => Finding::warning("mdadm", what),
    };
    finding.advise(
        "to leave them to fullstripe, put AUTO -imsm +all into mdadm.conf and renew the initramfs, or \
         noiswmd on the kernel's command line",
    )
}

/// The udev rule file that calls mdadm for IMSM drives, unless it is hidden by a file of the same name.
fn assembly_rule(files: &Files) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for folder in RULE_FOLDERS {
        for name in files.list(folder) {
            if seen.contains(&name) {
                continue;
            }
            let path = format!("{folder}/{name}");
            let text = files.text(&path).unwrap_or_default();
            seen.push(name);
            let mut rules = text
                .lines()
                .filter(|line| !line.trim_start().starts_with('#'));
            // The type by which udev knows IMSM members.
            let mentions_imsm = rules.clone().any(|line| line.contains("isw_raid_member"));
            if mentions_imsm && rules.any(|line| line.contains("mdadm")) {
                return Some(path);
            }
        }
    }
    None
}

/// Applies the rules of mdadm.conf(5): only the first AUTO line counts, and in it the first word that matches; if
/// nothing matches, the array is assembled.
fn allows_imsm(files: &Files) -> bool {
    configurations(files)
        .filter_map(|text| auto_line_allows(&text))
        .next()
        .unwrap_or(true)
}

/// The texts of mdadm's configuration, in its order.
fn configurations(files: &Files) -> impl Iterator<Item = String> + '_ {
    let mut paths: Vec<String> = Vec::new();
    for path in CONFIGURATIONS {
        paths.push(path.to_owned());
        let folder = format!("{path}.d");
        let inside = files.list(&folder).into_iter();
        paths.extend(
            inside
                .filter(|name| name.ends_with(".conf"))
                .map(|name| format!("{folder}/{name}")),
        );
    }
    paths.into_iter().filter_map(|path| files.text(&path))
}

/// What the first AUTO line in `text` says about IMSM; `None` if there is no such line.
fn auto_line_allows(text: &str) -> Option<bool> {
    let mut words: Option<Vec<String>> = None;
    for line in text.lines() {
        let is_continued = line.starts_with([' ', '\t']);
        let line = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'));
        let line: Vec<String> = line.map(str::to_ascii_lowercase).collect();
        match (&mut words, line.first()) {
            (_, None) => {}
            (Some(words), _) if is_continued => words.extend(line),
            (Some(_), _) => break,
            // Keywords may be abbreviated to no less than three letters.
            (None, Some(first)) if first.len() >= 3 && "auto".starts_with(first.as_str()) => {
                words = Some(line[1..].to_vec());
            }
            (None, _) => {}
        }
    }
    let said = words?.iter().find_map(|word| match word.as_str() {
        "+imsm" | "+all" => Some(true),
        "-imsm" | "-all" => Some(false),
        _ => None,
    });
    Some(said.unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mdstat_tells_containers_from_volumes() {
        let text = "\
Personalities : [raid1]
md126 : active raid1 nvme0n1[1] nvme1n1[0]
      1024 blocks super external:/md127/0 [2/2] [UU]

md127 : inactive nvme1n1[1](S) nvme0n1[0](S)
      2210 blocks super external:imsm

md0 : active raid1 sda1[0] sdb1[1]
      1024 blocks super 1.2 [2/2] [UU]

unused devices: <none>
";
        let arrays = parse_mdstat(text);
        let short: Vec<(&str, bool, Option<&str>)> = arrays
            .iter()
            .map(|array| {
                let container = array.container.as_deref();
                (array.name.as_str(), array.is_imsm_container, container)
            })
            .collect();
        assert_eq!(
            short,
            [
                ("md126", false, Some("md127")),
                ("md127", true, None),
                ("md0", false, None)
            ]
        );
        assert_eq!(arrays[1].members, ["nvme1n1", "nvme0n1"]);
    }

    #[test]
    fn the_first_auto_line_decides() {
        for (text, wanted) in [
            ("", None),
            ("ARRAY /dev/md0\n", None),
            ("AUTO -imsm +all", Some(false)),
            ("aut +1.x homehost\n  -all # rest\n", Some(false)),
            ("AUTO +all -imsm", Some(true)),
            ("AUTO +1.x", Some(true)),
            ("# AUTO -all\nAUTO +imsm\nAUTO -imsm", Some(true)),
        ] {
            assert_eq!(auto_line_allows(text), wanted, "{text:?}");
        }
    }
}

//! Machines for tests: trees of `/sys` and `/proc`, made from the facts of public reports, and one of an emulator.
//!
//! A file of facts in `crates/machine/samples/` names its report and what was assumed beside it. One line says one thing; below a
//! `host`, two blanks more mean one level further down. Words are `key=value`, blanks in values are underscores, and a model, which
//! may have blanks, comes last:
//!
//! ```text
//! board vendor=Intel_Corporation product=S2600WFT
//! processor sockets=2 cores=18 threads=2 max_mhz=3700 base_mhz=3000 model=Intel(R) Xeon(R) Gold 6154 CPU @ 3.00GHz
//! idle name=C6 exit_us=133 residency_us=600
//! nodes count=2
//! memory dimms=12 mt_s=2666 gb=16
//! slot lanes=16 bus=0000:17:00.0 name=PCIe Slot 2
//! host 0000:16 node=0
//!   port 0000:16:00.0 8086:2030 now=8.0x16 max=8.0x16
//!     nvme 0000:17:00.0 8086:0a54 now=8.0x4 max=8.0x4 gb=2000 queues=33 model=INTEL SSDPE2KX020T8
//!   vmd 0000:16:05.5 8086:201d
//!   device 0000:18:00.0 8086:1572 class=0x020000
//! ```

mod pci;
mod system;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The machines: name and facts. The name says what is special.
pub const ALL: [(&str, &str); 12] = [
    (
        "dual_socket_switch",
        include_str!("../../samples/dual_socket_switch.txt"),
    ),
    ("epyc_single", include_str!("../../samples/epyc_single.txt")),
    (
        "workstation_x16_carrier",
        include_str!("../../samples/workstation_x16_carrier.txt"),
    ),
    (
        "laptop_chipset",
        include_str!("../../samples/laptop_chipset.txt"),
    ),
    (
        "laptop_thunderbolt",
        include_str!("../../samples/laptop_thunderbolt.txt"),
    ),
    (
        "virtual_machine",
        include_str!("../../samples/virtual_machine.txt"),
    ),
    (
        "virtual_machine_q35",
        include_str!("../../samples/virtual_machine_q35.txt"),
    ),
    ("vmd_on", include_str!("../../samples/vmd_on.txt")),
    ("vmd_client", include_str!("../../samples/vmd_client.txt")),
    ("slow_link", include_str!("../../samples/slow_link.txt")),
    ("far_socket", include_str!("../../samples/far_socket.txt")),
    ("emulator", include_str!("../../samples/emulator.txt")),
];

/// The facts of the machine with this name.
///
/// # Panics
/// There is none.
#[must_use]
pub fn facts(name: &str) -> &'static str {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("no sample is called {name}"))
        .1
}

/// Who reads the machine's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// Root, who may read the firmware's tables and all of the configuration space.
    Root,
    /// Anybody else.
    User,
}

/// Makes the machine's files below `root`.
///
/// # Panics
/// The facts are malformed, or a file cannot be made.
pub fn build(facts: &str, root: &Path, reader: Reader) {
    let out = Out {
        root: root.to_path_buf(),
        reader,
        made: RefCell::default(),
    };
    let lines: Vec<Line> = facts.lines().filter_map(Line::of).collect();
    system::build(&out, &lines);
    pci::build(&out, &lines);
}

/// One line of facts.
struct Line<'a> {
    /// Two blanks each.
    level: usize,
    /// What it is about: the first word.
    what: &'a str,
    /// The words between, without a key.
    names: Vec<&'a str>,
    pairs: Vec<(&'a str, String)>,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Line<'a>> {
        let line = line.split('#').next()?.trim_end();
        let text = line.trim_start();
        if text.is_empty() {
            return None;
        }
        // What may have blanks comes last.
        let last = [" model=", " name="].iter().find_map(|key| {
            let at = text.find(key)?;
            Some((
                at,
                key.trim_start().trim_end_matches('='),
                &text[at + key.len()..],
            ))
        });
        let (text, last) = match last {
            Some((at, key, value)) if text.starts_with("slot") || key == "model" => {
                (&text[..at], Some((key, value)))
            }
            _ => (text, None),
        };
        let mut words = text.split_whitespace();
        let what = words.next()?;
        let (pairs, names): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        let pairs = pairs.into_iter().filter_map(|word| word.split_once('='));
        let pairs = pairs.map(|(key, value)| (key, value.replace('_', " ")));
        let last = last.map(|(key, value)| (key, value.trim().to_owned()));
        Some(Line {
            level: (line.len() - line.trim_start().len()) / 2,
            what,
            names,
            pairs: pairs.chain(last).collect(),
        })
    }

    fn said(&self, key: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(known, _)| *known == key);
        pair.map(|(_, value)| value.as_str())
    }

    fn number(&self, key: &str) -> Option<u64> {
        let said = self.said(key)?;
        Some(
            said.parse()
                .unwrap_or_else(|_| panic!("{} {key}={said} is no number", self.what)),
        )
    }
}

/// The first line about `what`.
fn line<'a, 'b>(lines: &'b [Line<'a>], what: &str) -> Option<&'b Line<'a>> {
    lines.iter().find(|line| line.what == what)
}

/// Where the files are made.
struct Out {
    root: PathBuf,
    reader: Reader,
    /// Folders that are there already.
    made: RefCell<BTreeSet<PathBuf>>,
}

impl Out {
    fn at(&self, path: &str) -> PathBuf {
        let path = self.root.join(path.trim_start_matches('/'));
        let folder = path.parent().expect("every file is in a folder");
        if self.made.borrow_mut().insert(folder.to_path_buf()) {
            fs::create_dir_all(folder).expect("a folder is made");
        }
        path
    }

    fn bytes(&self, path: &str, bytes: &[u8]) {
        fs::write(self.at(path), bytes).expect("a file is written");
    }

    fn text(&self, path: &str, text: impl ToString) {
        self.bytes(path, format!("{}\n", text.to_string()).as_bytes());
    }

    /// A link at `path` to the folder `to`, both as on a running machine.
    fn link(&self, path: &str, to: &str) {
        let up = "../".repeat(path.trim_start_matches('/').matches('/').count());
        symlink(format!("{up}{}", to.trim_start_matches('/')), self.at(path))
            .expect("a link is made");
    }
}

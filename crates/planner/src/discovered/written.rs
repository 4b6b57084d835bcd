//! A platform as the text of a file, in the form that [`models::platform`] reads.

use models::document::quoted;
use models::platform::{Installed, Machine, Slot};
use models::profile::{Figure, Figures};
use serde::Serialize;
use std::fmt::Write as _;

/// The text of a file with this machine.
#[must_use]
pub fn text(machine: &Machine) -> String {
    let mut text = format!(
        "# A machine as it shows itself, by \"fullstripe platform discover\".\n#\n# Every number: value, source, use. \"measured\" was \
         read from the machine; \"prior\" is the usual value of such machines,\n# because no file of the kernel shows it. Change \
         what you know better.\n\nschema = {}\nplatform = {}\ntitle = {}\n",
        machine.schema,
        quoted(&machine.platform),
        quoted(&machine.title),
    );
    if !machine.not_seen.is_empty() {
        text += "# What could not be seen, and why.\nnot_seen = [\n";
        for gap in &machine.not_seen {
            let _ = writeln!(text, "    {},", quoted(gap));
        }
        text += "]\n";
    }
    let tables: [(&str, &dyn Figures); 5] = [
        ("processor", &machine.processor),
        ("memory", &machine.memory),
        ("interconnect", &machine.interconnect),
        ("root", &machine.root),
        ("packets", &machine.packets),
    ];
    for (name, figures) in tables {
        text += &table(name, figures);
    }
    for node in &machine.nodes {
        let _ = write!(
            text,
            "\n[[node]]\nname = {}\nkind = {}\nparent = {}\n",
            quoted(&node.name),
            quoted(&word(&node.kind)),
            quoted(&node.parent)
        );
        if let Some(domain) = &node.pci_domain {
            let _ = writeln!(text, "pci_domain = {}", quoted(domain));
        }
        text += &table("node.figures", &node.figures);
    }
    for row in &machine.bays {
        let _ = write!(
            text,
            "\n[[bays]]\nname = {}\nparent = {}\n",
            quoted(&row.name),
            quoted(&row.parent)
        );
        text += &table("bays.figures", &row.figures);
    }
    for drive in &machine.drives {
        text += &of_drive(drive);
    }
    for slot in &machine.slots {
        text += &of_slot(slot);
    }
    text
}

fn table(name: &str, figures: &dyn Figures) -> String {
    let mut text = format!("\n[{name}]\n");
    figures.each(&mut |key, figure: &Figure| {
        let Figure {
            value,
            source,
            r#use,
        } = figure;
        let _ = writeln!(
            text,
            "{key} = {{ value = {value}, source = {}, use = {} }}",
            quoted(source),
            quoted(&word(r#use))
        );
    });
    text
}

fn of_drive(drive: &Installed) -> String {
    let Installed {
        name,
        namespaces,
        bay,
        model,
        capacity_gb,
        lanes,
        generation,
        possible_lanes,
        possible_generation,
        queues,
    } = drive;
    let mut text = format!(
        "\n[[drive]]\nname = {}\nbay = {}\n",
        quoted(name),
        quoted(bay)
    );
    if !namespaces.is_empty() {
        let _ = writeln!(text, "namespaces = [{}]", list(namespaces));
    }
    if let Some(model) = model {
        let _ = writeln!(text, "model = {}", quoted(model));
    }
    let _ = writeln!(text, "capacity_gb = {capacity_gb:?}");
    let counts = [
        ("lanes", lanes),
        ("generation", generation),
        ("possible_lanes", possible_lanes),
        ("possible_generation", possible_generation),
        ("queues", queues),
    ];
    for (key, count) in counts {
        if let Some(count) = count {
            let _ = writeln!(text, "{key} = {count}");
        }
    }
    text
}

fn of_slot(slot: &Slot) -> String {
    let Slot {
        name,
        lanes,
        card,
        split,
        source,
        node,
        drives,
    } = slot;
    let mut text = format!("\n[[slot]]\nname = {}\nlanes = {lanes}\n", quoted(name));
    let split = split.as_ref().map(word);
    let texts = [
        ("card", card),
        ("split", &split),
        ("source", source),
        ("node", node),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
    }
    if !drives.is_empty() {
        let _ = writeln!(text, "drives = [{}]", list(drives));
    }
    text
}

/// Texts as a list's content.
fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    texts.join(", ")
}

/// The word that files have for one of a few things.
fn word(one: &impl Serialize) -> String {
    let value = serde_json::to_value(one).expect("a word can be written");
    value.as_str().expect("it is a word").to_owned()
}

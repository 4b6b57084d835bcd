//! A request and its plans as text.

use engine::layout::Level;
use engine::plan::text::render;
use engine::units::Slot;
use explain::Background;
use explain::array::Array;
use explain::report::{Explanation, Operation};
use std::fmt::Write as _;
use words::exact_size;
use words::{count, size};

/// Most plans that are printed, because further ones repeat; JSON has them all.
const PLANS_SHOWN: usize = 8;

/// The whole text.
pub fn of(array: &Array, explanation: &Explanation) -> String {
    let mut text = head(array, explanation);
    let plans = &explanation.plans;
    for report in plans.iter().take(PLANS_SHOWN) {
        text.push('\n');
        if let Some(row) = report.row {
            let parity = report.parity_slot.map_or(String::new(), |slot| {
                format!(", parity on {}", array.drive_name(Slot(slot)))
            });
            let _ = writeln!(text, "row {row}{parity}");
        }
        let _ = writeln!(text, "{}", report.why);
        let names = |slot, _shadow| array.drive_name(slot);
        let steps = render(&report.plan, &array.shape, names).to_string();
        for line in steps.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    let hidden = plans.len().saturating_sub(PLANS_SHOWN);
    if hidden > 0 {
        let _ = writeln!(
            text,
            "\n… and {} (all with --json)",
            count(hidden, "more plan")
        );
    }
    let totals = &explanation.totals;
    let _ = writeln!(
        text,
        "\nIn all {}: {} ({}), {} ({}).",
        count(plans.len(), "plan"),
        count(totals.reads as usize, "member read"),
        size(totals.read_bytes),
        count(totals.writes as usize, "member write"),
        size(totals.write_bytes)
    );
    if explanation.operation == Operation::Write && array.shape.level != Level::Raid0 {
        text.push_str(
            "The first write after a pause also marks the volume dirty on every member, before it.\n",
        );
    }
    text
}

fn head(array: &Array, explanation: &Explanation) -> String {
    let shape = &array.shape;
    let verb = match explanation.operation {
        Operation::Read => "Read",
        Operation::Write => "Write",
    };
    let chunk = match array.chunk_bytes() {
        0 => String::new(),
        bytes => format!(", chunk {}", size(bytes.into())),
    };
    let volume = array
        .name
        .as_ref()
        .map_or("of a".to_owned(), |name| format!("of volume {name},"));
    let mut text = format!(
        "{verb} {} at offset {} {volume} {} of {}{chunk}.\n",
        exact_size(explanation.length_bytes),
        exact_size(explanation.offset_bytes),
        shape.level,
        count(usize::from(shape.members), "drive")
    );
    if array.state.lost.0 != 0 {
        let _ = writeln!(text, "Lost: {}.", array.lost_in_words());
    }
    match array.state.background {
        Background::None => {}
        Background::Sync { done_bytes } => {
            let _ = writeln!(
                text,
                "Redundancy is established up to {} of each member.",
                size(done_bytes)
            );
        }
        Background::Rebuild { slot, done_bytes } => {
            let _ = writeln!(
                text,
                "{} is rebuilt up to {}.",
                array.drive_name(slot),
                size(done_bytes)
            );
        }
    }
    text
}

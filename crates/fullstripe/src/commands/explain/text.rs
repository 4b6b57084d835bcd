//! A request and its plans as text.

use engine::layout::Level;
use engine::plan::text::render;
use explain::array::Array;
use explain::cut::{Asked, Background, Work};
use explain::report::Explanation;
use explain::why;
use std::fmt::Write as _;
use words::exact_size;
use words::{count, size};

/// Most plans that are printed, because further ones repeat; JSON has them all.
const PLANS_SHOWN: usize = 8;

/// The whole text.
pub fn of(array: &Array, asked: Asked, works: &[Work], explanation: &Explanation) -> String {
    let mut text = head(array, asked);
    for work in works.iter().take(PLANS_SHOWN) {
        text.push('\n');
        if let Some(row) = work.row {
            let parity = array.shape.parity_slot(row).map_or(String::new(), |slot| {
                format!(", parity on {}", array.drive_name(slot))
            });
            let _ = writeln!(text, "row {row}{parity}");
        }
        let _ = writeln!(text, "{}", why::why(array, work));
        let names = |slot, _shadow| array.drive_name(slot);
        let steps = render(&work.plan, &array.shape, names).to_string();
        for line in steps.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    let hidden = works.len().saturating_sub(PLANS_SHOWN);
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
        count(works.len(), "plan"),
        count(totals.reads as usize, "member read"),
        size(totals.read_bytes),
        count(totals.writes as usize, "member write"),
        size(totals.write_bytes)
    );
    if asked.is_write && array.shape.level != Level::Raid0 {
        text.push_str(
            "The first write after a pause also marks the volume dirty on every member, before it.\n",
        );
    }
    text
}

fn head(array: &Array, asked: Asked) -> String {
    let shape = &array.shape;
    let verb = if asked.is_write { "Write" } else { "Read" };
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
        exact_size(asked.length_bytes),
        exact_size(asked.offset_bytes),
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

//! A drive and its record as text.

use crate::terminal::table::plain_table;
use container::examine::DriveReport;
use container::examine::bitmap::BitmapReport;
use container::examine::log::LogReport;
use container::examine::record::{RecordReport, VolumeRecord};
use container::examine::shadow::ShadowReport;
use std::fmt::Write as _;
use words::{count, date, size};

/// Most ranges of the bad block log that are printed; JSON has them all.
const BAD_BLOCKS_SHOWN: usize = 16;

/// The paragraph of one drive.
pub fn of_drive(drive: &DriveReport) -> String {
    let mut text = format!(
        "{}: {}, sectors of {} bytes, serial {}\n",
        drive.name,
        size(drive.size_bytes),
        drive.sector_bytes,
        drive.serial
    );
    if let Some(model) = &drive.model {
        let _ = writeln!(text, "  model: {model}");
    }
    match (&drive.record, &drive.damaged) {
        (Some(record), _) => of_record(&mut text, record),
        (None, Some(damaged)) => {
            let _ = writeln!(text, "  IMSM record that cannot be used: {damaged}");
        }
        (None, None) => text.push_str("  no IMSM record\n"),
    }
    if let Some(shadow) = &drive.shadow {
        text.push_str(&of_shadow(shadow));
    }
    let inside = drive
        .record
        .as_ref()
        .is_some_and(|record| !record.volumes.is_empty());
    for what in &drive.holds {
        let place = if inside {
            "  its first or last MiB looks like"
        } else {
            "  holds"
        };
        let _ = writeln!(text, "{place} {what}");
    }
    text
}

fn of_record(text: &mut String, record: &RecordReport) {
    let _ = writeln!(
        text,
        "  IMSM record {}, checksum correct, {} bytes on the drive",
        record.format_version, record.image_bytes
    );
    let _ = writeln!(text, "  container: {}", record.container_uuid);
    let _ = writeln!(
        text,
        "  family {}, original family {}, generation {}",
        record.family, record.original_family, record.generation
    );
    if record.created_unix_s > 0 {
        let _ = writeln!(text, "  made: {}", date(record.created_unix_s));
    }
    let _ = writeln!(text, "  attributes: {}", record.attributes.join(", "));
    if !record.unsupported.is_empty() {
        let _ = writeln!(
            text,
            "  not supported, so no volume is started: {}",
            record.unsupported.join(", ")
        );
    }
    if record.own_row.is_none() {
        text.push_str(
            "  the table does not list this drive's serial: it is a copy, was renamed, or was \
             marked failed\n",
        );
    }
    disks(text, record);
    if record.volumes.is_empty() {
        text.push_str("  no volume: this is the record of a spare\n");
    }
    for volume in &record.volumes {
        of_volume(text, volume);
    }
    bad_blocks(text, record);
    if let Some(reshape) = &record.reshape {
        let _ = writeln!(
            text,
            "  reshape: at unit {} of {}",
            reshape.current_unit, reshape.units
        );
    }
}

fn disks(text: &mut String, record: &RecordReport) {
    let mut rows = vec![
        ["ROW", "SERIAL", "SIZE", "STATE", ""]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (row, disk) in record.disks.iter().enumerate() {
        let own = if record.own_row == Some(row) {
            "this drive"
        } else {
            ""
        };
        rows.push(vec![
            row.to_string(),
            disk.serial.clone(),
            size(disk.size_bytes),
            disk.state.to_owned(),
            own.to_owned(),
        ]);
    }
    text.push_str(&plain_table(2, &rows));
}

fn of_volume(text: &mut String, volume: &VolumeRecord) {
    let chunk = match volume.chunk_bytes {
        0 => String::new(),
        bytes => format!(", chunk {}", size(bytes)),
    };
    let _ = writeln!(
        text,
        "  volume {}: RAID {} of {}{chunk}, {}",
        volume.name,
        volume.level,
        count(volume.members, "drive"),
        size(volume.size_bytes)
    );
    let _ = writeln!(text, "    uuid {}", volume.uuid);
    let dirty = if volume.dirty { "dirty" } else { "clean" };
    let _ = writeln!(
        text,
        "    state {}, {dirty}, write-hole protection {}",
        volume.state, volume.write_hole_policy
    );
    if let Some(log) = &volume.write_hole_log {
        text.push_str(&of_log(log));
    }
    if let Some(bitmap) = &volume.bitmap {
        text.push_str(&of_bitmap(bitmap));
    }
    let _ = writeln!(
        text,
        "    on each drive {} from byte {}",
        size(volume.component_bytes),
        volume.start_bytes
    );
    if let Some(migration) = &volume.migration {
        let done = migration.done_bytes.map_or("unknown".to_owned(), |done| {
            let percent = u128::from(done) * 100 / u128::from(volume.component_bytes.max(1));
            format!(
                "{} of {} ({percent} %)",
                size(done),
                size(volume.component_bytes)
            )
        });
        let _ = writeln!(
            text,
            "    {} in progress, done {done}; until then {}",
            migration.kind, migration.state
        );
    }
    let slots: Vec<String> = volume
        .slots
        .iter()
        .enumerate()
        .map(|(slot, entry)| {
            let state = if entry.in_sync { "" } else { " (out of sync)" };
            format!("{slot}: {}{state}", entry.serial)
        })
        .collect();
    let _ = writeln!(text, "    slots {}", slots.join(", "));
}

fn bad_blocks(text: &mut String, record: &RecordReport) {
    for range in record.bad_blocks.iter().take(BAD_BLOCKS_SHOWN) {
        let _ = writeln!(
            text,
            "  unreadable: row {}, {} bytes at byte {}",
            range.row, range.length_bytes, range.offset_bytes
        );
    }
    let hidden = record.bad_blocks.len().saturating_sub(BAD_BLOCKS_SHOWN);
    if hidden > 0 {
        let _ = writeln!(text, "  unreadable: {hidden} more ranges (all with --json)");
    }
}

/// A line about the shadow, short if the drive's record is whole, because the shadow then has no effect.
fn of_shadow(report: &ShadowReport) -> String {
    let generation = report.generation.unwrap_or_default();
    match (&report.reason, report.same_as_record) {
        (Some(reason), _) => format!("  shadow copy that cannot be used: {reason}\n"),
        (None, Some(true)) => format!("  shadow copy: generation {generation}, the same record\n"),
        (None, Some(false)) => {
            format!("  shadow copy: generation {generation}, another record; it is ignored\n")
        }
        (None, None) => format!(
            "  shadow copy: generation {generation} of container {}, {} ({}); it serves if every \
             member's record is torn\n",
            report.container_uuid.as_deref().unwrap_or_default(),
            count(report.volumes.len(), "volume"),
            report.volumes.join(", ")
        ),
    }
}

/// A line about the log.
fn of_log(report: &LogReport) -> String {
    let what = match (report.state, report.generation) {
        ("header", Some(0)) if report.entries == 0 => "empty".to_owned(),
        ("header", generation) => format!(
            "newest unit {} with {} entries, the last of {}",
            generation.unwrap_or_default(),
            report.entries,
            report.units
        ),
        ("blank", _) => "being emptied".to_owned(),
        ("torn", _) => "a header that was written only in part".to_owned(),
        ("foreign", _) => format!(
            "none ({})",
            report
                .reason
                .as_deref()
                .unwrap_or("not one of this container")
        ),
        (state, _) => state.to_owned(),
    };
    format!(
        "    write-hole log at byte {}: {what}\n",
        report.offset_bytes
    )
}

/// A line about the bitmap.
fn of_bitmap(report: &BitmapReport) -> String {
    let what = match (&report.problem, report.region_bytes) {
        (Some(problem), _) => format!("cannot be used ({problem})"),
        (None, region) => format!(
            "{} of {} regions of {} are marked",
            report.marked,
            report.regions,
            size(u64::from(region.unwrap_or_default()))
        ),
    };
    format!("    bitmap at byte {}: {what}\n", report.offset_bytes)
}

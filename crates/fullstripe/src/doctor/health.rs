//! What an NVMe drive says about its own health (its SMART log), and whether that is a reason not to trust it
//! with a part of an array.

use super::finding::Finding;
use crate::commands::words::size;
use drives::nvme::Health;

/// The bits of the critical warning that concern what an array keeps on the drive; NVM Express Base
/// Specification 2.0, figure 207, byte 0.
const WARNINGS: [(u8, &str); 5] = [
    (1 << 0, "its spare capacity is used up"),
    (1 << 1, "its temperature is out of bounds"),
    (1 << 2, "it has become unreliable"),
    (1 << 3, "it cannot be written any more"),
    (1 << 4, "its protection against power loss has failed"),
];

/// One line about the drive.
pub fn finding(about: &str, health: &Health) -> Finding {
    let state = state(health);
    let warned: Vec<&str> = WARNINGS
        .iter()
        .filter(|(bit, _)| health.critical_warning & bit != 0)
        .map(|(_, words)| *words)
        .collect();
    if !warned.is_empty() {
        return Finding::warning(
            about,
            format!("it reports that {}: {state}", warned.join(" and ")),
        )
        .advise("replace it before it fails");
    }
    if health.media_errors > 0 {
        let errors = health.media_errors;
        return Finding::warning(
            about,
            format!("it could not correct {errors} errors so far: {state}"),
        )
        .advise("scrub its array, and replace the drive when the number grows");
    }
    if health.used_percent >= 100 {
        return Finding::warning(
            about,
            format!("it has reached the end of its rated life: {state}"),
        )
        .advise("plan its replacement");
    }
    Finding::ok(about, state)
}

/// `38 °C, 3 % of its life used, 98 % of its spare left, 8760 hours on, 130.4 TiB written`.
fn state(health: &Health) -> String {
    let written = u64::try_from(health.written_bytes).unwrap_or(u64::MAX);
    format!(
        "{} °C, {} % of its life used, {} % of its spare left, {} hours on, {} written",
        health.celsius,
        health.used_percent,
        health.available_spare_percent,
        health.power_on_hours,
        size(written)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Health {
        Health {
            critical_warning: 0,
            celsius: 38,
            available_spare_percent: 98,
            spare_threshold_percent: 10,
            used_percent: 3,
            read_bytes: 0,
            written_bytes: 3 << 40,
            power_on_hours: 8760,
            unsafe_shutdowns: 2,
            media_errors: 0,
        }
    }

    #[test]
    fn a_healthy_drive_is_told_of_and_an_ailing_one_warned_of() {
        let line = |change: &dyn Fn(&mut Health)| {
            let mut health = healthy();
            change(&mut health);
            finding("nvme0n1", &health).to_string()
        };
        let state =
            "38 °C, 3 % of its life used, 98 % of its spare left, 8760 hours on, 3 TiB written";
        assert_eq!(line(&|_| ()), format!("ok       nvme0n1: {state}"));
        let both = line(&|health| health.critical_warning = 0b1001);
        assert!(
            both.starts_with(
                "warning  nvme0n1: it reports that its spare capacity is used up and it cannot be written any more: 38"
            ) && both.ends_with("replace it before it fails"),
            "{both}"
        );
        assert!(line(&|health| health.media_errors = 7).contains("could not correct 7 errors"));
        assert!(line(&|health| health.used_percent = 104).contains("end of its rated life"));
        // A bit that nobody knows is no alarm.
        assert!(line(&|health| health.critical_warning = 0b1100_0000).starts_with("ok"));
    }
}

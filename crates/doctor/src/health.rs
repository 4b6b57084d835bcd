//! What an NVMe drive reports about itself (Identify Controller) and its health (SMART log), and whether that is
//! a reason not to use it in an array.

use super::finding::Finding;
use drives::nvme::{Controller, Health, Limits, Warning, judge};
use words::size;

const COOL_IT: &str = "see to its cooling: it slows down when hot";

/// The finding about the drive's health. How hot it is compared with its own limits, [`nature`] says.
pub fn finding(about: &str, health: &Health) -> Finding {
    let state = state(health);
    let warnings = judge(health, Limits::default(), 0);
    let has = |warning| warnings.contains(&warning);
    let reported: Vec<&str> = warnings
        .iter()
        .filter(|warning| !matches!(warning, Warning::MediaErrors | Warning::WornOut))
        .map(|warning| warning.words())
        .collect();
    if !reported.is_empty() {
        let advice = match warnings[..] {
            [Warning::Hot] => COOL_IT,
            _ => "replace it before it fails",
        };
        let reported = reported.join(" and ");
        return Finding::warning(about, format!("it reports that {reported}: {state}"))
            .advise(advice);
    }
    if has(Warning::MediaErrors) {
        let errors = health.media_errors;
        return Finding::warning(
            about,
            format!("it could not correct {errors} errors so far: {state}"),
        )
        .advise("scrub its array, and replace the drive when the number grows");
    }
    if has(Warning::WornOut) {
        let words = Warning::WornOut.words();
        return Finding::warning(about, format!("{words}: {state}")).advise("plan its replacement");
    }
    Finding::ok(about, state)
}

/// The finding about the properties of the drive that matter for an array, and whether it is near its warning
/// temperature.
pub fn nature(about: &str, controller: &Controller, health: Option<&Health>) -> Finding {
    let cache = if controller.volatile_cache {
        "a cache that loses its content with the power, so it is flushed"
    } else {
        "no cache that loses its content with the power"
    };
    let missing = [
        (
            controller.deallocate,
            ", no deallocate, so trims are not passed on",
        ),
        (
            controller.write_zeroes,
            ", no Write Zeroes, so zeros are written",
        ),
    ];
    let missing = missing
        .iter()
        .filter(|(has, _)| !has)
        .map(|(_, words)| *words);
    let words = format!(
        "{}, firmware {}: {cache}{}",
        controller.model,
        controller.firmware,
        missing.collect::<String>()
    );
    let warns_at = controller.warning_celsius.zip(health);
    if let Some((limit, health)) = warns_at.filter(|(limit, health)| health.celsius >= *limit) {
        let celsius = health.celsius;
        let words =
            format!("{words}; at {celsius} °C it has passed the {limit} °C that it warns of");
        return Finding::warning(about, words).advise(COOL_IT);
    }
    Finding::ok(about, words)
}

/// `38 °C, 3 % of its life used, 98 % of its spare left, 8760 hours on, 130.4 TiB written`.
fn state(health: &Health) -> String {
    let written = u64::try_from(health.written_bytes).unwrap_or(u64::MAX);
    format!(
        "{health}, {} hours on, {} written",
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
    fn a_drive_says_what_it_is_and_a_hot_one_is_warned_of() {
        let controller = Controller {
            serial: "S1".to_owned(),
            model: "ACME Fast 2".to_owned(),
            firmware: "1.0".to_owned(),
            volatile_cache: false,
            deallocate: true,
            write_zeroes: true,
            capacity_bytes: 1 << 40,
            warning_celsius: Some(70),
            critical_celsius: Some(80),
        };
        let line = |controller: &Controller, celsius| {
            let health = Health {
                celsius,
                ..healthy()
            };
            nature("nvme0n1", controller, Some(&health)).to_string()
        };
        let plain = "ok       nvme0n1: ACME Fast 2, firmware 1.0: no cache that loses its content with the power";
        assert_eq!(line(&controller, 69), plain);
        assert!(line(&controller, 70).contains("has passed the 70 °C that it warns of"));
        let poor = Controller {
            volatile_cache: true,
            deallocate: false,
            write_zeroes: false,
            warning_celsius: None,
            ..controller
        };
        let told = line(&poor, 90);
        assert!(
            told.starts_with("ok") && told.contains("so it is flushed"),
            "{told}"
        );
        assert!(
            told.contains("no deallocate") && told.contains("no Write Zeroes"),
            "{told}"
        );
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
                "warning  nvme0n1: it reports that its spare capacity is below its threshold and it cannot be written any more: 38"
            ) && both.ends_with("replace it before it fails"),
            "{both}"
        );
        let hot = line(&|health| health.critical_warning = 0b10);
        assert!(
            hot.contains("its temperature is out of bounds") && hot.ends_with(COOL_IT),
            "{hot}"
        );
        let low = line(&|health| health.available_spare_percent = 9);
        assert!(
            low.contains("below its threshold") && low.ends_with("before it fails"),
            "{low}"
        );
        assert!(line(&|health| health.media_errors = 7).contains("could not correct 7 errors"));
        assert!(line(&|health| health.used_percent = 104).contains("end of its rated life"));
        // An unknown bit raises no alarm.
        assert!(line(&|health| health.critical_warning = 0b1100_0000).starts_with("ok"));
    }
}

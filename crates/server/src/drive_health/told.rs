//! What drives report, as events.

use super::record::Change;
use crate::event_kinds::Kind;
use crate::events::Told;
use drives::nvme::{Health, Warning};
use words::and;

fn kind(warning: Warning) -> Kind {
    match warning {
        Warning::SpareLow | Warning::Unreliable | Warning::ReadOnly => Kind::DriveFailing,
        Warning::Hot => Kind::DriveHot,
        Warning::TooHot => Kind::DriveTooHot,
        Warning::BackupFailed => Kind::DriveUnprotected,
        Warning::WornOut => Kind::DriveWorn,
        Warning::MediaErrors => Kind::DriveMediaErrors,
    }
}

/// The warning that events of this kind are about; `None` if it is about to fail, or the kind is of something else.
pub(crate) fn warning_of(name: &str) -> Option<Warning> {
    let mut all = Warning::ALL.into_iter();
    all.find(|warning| !warning.means_failing() && kind(*warning).name() == name)
}

/// One event for each kind of warning that began, and one for all warnings that ended.
pub(super) fn events(drive: &str, change: &Change, health: &Health) -> Vec<Told> {
    let errors = health.media_errors;
    let event = |kind: Kind, reports: &str, warnings: &[Warning], is_warning: bool| {
        let words: Vec<&str> = warnings.iter().map(|warning| warning.words()).collect();
        let text = format!(
            "{drive} {reports} that {}: {health}, {errors} errors not corrected",
            and(&words)
        );
        let mut told = Told::of_process(kind, text, is_warning);
        told.member = Some(drive.to_owned());
        told
    };
    let mut kinds: Vec<Kind> = Vec::new();
    for &warning in &change.began {
        if !kinds.contains(&kind(warning)) {
            kinds.push(kind(warning));
        }
    }
    let began = kinds.into_iter().map(|of| {
        let is_of_kind = |warning: &&Warning| kind(**warning) == of;
        let warnings: Vec<Warning> = change.began.iter().filter(is_of_kind).copied().collect();
        event(of, "reports", &warnings, true)
    });
    let mut events: Vec<Told> = began.collect();
    if !change.ended.is_empty() {
        let kind = Kind::DriveWarningResolved;
        events.push(event(kind, "no longer reports", &change.ended, false));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_warning_is_an_event_with_its_words_and_numbers() {
        let mut health = Health::decode(&[0; drives::nvme::HEALTH_BYTES]);
        (health.celsius, health.used_percent) = (72, 4);
        (health.available_spare_percent, health.media_errors) = (9, 3);
        let change = Change {
            began: vec![Warning::SpareLow, Warning::Hot, Warning::ReadOnly],
            ended: vec![Warning::WornOut],
        };
        let events = events("/dev/nvme1n1", &change, &health);
        let lines = events.iter().map(|told| {
            assert_eq!(told.member.as_deref(), Some("/dev/nvme1n1"));
            format!("{} {}: {}\n", told.kind, told.warning, told.text)
        });
        insta::assert_snapshot!(lines.collect::<String>(), @r"
        drive-failing true: /dev/nvme1n1 reports that its spare capacity is below its threshold and it cannot be written any more: 72 °C, 4 % of its life used, 9 % of its spare left, 3 errors not corrected
        drive-hot true: /dev/nvme1n1 reports that its temperature is out of bounds: 72 °C, 4 % of its life used, 9 % of its spare left, 3 errors not corrected
        drive-warning-resolved false: /dev/nvme1n1 no longer reports that it has reached the end of its rated life: 72 °C, 4 % of its life used, 9 % of its spare left, 3 errors not corrected
        ");
    }

    #[test]
    fn nothing_new_is_no_event() {
        let health = Health::decode(&[0; drives::nvme::HEALTH_BYTES]);
        assert!(events("d0", &Change::default(), &health).is_empty());
    }
}

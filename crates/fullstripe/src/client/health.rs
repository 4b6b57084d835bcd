//! What drives report about their health, as a table.

use crate::terminal::Paper;
use crate::terminal::table::{Give, table};
use server::status::drive_health::NOT_KNOWN;
use server::status::{DriveHealth, MemberStatus, Status};
use words::and;

/// The table, after an empty line; empty if no drive can report anything, as files cannot.
pub(super) fn health_table(status: &Status, paper: Paper) -> String {
    let present = status.members.iter();
    let present = present.filter(|member| matches!(member.state.as_str(), "active" | "spare"));
    let present: Vec<&MemberStatus> = present.collect();
    if !present.iter().any(|member| is_told(&member.health)) {
        return String::new();
    }
    let head = ["DRIVE", "TEMP", "LIFE USED", "SPARE", "ERRORS", "HEALTH"]
        .map(str::to_owned)
        .to_vec();
    let rows = present.into_iter().map(|member| row(member, paper));
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let give = [
        Give::Shorten,
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Fold,
    ];
    format!("\n{}", table(0, &rows, &give, paper.columns))
}

/// Whether the drive reports its health, or should.
pub(super) fn is_told(health: &DriveHealth) -> bool {
    health.may_report || health.log.is_some()
}

/// Numbers are left out while they may be old.
fn row(member: &MemberStatus, paper: Paper) -> Vec<String> {
    let health = &member.health;
    let log = health.log.as_ref().filter(|_| health.state != NOT_KNOWN);
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        member.name.clone(),
        cell(log.map(|log| format!("{} °C", log.celsius))),
        cell(log.map(|log| format!("{} %", log.used_percent))),
        cell(log.map(|log| format!("{} %", log.available_spare_percent))),
        cell(log.map(|log| log.media_errors.to_string())),
        in_words(health, paper),
    ]
}

/// `good`; `failing: it reports that it has become unreliable`; `not known: it is not an NVMe drive`.
pub(super) fn in_words(health: &DriveHealth, paper: Paper) -> String {
    let mut text = paper.state(&health.state);
    if let Some(why) = &health.not_known {
        text += &format!(": {why}");
    }
    let reported = health.reported();
    if !reported.is_empty() {
        let last = match health.state.as_str() {
            NOT_KNOWN => "; its last report was",
            _ => ": it reports",
        };
        text += &format!("{last} that {}", and(&reported));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::status::drive_health::HealthLog;
    use server::testing::samples::member;

    fn health(state: &str, warnings: &[&str]) -> DriveHealth {
        DriveHealth {
            state: state.to_owned(),
            not_known: None,
            may_report: true,
            log: Some(HealthLog {
                read_s: 1_700_000_000,
                celsius: 41,
                used_percent: 3,
                available_spare_percent: 98,
                spare_threshold_percent: 10,
                media_errors: 0,
            }),
            warnings: warnings.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn not_known(why: &str) -> DriveHealth {
        DriveHealth {
            not_known: Some(why.to_owned()),
            may_report: true,
            ..DriveHealth::default()
        }
    }

    #[test]
    fn each_drive_has_its_numbers_or_the_reason_why_there_are_none() {
        let drives = [
            health("good", &[]),
            health("warning", &["hot"]),
            health("failing", &["unreliable", "read-only"]),
            DriveHealth {
                not_known: Some("it has not answered for 30s".to_owned()),
                ..health("not known", &["spare-low"])
            },
            not_known("NVMe admin commands need root (CAP_SYS_ADMIN)"),
        ];
        let mut members: Vec<MemberStatus> = (0u8..)
            .zip(drives)
            .map(|(id, health)| MemberStatus {
                health,
                ..member(id, "active")
            })
            .collect();
        members.push(member(5, "failed"));
        let status = Status {
            members,
            ..Status::default()
        };
        insta::assert_snapshot!(health_table(&status, Paper::PLAIN), @r"

        DRIVE         TEMP   LIFE USED  SPARE  ERRORS  HEALTH
        /dev/nvme0n1  41 °C  3 %        98 %   0       good
        /dev/nvme1n1  41 °C  3 %        98 %   0       warning: it reports that its temperature is out of bounds
        /dev/nvme2n1  41 °C  3 %        98 %   0       failing: it reports that it has become unreliable and it cannot be written any more
        /dev/nvme3n1  -      -          -      -       not known: it has not answered for 30s; its last report was that its spare capacity is below its threshold
        /dev/nvme4n1  -      -          -      -       not known: NVMe admin commands need root (CAP_SYS_ADMIN)
        ");
    }

    #[test]
    fn an_array_on_files_has_no_such_table() {
        let file = MemberStatus {
            health: DriveHealth {
                may_report: false,
                ..not_known("it is a file or memory")
            },
            ..member(0, "active")
        };
        let status = Status {
            members: vec![file],
            ..Status::default()
        };
        assert_eq!(health_table(&status, Paper::PLAIN), "");
    }
}

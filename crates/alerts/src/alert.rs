//! One alert, and how grave it is.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::Command;

/// How grave an event is; the later of two is the graver one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing needs to be done.
    Info,
    /// An operator should look at it, within days.
    #[default]
    Warning,
    /// Data or service is lost, or would be if one more drive failed: act today.
    Critical,
}

impl Severity {
    /// Every severity, the least first.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// The priority that the journal calls it by, as syslog(3) numbers them: `crit`, `warning` or `info`.
    #[must_use]
    pub fn priority(self) -> u8 {
        match self {
            Severity::Critical => 2,
            Severity::Warning => 4,
            Severity::Info => 6,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        })
    }
}

/// What an operator is told. Its JSON is the body of the request to a webhook, and the standard input of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Alert {
    /// Seconds since 1970.
    pub time_s: u64,
    /// The name of this machine.
    pub host: String,
    /// The array, by its name in the settings file; empty if the alert is about none.
    pub array: String,
    /// The kind of the event, a word that never changes; `resolved` when the array is well again.
    pub kind: String,
    /// How grave it is.
    pub severity: Severity,
    /// The volume concerned.
    pub volume: Option<String>,
    /// The drive concerned.
    pub member: Option<String>,
    /// What has happened, in one sentence.
    pub text: String,
    /// What to do next.
    pub next: String,
    /// How many events this alert stands for, at least 1.
    pub count: u64,
    /// The health of the array when the alert was made, as `fullstripe status` says it; empty if not known.
    pub health: String,
}

impl Alert {
    /// The alert in one line: severity, array and what has happened.
    #[must_use]
    pub fn line(&self) -> String {
        let about = match self.array.is_empty() {
            true => String::new(),
            false => format!("array {}: ", self.array),
        };
        let more = match self.count {
            0 | 1 => String::new(),
            count => format!(" (and {} more of this kind)", count - 1),
        };
        format!("{}: {about}{}{more}", self.severity, self.text)
    }

    /// Gives the alert to `command` in its environment. A variable is empty if the alert has no such value.
    pub fn into_environment(&self, command: &mut Command) {
        let values = [
            ("EVENT", self.kind.clone()),
            ("VOLUME", self.volume.clone().unwrap_or_default()),
            ("MEMBER", self.member.clone().unwrap_or_default()),
            ("TEXT", self.text.clone()),
            ("TIME", self.time_s.to_string()),
            ("HOST", self.host.clone()),
            ("ARRAY", self.array.clone()),
            ("SEVERITY", self.severity.to_string()),
            ("NEXT", self.next.clone()),
            ("COUNT", self.count.to_string()),
        ];
        for (name, value) in values {
            // The system refuses a value with a NUL byte, and an alert should arrive all the same.
            command.env(format!("FULLSTRIPE_{name}"), value.replace('\0', " "));
        }
    }
}

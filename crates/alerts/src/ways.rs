//! The ways in which alerts leave the machine.

use crate::{Alert, SEND_WITHIN, call, mail, web};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A way in which an alert is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// A mail, by the sendmail program.
    Mail,
    /// An HTTP request.
    Webhook,
    /// A command of the operator.
    Exec,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Way::Mail => "mail",
            Way::Webhook => "webhook",
            Way::Exec => "exec",
        })
    }
}

/// The ways that the operator has set, and what each needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ways {
    /// Addresses; no mail is sent if empty.
    pub mail: Vec<String>,
    /// The program that takes mail, if not the usual one.
    pub sendmail: Option<PathBuf>,
    /// The address of a web server. It may contain a secret.
    pub webhook: Option<String>,
    /// A command for `sh -c`.
    pub exec: Option<String>,
}

impl Ways {
    /// The ways that are set.
    #[must_use]
    pub fn all(&self) -> Vec<Way> {
        let set = [
            (Way::Mail, !self.mail.is_empty()),
            (Way::Webhook, self.webhook.is_some()),
            (Way::Exec, self.exec.is_some()),
        ];
        let set = set.into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(way, _)| way).collect()
    }

    /// Sends `alert` by one way, once; a way that is not set does nothing.
    ///
    /// # Errors
    /// One sentence: why it did not arrive.
    pub fn send(&self, way: Way, alert: &Alert) -> Result<()> {
        match (way, &self.webhook, &self.exec) {
            (Way::Mail, ..) if !self.mail.is_empty() => {
                mail::send(&self.mail, self.sendmail.as_deref(), alert)
            }
            (Way::Webhook, Some(url), _) => web::post(url, alert, web::ANSWER_WITHIN),
            (Way::Exec, _, Some(command)) => run_command(command, alert),
            _ => Ok(()),
        }
    }
}

fn run_command(command: &str, alert: &Alert) -> Result<()> {
    let mut shell = call::shell(command);
    alert.into_environment(&mut shell);
    let mut json = serde_json::to_vec(alert)?;
    json.push(b'\n');
    call::run(shell, &json, SEND_WITHIN).context("the command of \"exec\" failed")
}

#[cfg(test)]
mod tests;

//! Reads the table `[alerts]`.
//!
//! An address of a web server may be a secret, so the error about one does not repeat what is written.

use super::Field;
use crate::alerts::{ALERT_KEYS, AlertSettings, PING_EVERY_S};
use ::alerts::{Severity, mail, web};
use anyhow::Result;
use std::ops::Range;
use std::path::PathBuf;

impl Field<'_> {
    pub(super) fn read_into_alerts(
        &self,
        alerts: &mut AlertSettings,
        key_span: Range<usize>,
    ) -> Result<()> {
        match self.key {
            "mail" => alerts.mail = self.mail_addresses()?,
            "sendmail" => alerts.sendmail = Some(self.absolute_path()?),
            "webhook" => alerts.webhook = Some(self.web_address()?),
            "webhook_file" => alerts.webhook_file = Some(self.absolute_path()?),
            "exec" => alerts.exec = Some(self.command()?),
            "minimum" => alerts.minimum = self.severity()?,
            "ping" => alerts.ping = Some(self.web_address()?),
            "ping_file" => alerts.ping_file = Some(self.absolute_path()?),
            "ping_every_s" => alerts.ping_every_s = self.number(&PING_EVERY_S)?,
            unknown => {
                let sentence = self.unknown(unknown, &ALERT_KEYS);
                return Err(self.source.error(key_span, sentence));
            }
        }
        let twice = [
            (
                "webhook",
                alerts.webhook.is_some() && alerts.webhook_file.is_some(),
            ),
            ("ping", alerts.ping.is_some() && alerts.ping_file.is_some()),
        ];
        match twice.into_iter().find(|(_, is_twice)| *is_twice) {
            None => Ok(()),
            Some((key, _)) => {
                let sentence = format!("alerts has both {key} and {key}_file; keep one of the two");
                Err(self.source.error(key_span, sentence))
            }
        }
    }

    fn mail_addresses(&self) -> Result<Vec<String>> {
        let texts = self.texts("give mail addresses like [\"root\"]")?;
        let read = texts.into_iter().map(|(text, span)| {
            let checked = mail::check_address(text).map_err(|instead| self.bad(span, instead));
            checked.map(|()| text.to_owned())
        });
        read.collect()
    }

    fn web_address(&self) -> Result<String> {
        let (text, key) = (self.text()?, self.key);
        let refused = |why: &str| {
            let sentence = format!("alerts.{key} {why}");
            self.source.error(self.value.span(), sentence)
        };
        web::check_url(text)
            .map_err(|instead| refused(&format!("is no address of a web server; {instead}")))?;
        if web::has_password(text) {
            return Err(refused(&format!(
                "contains a password, and this file may be read by others; write the address to a file of mode 0600 and \
                 name that by {key}_file"
            )));
        }
        Ok(text.to_owned())
    }

    pub(super) fn absolute_path(&self) -> Result<PathBuf> {
        let path = PathBuf::from(self.text()?);
        match path.is_absolute() && !self.text()?.contains('\0') {
            true => Ok(path),
            false => Err(self.refused("give a path that begins with '/'")),
        }
    }

    fn severity(&self) -> Result<Severity> {
        let text = self.text()?;
        let found = Severity::ALL
            .into_iter()
            .find(|one| one.to_string() == text);
        found.ok_or_else(|| self.refused("give \"info\", \"warning\" or \"critical\""))
    }
}

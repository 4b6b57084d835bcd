//! Turns the text of the settings file into [`crate::Settings`], as far as it can be used ([`Sound`]).
//!
//! The parser of TOML keeps the place of each key and value, so a mistake is reported with its line:
//! `FILE:LINE: KEY cannot be VALUE; what to write instead`. The first mistake in a block of an array ends the reading of that
//! block, and the other blocks are read on.

use crate::sound::{Concerns, Mistake, Sound};
use crate::{
    AlertSettings, ArraySettings, Attach, DEADLINE_S, DEGRADED_AFTER_S, KEYS, SCRUB_EVERY_MAX_S,
    SHARDS, SameBay, ScrubPeriod, check_name,
};
use anyhow::{Result, anyhow};
use drives::spec::{MemberSpec, parse_size};
use exports::nbd::service::{Address, TcpClients};
use exports::nvmet::names::check_host;
use models::nearest::mistyped;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

mod alerts;

/// Most characters of the user's text, or of the parser's message, in a sentence.
const QUOTED_MAX: usize = 100;
/// The keys outside of blocks.
const ARRAY: &str = "array";
const ALERTS: &str = "alerts";

/// The file that is read, for the places in errors.
struct Source<'a> {
    text: &'a str,
    shown_name: &'a str,
}

impl Source<'_> {
    /// The error that says what is wrong at `span`.
    fn error(&self, span: Range<usize>, sentence: impl Display) -> anyhow::Error {
        let line = self.line(span.start);
        // A sentence is one line, whatever it quotes.
        anyhow!(
            "{}:{line}: {}",
            self.shown_name,
            visible(&sentence.to_string())
        )
    }

    fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }
}

/// Reads `text`; see [`Sound::parse`].
pub fn read(text: &str, shown_name: &str) -> Result<Sound> {
    let source = Source { text, shown_name };
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        let message = shortened(error.message());
        source.error(
            at,
            format!("this is not TOML ({message}); correct the line"),
        )
    })?;
    let mut sound = Sound::default();
    for (key, value) in in_order(root.get_ref()) {
        match &**key.get_ref() {
            ARRAY => sound.read_arrays(&source, key.span(), value),
            ALERTS => sound.read_alerts(&source, key.span(), value),
            other => {
                let sentence = format!(
                    "\"{}\" is no key of this file; each array has a block that begins with [array.NAME], and alerts have one \
                     that begins with [alerts]",
                    shortened_name(other)
                );
                sound.add(Concerns::File, source.error(key.span(), sentence));
            }
        }
    }
    Ok(sound)
}

impl Sound {
    fn add(&mut self, concerns: Concerns, error: anyhow::Error) {
        self.mistakes.push(Mistake { concerns, error });
    }

    fn read_arrays(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let Some(blocks) = value.get_ref().as_table() else {
            let sentence = "\"array\" is no table; write a block [array.NAME] for each array";
            return self.add(Concerns::File, source.error(span, sentence));
        };
        let mut places = Places::default();
        for (name, block) in in_order(blocks) {
            let called = name.get_ref().clone().into_owned();
            match read_block(source, name, block, &mut places) {
                Ok(array) => drop(self.settings.arrays.insert(called, array)),
                Err(error) => self.add(Concerns::Array(called), error),
            }
        }
    }

    fn read_alerts(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let Some(table) = value.get_ref().as_table() else {
            let sentence = "\"alerts\" is no table; write a block [alerts]";
            return self.add(Concerns::Alerts, source.error(span, sentence));
        };
        for (key, value) in in_order(table) {
            let field = Field {
                source,
                block: ALERTS.to_owned(),
                key: key.get_ref(),
                value,
            };
            let mut alerts: AlertSettings = self.settings.alerts.clone();
            match field.read_into_alerts(&mut alerts, key.span()) {
                Ok(()) => self.settings.alerts = alerts,
                Err(error) => self.add(Concerns::Alerts, error),
            }
        }
    }
}

type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

/// The entries in the order of the file, so that the first mistake is the one that is reported.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// What only one array may have, with the array that has it.
#[derive(Default)]
struct Places {
    uuids: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
}

fn read_block(
    source: &Source<'_>,
    name: &Spanned<DeString<'_>>,
    block: &Spanned<DeValue<'_>>,
    places: &mut Places,
) -> Result<ArraySettings> {
    let shown = name.get_ref();
    check_name(shown).map_err(|sentence| source.error(name.span(), sentence))?;
    let Some(table) = block.get_ref().as_table() else {
        let sentence = format!("array.{shown} is no table; write a block [array.{shown}]");
        return Err(source.error(name.span(), sentence));
    };
    let mut array = ArraySettings::with_defaults("");
    let [mut addresses, mut nvmet] = [name.span(), name.span()];
    for (key, value) in in_order(table) {
        match &**key.get_ref() {
            "nbd" => addresses = key.span(),
            key_of_nvmet if key_of_nvmet.starts_with("nvmet") => nvmet = key.span(),
            _ => {}
        }
        let field = Field {
            source,
            block: format!("array.{shown}"),
            key: key.get_ref(),
            value,
        };
        field.read_into(&mut array, key.span(), places)?;
    }
    if array.uuid.is_empty() {
        let sentence = format!(
            "array.{shown} has no uuid; add the line uuid = \"...\" with the UUID of its container, which \
             `fullstripe examine` shows"
        );
        return Err(source.error(name.span(), sentence));
    }
    check_clients(&array)
        .map_err(|wrong| source.error(addresses, format!("array.{shown}.{wrong}")))?;
    check_hosts(&array).map_err(|wrong| source.error(nvmet, format!("array.{shown}.{wrong}")))?;
    Ok(array)
}

/// Checks that it is said which hosts may connect by NVMe over TCP, and that there is something to export.
fn check_hosts(array: &ArraySettings) -> Result<(), &'static str> {
    let names_hosts = !array.nvmet_hosts.is_empty();
    match (array.nvmet.is_some(), array.nvmet_insecure) {
        (_, true) if names_hosts => {
            Err("nvmet_hosts and nvmet_insecure = true contradict each other; keep one of the two")
        }
        (true, false) if !names_hosts => Err(
            "nvmet is an address through which whoever can connect could read and write everything; add nvmet_hosts = [\"NQN\"] with the \
             hosts that may, or nvmet_insecure = true",
        ),
        (true, _) if matches!(array.attach, Attach::Off | Attach::Nbd) => Err(
            "nvmet exports block devices of ublk, and \"attach\" makes none of these; leave one of the two out, or give attach = \"ublk\"",
        ),
        (false, insecure) if insecure || names_hosts => Err(
            "nvmet is not given, so no host can connect; add nvmet = \"tcp://IP\", or leave the other out",
        ),
        _ => Ok(()),
    }
}

/// Checks that it is said who may connect to TCP addresses.
fn check_clients(array: &ArraySettings) -> Result<(), &'static str> {
    let has_tcp = array
        .nbd
        .iter()
        .any(|address| matches!(address, Address::Tcp(_)));
    match TcpClients::chosen(array.tls.clone(), array.insecure) {
        TcpClients::WithTls(_) if array.insecure => {
            Err("tls and insecure = true contradict each other; keep one of the two")
        }
        TcpClients::Nobody if has_tcp => Err(
            "nbd has a TCP address, through which whoever can connect could read and write everything; add tls = \"FOLDER\", \
             so that clients need a certificate, or insecure = true",
        ),
        _ => Ok(()),
    }
}

/// A key of a block with its value.
pub(crate) struct Field<'a> {
    source: &'a Source<'a>,
    /// The block as its heading names it: `array.NAME` or `alerts`.
    block: String,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl Field<'_> {
    fn read_into(
        &self,
        array: &mut ArraySettings,
        key_span: Range<usize>,
        places: &mut Places,
    ) -> Result<()> {
        match self.key {
            "uuid" => array.uuid = self.uuid(places)?,
            "attach" => array.attach = self.attach()?,
            "nbd" => array.nbd = self.addresses(places)?,
            "tls" => array.tls = Some(self.absolute_path()?),
            // "listen" is the name that this key had before there was TLS.
            "insecure" | "listen" => array.insecure = self.truth()?,
            "vhost_user" => array.vhost_user = Some(self.absolute_path()?),
            "nvmet" => array.nvmet = Some(self.parsed(self.text()?, self.value.span())?),
            "nvmet_hosts" => array.nvmet_hosts = self.hosts()?,
            "nvmet_insecure" => array.nvmet_insecure = self.truth()?,
            "spares" => array.spares = self.spares()?,
            "shards" => {
                let count = self.number(&SHARDS)?;
                array.shards = u8::try_from(count).expect("the range ends below 256");
            }
            "memory" => array.memory_bytes = self.size()?,
            "completion" => array.completion = self.parsed(self.text()?, self.value.span())?,
            "rate" => array.rate_bytes_per_s = Some(self.rate()?),
            "scrub_every" => array.scrub_every = Some(self.scrub_period()?),
            "deadline_s" => array.deadline_s = self.number(&DEADLINE_S)?,
            "auto_rebuild" => array.auto_rebuild = self.truth()?,
            "same_bay" => array.same_bay = self.same_bay()?,
            "on_event" => array.on_event = Some(self.command()?),
            "degraded_after_s" => array.degraded_after_s = self.number(&DEGRADED_AFTER_S)?,
            unknown => return Err(self.source.error(key_span, self.unknown(unknown, &KEYS))),
        }
        Ok(())
    }

    pub(crate) fn unknown(&self, key: &str, keys: &[&'static str]) -> String {
        let meant = match mistyped(key, keys.iter().copied()) {
            Some(meant) => format!("did you mean \"{meant}\"? The keys are"),
            None => "the keys are".to_owned(),
        };
        format!(
            "{} has no key \"{}\"; {meant} {}",
            self.block,
            shortened_name(key),
            words::and(keys)
        )
    }

    /// The error that says that the value cannot be what it is.
    pub(crate) fn bad(&self, span: Range<usize>, instead: impl Display) -> anyhow::Error {
        let written = self.source.text.get(span.clone()).unwrap_or_default();
        let (block, key) = (&self.block, self.key);
        let sentence = format!("{block}.{key} cannot be {}; {instead}", shortened(written));
        self.source.error(span, sentence)
    }

    pub(crate) fn refused(&self, instead: impl Display) -> anyhow::Error {
        self.bad(self.value.span(), instead)
    }

    pub(crate) fn text(&self) -> Result<&str> {
        let text = self.value.get_ref().as_str();
        text.ok_or_else(|| self.refused("give a text in quotation marks"))
    }

    fn truth(&self) -> Result<bool> {
        let truth = self.value.get_ref().as_bool();
        truth.ok_or_else(|| self.refused("give true or false, without quotation marks"))
    }

    pub(crate) fn number(&self, range: &RangeInclusive<u64>) -> Result<u64> {
        let whole = self.value.get_ref().as_integer();
        let number = whole
            .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
            .filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (first, last) = (range.start(), range.end());
            self.refused(format!("give a whole number from {first} to {last}"))
        })
    }

    fn size(&self) -> Result<u64> {
        parse_size(self.text()?).ok_or_else(|| self.refused("give a size like \"64m\""))
    }

    fn rate(&self) -> Result<u64> {
        match self.text()? {
            "0" => Ok(0),
            text => parse_size(text).ok_or_else(|| {
                self.refused("give bytes per second like \"200m\", or \"0\" for no limit")
            }),
        }
    }

    fn scrub_period(&self) -> Result<ScrubPeriod> {
        match self.text()? {
            "off" => Ok(ScrubPeriod::Off),
            text => words::parse_duration(text)
                .filter(|seconds| *seconds <= SCRUB_EVERY_MAX_S)
                .map(ScrubPeriod::Seconds)
                .ok_or_else(|| self.refused("give a period like \"30d\" or \"36h\", or \"off\"")),
        }
    }

    /// Parses `text`, which is written at `span`.
    fn parsed<T: std::str::FromStr>(&self, text: &str, span: Range<usize>) -> Result<T>
    where
        T::Err: Display,
    {
        text.parse().map_err(|error: T::Err| self.bad(span, error))
    }

    fn attach(&self) -> Result<Attach> {
        let text = self.text()?;
        let found = Attach::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| self.refused("give \"auto\", \"ublk\", \"nbd\" or \"off\""))
    }

    fn same_bay(&self) -> Result<SameBay> {
        let text = self.text()?;
        let found = SameBay::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| self.refused("give \"ask\" or \"adopt\""))
    }

    /// In order, and each once.
    fn hosts(&self) -> Result<Vec<String>> {
        let instead = "give NQNs of hosts like [\"nqn.2014-08.org.nvmexpress:uuid:...\"]";
        let mut hosts = Vec::new();
        for (text, span) in self.texts(instead)? {
            check_host(text).map_err(|wrong| self.bad(span, wrong))?;
            hosts.push(text.to_owned());
        }
        hosts.sort();
        hosts.dedup();
        Ok(hosts)
    }

    pub(crate) fn command(&self) -> Result<String> {
        let text = self.text()?;
        if text.trim().is_empty() || text.contains('\0') {
            return Err(self.refused("give a command for sh -c, or leave the key out"));
        }
        Ok(text.to_owned())
    }

    fn uuid(&self, places: &mut Places) -> Result<String> {
        let uuid = self.text()?.to_ascii_lowercase();
        let is_word = |word: &str| word.len() == 8 && word.bytes().all(|c| c.is_ascii_hexdigit());
        if uuid.split(':').count() != 4 || !uuid.split(':').all(is_word) {
            return Err(self.refused(
                "give the UUID of the container as `fullstripe examine` shows it: four words of eight hexadecimal \
                 digits, joined by ':'",
            ));
        }
        if let Some(other) = places.uuids.insert(uuid.clone(), self.block.clone()) {
            let sentence = format!(
                "{} and {other} have the same uuid {uuid}; keep one of the two blocks",
                self.block
            );
            return Err(self.source.error(self.value.span(), sentence));
        }
        Ok(uuid)
    }

    fn addresses(&self, places: &mut Places) -> Result<Vec<Address>> {
        let mut addresses = Vec::new();
        for (text, span) in self.texts("give addresses like [\"unix:/run/fast.sock\"]")? {
            let address: Address = self.parsed(text, span.clone())?;
            let written = address.to_string();
            if let Some(other) = places.addresses.insert(written.clone(), self.block.clone()) {
                let who = match other == self.block {
                    true => format!("{other} has the address {written} twice"),
                    false => format!("{} and {other} have the same address {written}", self.block),
                };
                let sentence = format!("{who}; give each address in \"nbd\" once");
                return Err(self.source.error(span, sentence));
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    fn spares(&self) -> Result<Vec<String>> {
        let mut spares = Vec::new();
        for (text, span) in self.texts("give drives like [\"/dev/nvme4n1\"]")? {
            self.parsed::<MemberSpec>(text, span)?;
            spares.push(text.to_owned());
        }
        Ok(spares)
    }

    /// The texts of a list, each with its place.
    pub(crate) fn texts(&self, instead: &str) -> Result<Vec<(&str, Range<usize>)>> {
        let list = self.value.get_ref().as_array();
        let items = list.ok_or_else(|| self.refused(format!("it is a list: {instead}")))?;
        let texts = items.iter().map(|item| {
            let text = item.get_ref().as_str();
            text.map(|text| (text, item.span()))
                .ok_or_else(|| self.bad(item.span(), instead))
        });
        texts.collect()
    }
}

/// The text on one line: what cannot be seen is written as TOML would have it.
fn visible(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line += &format!("\\u{:04x}", u32::from(c)),
            false => line.push(c),
        }
    }
    line
}

/// The text on one line, cut to the length that a sentence may have.
pub fn shortened(text: &str) -> String {
    shortened_name(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A name as it is, cut to that length: blanks count, and what cannot be seen is made visible.
pub fn shortened_name(name: &str) -> String {
    let mut line = visible(name);
    if let Some((cut, _)) = line.char_indices().nth(QUOTED_MAX) {
        line.truncate(cut);
        line.push_str(" ...");
    }
    line
}

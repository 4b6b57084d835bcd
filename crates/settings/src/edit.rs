//! Adds a block to the text of the settings file and removes one, and keeps every other byte: comments, order and
//! spacing are the operator's.
//!
//! After each change the new text is read again and compared with what was intended. So a form of TOML that is not
//! foreseen here, such as an inline table, leads to a refusal and not to a damaged file.

use crate::show::key_as_toml;
use crate::{ArraySettings, Settings};
use anyhow::{Result, bail};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// `text`, the content of the file called `shown_name`, with a block for the array `name` at its end.
///
/// # Errors
/// The file has a mistake, has an array with this name or UUID already, or has a form to which no block can be added.
pub fn with_array(text: &str, shown_name: &str, name: &str, uuid: &str) -> Result<String> {
    let mut wanted = Settings::parse(text, shown_name)?;
    crate::check_name(name).map_err(anyhow::Error::msg)?;
    if let Some(found) = wanted.arrays.get(name) {
        bail!(
            "{shown_name} has an array \"{name}\" already, the container {}; give another name, or remove that block \
             with `fullstripe release {name} --to md`",
            found.uuid
        );
    }
    if let Some(other) = wanted.name_of(uuid) {
        bail!(
            "{shown_name} has the container {uuid} already, as array \"{other}\"; nothing is to be done, or change \
             that block by hand"
        );
    }
    let mut new = text.to_owned();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    if !new.is_empty() {
        new.push('\n');
    }
    new += &format!("[array.{}]\nuuid = \"{uuid}\"\n", key_as_toml(name));
    let array = ArraySettings::with_defaults(uuid.to_ascii_lowercase());
    wanted.arrays.insert(name.to_owned(), array);
    match Settings::parse(&new, shown_name) {
        Ok(found) if found == wanted => Ok(new),
        _ => bail!(
            "no block [array.{name}] can be added at the end of {shown_name}, because \"array\" is written there as a \
             value; write each array as a block [array.NAME] first"
        ),
    }
}

/// `text`, the content of the file called `shown_name`, without the block of the array `name`. A blank line before the
/// block goes with it, and so does a comment that follows its last key directly and belongs to no other block.
///
/// # Errors
/// The file has a mistake, has no array with this name, or does not have it as a block `[array.NAME]`.
pub fn without_array(text: &str, shown_name: &str, name: &str) -> Result<String> {
    let mut wanted = Settings::parse(text, shown_name)?;
    wanted.array(name)?;
    wanted.arrays.remove(name);
    let cut =
        block(text, name).map(|block| format!("{}{}", &text[..block.start], &text[block.end..]));
    if let Some(new) = cut
        && Settings::parse(&new, shown_name).is_ok_and(|found| found == wanted)
    {
        return Ok(new);
    }
    bail!(
        "array.{name} is not written as one block [array.{name}] in {shown_name}, so it cannot be removed without \
         changing others; remove it by hand"
    );
}

/// The bytes of the block `[array.NAME]`, in whole lines.
fn block(text: &str, name: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let arrays = root.get_ref().get("array")?.get_ref().as_table()?;
    let (key, value) = arrays.iter().find(|(key, _)| key.get_ref() == name)?;
    let start = line_start(text, key.span().start);
    if !text[start..].trim_start().starts_with('[') {
        return None;
    }
    let header_end = line_end(text, key.span().end);
    let end = line_end(text, last_byte(value.get_ref()).max(header_end - 1));
    Some(with_surroundings(text, start..end))
}

/// The end of the last value in the table.
fn last_byte(value: &DeValue<'_>) -> usize {
    let entries = value.as_table().into_iter().flatten();
    let ends = entries.map(|(_, value)| value.span().end);
    ends.max().unwrap_or_default()
}

fn with_surroundings(text: &str, block: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = block;
    let mut comment_end = end;
    while text[comment_end..]
        .trim_start_matches([' ', '\t'])
        .starts_with('#')
    {
        comment_end = line_end(text, comment_end);
    }
    // A comment directly above the next block belongs to that block.
    if is_blank_line(&text[comment_end..]) || comment_end == text.len() {
        end = comment_end;
    }
    let before = line_start(text, start.saturating_sub(1));
    if start > 0 && is_blank_line(&text[before..start]) {
        start = before;
    } else if start == 0 && is_blank_line(&text[end..]) {
        end = line_end(text, end);
    }
    start..end
}

fn is_blank_line(text: &str) -> bool {
    let line = text.split_inclusive('\n').next().unwrap_or_default();
    line.ends_with('\n') && line.trim().is_empty()
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The byte after the end of the line in which `at` is.
fn line_end(text: &str, at: usize) -> usize {
    let newline = text[at..].find('\n');
    newline.map_or(text.len(), |newline| at + newline + 1)
}

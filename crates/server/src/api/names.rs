//! The names that people use for drives and volumes, and what each name refers to.
//!
//! A drive can be named by its name when the array was started or the drive added, by its serial, by the last part
//! of its path, or by its place: `VOLUME:SLOT`. All of these survive a restart. A drive's number does not: it is the
//! drive's index in this process's list, meant for programs, which read it from the status just before they use it
//! ([`member`]). A person who types a number may just as well mean a slot, so a number from a person is refused with
//! the list of what it could mean ([`drive`]). Removed drives have no name any more, because the same drive may have
//! come back under a new number. A failed drive is closed, so the kernel may give its path to another drive. If that
//! one is added, the path means two drives, and the user is asked for the serial.

use crate::status::{MemberStatus, SlotStatus, Status, VolumeStatus};
use std::path::Path;

/// Why a name does not identify anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing has this name.
    Unknown(String),
    /// More than one thing could be meant.
    Ambiguous(String),
}

/// The drive that a program means by `name`: a number, or what people call it.
///
/// # Errors
/// No drive or more than one has this name; the sentence lists the drives there are.
pub fn member<'a>(status: &'a Status, name: &str) -> Result<&'a MemberStatus, NameError> {
    if let Ok(number) = name.parse::<u8>()
        && let Some(member) = present(status).find(|member| member.id == number)
    {
        return Ok(member);
    }
    named(status, name)
}

/// The drive that a person at a terminal means by `name`.
///
/// # Errors
/// No drive or more than one has this name, or `name` is a bare number: it could be that of a slot or a drive, and
/// the two differ after a drive has been replaced. The sentence says what to type.
pub fn drive<'a>(status: &'a Status, name: &str) -> Result<&'a MemberStatus, NameError> {
    match name.parse::<u8>() {
        Ok(number) => Err(NameError::Ambiguous(meanings_of_number(status, number))),
        Err(_) => named(status, name),
    }
}

fn present(status: &Status) -> impl Iterator<Item = &MemberStatus> {
    let members = status.members.iter();
    members.filter(|member| member.state != "removed")
}

fn named<'a>(status: &'a Status, name: &str) -> Result<&'a MemberStatus, NameError> {
    let in_slot = in_slot(status, name)?;
    // All possible meanings are considered: a drive's name may look like the place of another drive.
    let is_named = |member: &&MemberStatus| {
        let is_in_slot = in_slot.is_some_and(|in_slot| in_slot.id == member.id);
        member.name == name || member.serial == name || is_in_slot
    };
    let is_last_part = |member: &&MemberStatus| last_part(&member.name) == name;
    let mut found: Vec<&MemberStatus> = present(status).filter(is_named).collect();
    if found.is_empty() {
        found = present(status).filter(is_last_part).collect();
    }
    match found[..] {
        [] => {}
        [member] => return Ok(member),
        _ => {
            return Err(NameError::Ambiguous(format!(
                "\"{name}\" may mean {}; give the whole path, the serial, or VOLUME:SLOT",
                list(status, found.into_iter())
            )));
        }
    }
    if status.volumes.iter().any(|volume| volume.name == name) {
        return Err(NameError::Ambiguous(format!(
            "\"{name}\" is a volume; name one of its drives: {}",
            list(status, present(status))
        )));
    }
    Err(NameError::Unknown(format!(
        "there is no drive \"{name}\" in this array; there are {}",
        list(status, present(status))
    )))
}

/// The drive in the slot that `name` gives, if `name` has the form `VOLUME:SLOT`.
fn in_slot<'a>(status: &'a Status, name: &str) -> Result<Option<&'a MemberStatus>, NameError> {
    let place = name.rsplit_once(':').and_then(|(volume, slot)| {
        let volume = status.volumes.iter().find(|one| one.name == volume)?;
        Some((volume, slot.parse::<usize>().ok()?))
    });
    let Some((volume, at)) = place else {
        return Ok(None);
    };
    let Some(slot) = volume.slots.get(at) else {
        let last = volume.slots.len() - 1;
        return Err(NameError::Unknown(format!(
            "volume {} has no slot {at}; it has 0 to {last}",
            volume.name
        )));
    };
    let drive = present(status).find(|member| Some(member.id) == slot.member);
    drive.map(Some).ok_or_else(|| {
        NameError::Unknown(format!(
            "no drive is in slot {at} of volume {}",
            volume.name
        ))
    })
}

/// The slots that a drive fills: at most one of each volume.
pub fn slots_of<'a>(
    status: &'a Status,
    member: &MemberStatus,
) -> impl Iterator<Item = (&'a VolumeStatus, u8, &'a SlotStatus)> {
    let id = member.id;
    status.volumes.iter().filter_map(move |volume| {
        let mut slots = (0u8..).zip(&volume.slots);
        let (at, slot) = slots.find(|(_, slot)| slot.member == Some(id))?;
        Some((volume, at, slot))
    })
}

/// The specification of a joining drive, with the path by which the drive is called from then on.
///
/// The rule for paths: a drive is called by the path that the user gave, everywhere and unchanged. Commands that
/// examine drives open them by that path, and so does `serve`. A client may run in another folder than `serve`, so it
/// sends the absolute path of a drive that joins. If drives of the array were given relative to `folder`, the working
/// folder of `serve`, and the new path lies below it, the path is made relative too, so that all drives of an array
/// are called in the same way.
#[must_use]
pub fn as_called_here(spec: &str, status: &Status, folder: &Path) -> String {
    let is_given_from_here = |member: &MemberStatus| {
        Path::new(&member.name).is_relative() && folder.join(&member.name).exists()
    };
    let (path, options) = spec.split_at(spec.find(',').unwrap_or(spec.len()));
    let below = Path::new(path).strip_prefix(folder).ok();
    match below
        .and_then(Path::to_str)
        .filter(|below| !below.is_empty())
    {
        Some(below) if present(status).any(is_given_from_here) => format!("{below}{options}"),
        _ => spec.to_owned(),
    }
}

/// The places of a drive, as `VOLUME:SLOT`, in all volumes.
#[must_use]
pub fn places(status: &Status, member: &MemberStatus) -> Vec<String> {
    let slots = slots_of(status, member);
    slots
        .map(|(volume, at, _)| format!("{}:{at}", volume.name))
        .collect()
}

/// A sentence with everything that a bare number may mean.
fn meanings_of_number(status: &Status, number: u8) -> String {
    let in_slots = status.volumes.iter().filter_map(|volume| {
        let slot = volume.slots.get(usize::from(number))?;
        let drive = present(status).find(|member| Some(member.id) == slot.member);
        let name = drive.map_or("no drive", |drive| &drive.name);
        Some(format!("slot {number} of {} ({name})", volume.name))
    });
    let numbered = present(status).find(|member| member.id == number);
    let numbered =
        numbered.map(|member| format!("drive number {number} of the API ({})", member.name));
    let meanings: Vec<String> = in_slots.chain(numbered).collect();
    let meanings = match meanings.is_empty() {
        true => "nothing in this array".to_owned(),
        false => meanings.join(", or "),
    };
    format!("{number} may mean {meanings}; name the drive by its path or serial, or as VOLUME:SLOT")
}

/// The number and the status of the volume called `name`.
///
/// # Errors
/// No volume has this name; the sentence lists the volumes there are.
pub fn volume<'a>(status: &'a Status, name: &str) -> Result<(u8, &'a VolumeStatus), NameError> {
    let found = (0u8..)
        .zip(&status.volumes)
        .find(|(_, volume)| volume.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = status
            .volumes
            .iter()
            .map(|volume| volume.name.as_str())
            .collect();
        NameError::Unknown(format!(
            "there is no volume \"{name}\" in this array; there is {}",
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        ))
    })
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn list<'a>(status: &Status, members: impl Iterator<Item = &'a MemberStatus>) -> String {
    let members: Vec<&MemberStatus> = members.collect();
    let is_shared = |name: &str| members.iter().filter(|one| one.name == name).count() > 1;
    let each: Vec<String> = members
        .iter()
        .map(|member| {
            let place = match places(status, member)[..] {
                [] => member.state.clone(),
                ref places => places.join(", "),
            };
            let MemberStatus { name, serial, .. } = member;
            match is_shared(name) {
                true => format!("{name} with the serial {serial} ({place})"),
                false => format!("{name} ({place})"),
            }
        })
        .collect();
    if each.is_empty() {
        "none".to_owned()
    } else {
        each.join(", ")
    }
}

#[cfg(test)]
mod tests;

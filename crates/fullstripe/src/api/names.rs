//! What people call drives and volumes, and which one they mean.
//!
//! A drive is named by its number, by what it was called when the array was started or it was
//! added, by the last part of that path, or by its serial. Numbers come first. Removed drives have
//! no name any more, because the same drive may have come back under a new number.

use crate::serve::status::{MemberStatus, Status, VolumeStatus};

/// Why a name stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing has it.
    Unknown(String),
    /// More than one has it.
    Ambiguous(String),
}

/// The drive that `name` stands for.
///
/// # Errors
/// None or more than one; the sentence lists what there is.
pub fn member<'a>(status: &'a Status, name: &str) -> Result<&'a MemberStatus, NameError> {
    let present = || {
        status
            .members
            .iter()
            .filter(|member| member.state != "removed")
    };
    if let Ok(number) = name.parse::<u8>()
        && let Some(member) = present().find(|member| member.id == number)
    {
        return Ok(member);
    }
    let ways: [fn(&MemberStatus) -> &str; 3] = [
        |member| &member.name,
        |member| &member.serial,
        |member| last_part(&member.name),
    ];
    for way in ways {
        let found: Vec<&MemberStatus> = present().filter(|member| way(member) == name).collect();
        match found[..] {
            [] => {}
            [member] => return Ok(member),
            _ => {
                return Err(NameError::Ambiguous(format!(
                    "{name:?} may mean {}; give the number",
                    list(found.into_iter())
                )));
            }
        }
    }
    Err(NameError::Unknown(format!(
        "there is no drive {name:?} in this array; there are {}",
        list(present())
    )))
}

/// The number and the description of the volume that `name` stands for.
///
/// # Errors
/// There is none; the sentence lists what there is.
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
            "there is no volume {name:?} in this array; there is {}",
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

fn list<'a>(members: impl Iterator<Item = &'a MemberStatus>) -> String {
    let each: Vec<String> = members
        .map(|member| format!("{} ({})", member.id, member.name))
        .collect();
    if each.is_empty() {
        "none".to_owned()
    } else {
        each.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(drives: &[(&str, &str, &str)]) -> Status {
        let member = |(id, (name, serial, state)): (u8, &(&str, &str, &str))| MemberStatus {
            id,
            name: (*name).to_owned(),
            serial: (*serial).to_owned(),
            size_bytes: 0,
            state: (*state).to_owned(),
            io_path: "ring".to_owned(),
            deleted: false,
            bad_blocks: Vec::new(),
            bad_block_bytes: 0,
        };
        Status {
            members: (0..).zip(drives).map(member).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn a_drive_goes_by_number_name_serial_and_file_name() {
        let status = status(&[
            ("/dev/nvme0n1", "S0", "active"),
            ("/dev/nvme1n1", "S1", "removed"),
            ("/dev/nvme1n1", "S1", "spare"),
            ("/dev/0", "S3", "failed"),
        ]);
        let id = |name| member(&status, name).map(|member| member.id);
        assert_eq!(id("0"), Ok(0));
        assert_eq!(id("/dev/0"), Ok(3));
        assert_eq!(id("S3"), Ok(3));
        for name in ["2", "/dev/nvme1n1", "S1", "nvme1n1"] {
            assert_eq!(id(name), Ok(2), "{name}");
        }
        let unknown = "there is no drive \"1\" in this array; there are 0 (/dev/nvme0n1), \
                       2 (/dev/nvme1n1), 3 (/dev/0)";
        assert_eq!(id("1"), Err(NameError::Unknown(unknown.to_owned())));
    }

    #[test]
    fn a_file_name_that_two_drives_share_is_asked_back() {
        let status = status(&[("/a/d.img", "A", "active"), ("/b/d.img", "B", "active")]);
        let asked = "\"d.img\" may mean 0 (/a/d.img), 1 (/b/d.img); give the number";
        assert_eq!(
            member(&status, "d.img").map(|member| member.id),
            Err(NameError::Ambiguous(asked.to_owned()))
        );
        assert_eq!(member(&status, "/b/d.img").unwrap().id, 1);
    }
}

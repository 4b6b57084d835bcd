//! The drives are not those of one array: why nothing can be started, and what to do.

use crate::member::{FoundShadow, Member};
use metadata::imsm::Mpb;

/// A sentence for drives without any whole record: why there is nothing to start, and what to do.
#[must_use]
pub fn no_array(drives: &[impl Member]) -> String {
    let named = names(drives.iter().map(Member::name));
    if drives.iter().any(|drive| drive.found().is_err()) {
        return format!(
            "no drive of {named} has a readable record; `fullstripe metadata restore` puts back a copy"
        );
    }
    let remains = drives
        .iter()
        .find_map(|drive| Some((drive.name(), drive.shadow().remains()?)));
    match remains {
        None => format!("no array on {named}; `fullstripe create` makes one"),
        Some((drive, what)) => format!(
            "no record of an array on {named}, but {drive} holds {what}; `fullstripe metadata restore` puts back \
             a saved copy of the record"
        ),
    }
}

/// A sentence for drives of several arrays: which arrays they belong to, and what to do.
#[must_use]
pub fn several_arrays(drives: &[impl Member]) -> String {
    let mut arrays: Vec<(&Mpb, Vec<&str>)> = Vec::new();
    for (drive, mpb) in drives
        .iter()
        .filter_map(|drive| Some((drive, record_of(drive)?)))
    {
        let is_same = |other: &Mpb| other.container_family() == mpb.container_family();
        match arrays.iter_mut().find(|(other, _)| is_same(other)) {
            Some((_, its)) => its.push(drive.name()),
            None => arrays.push((mpb, vec![drive.name()])),
        }
    }
    let arrays = arrays.iter().map(|(mpb, its)| {
        let volumes = names(mpb.volumes.iter().map(|volume| volume.name));
        format!("{volumes} on {}", names(its.iter()))
    });
    let arrays: Vec<String> = arrays.collect();
    format!(
        "drives of different arrays: {}; name those of one",
        arrays.join("; ")
    )
}

/// The record by which a drive belongs to an array: its own or, if that is torn, its shadow copy.
fn record_of(drive: &impl Member) -> Option<&Mpb> {
    match (drive.found(), drive.shadow()) {
        (Ok(Some(found)), _) => Some(&found.mpb).filter(|mpb| !mpb.is_spare()),
        (Err(_), FoundShadow::Whole(shadow)) => Some(&shadow.mpb),
        _ => None,
    }
}

fn names<T: ToString>(all: impl Iterator<Item = T>) -> String {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    all.join(", ")
}

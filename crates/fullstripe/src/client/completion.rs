//! Completions that the shell offers for the arguments of orders: the drives of the array that is being served.
//!
//! The shell asks while the user types, so this must not wait: without a running array there is nothing to offer, and
//! that is no error.

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use server::api::names::places;
use server::client::Client;
use server::status::Status;
use std::ffi::OsStr;

/// The drives whose name or place (VOLUME:SLOT) begins with `typed`.
pub fn drives(typed: &OsStr) -> Vec<CompletionCandidate> {
    let status = Client::connect(None).and_then(|client| client.get::<Status>("/v1/status"));
    status.map_or(Vec::new(), |status| offered(&status, typed))
}

/// The same drives, and files.
pub fn drives_and_files(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = drives(typed);
    all.extend(PathCompleter::any().complete(typed));
    all
}

fn offered(status: &Status, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let present = status.members.iter().filter(|one| one.state != "removed");
    let mut all = Vec::new();
    for member in present {
        let places = places(status, member);
        // A drive that is named by its serial number is offered once.
        let serial = Some(&member.serial).filter(|serial| **serial != member.name);
        let names = std::iter::once(&member.name).chain(serial);
        for name in names.chain(&places).cloned() {
            if name.starts_with(&*typed) {
                let help = format!("{} {}", places.join(" "), member.state);
                all.push(CompletionCandidate::new(name).help(Some(help.trim().to_owned().into())));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::testing::samples::{member, slot, volume};

    #[test]
    fn drives_are_offered_by_path_serial_and_place_and_removed_ones_are_not() {
        let slots = vec![slot(Some(0), "in sync"), slot(Some(1), "in sync")];
        let status = Status {
            members: vec![
                member(0, "active"),
                member(1, "failed"),
                member(2, "removed"),
            ],
            volumes: vec![volume("data", slots)],
            ..Status::default()
        };
        let all = |typed: &str| -> Vec<String> {
            let offered = offered(&status, OsStr::new(typed)).into_iter();
            offered
                .map(|one| one.get_value().to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(all("/dev/"), ["/dev/nvme0n1", "/dev/nvme1n1"]);
        assert_eq!(all("data:"), ["data:0", "data:1"]);
        assert_eq!(all("SERIAL1"), ["SERIAL1"]);
        assert_eq!(all("").len(), 6);
    }
}

//! Releases drives that have left the array.
//!
//! A removed drive leaves by an order. A replaced drive leaves when its copy is complete, and no client waits for
//! that. So this task releases every drive that was a member and is no longer one; the drive can then be
//! unplugged or used for something else.

use crate::runtime::Shared;
use crate::status::Status;
use engine::units::MemberId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Checks the status periodically, for as long as the server runs.
pub async fn run(shared: Arc<Shared>) {
    let mut known = BTreeSet::new();
    loop {
        for member in departed(&mut known, &shared.status()) {
            shared.detach(member);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Drives of `known` that have left the array; they are removed from `known`. A drive that is just
/// being added is not in `known` yet.
fn departed(known: &mut BTreeSet<u8>, status: &Status) -> Vec<MemberId> {
    let mut gone = Vec::new();
    for member in &status.members {
        if member.state != "removed" {
            known.insert(member.id);
        } else if known.remove(&member.id) {
            gone.push(MemberId(member.id));
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::member;

    fn status(states: &[&str]) -> Status {
        let member = |(id, state): (u8, &&str)| member(id, state);
        Status {
            members: (0..).zip(states).map(member).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn a_drive_departs_once_and_not_before_it_has_arrived() {
        let mut known = BTreeSet::new();
        let mut look = |states: &[&str]| departed(&mut known, &status(states));
        assert_eq!(look(&["active", "failed", "removed"]), []);
        assert_eq!(look(&["removed", "failed", "spare"]), [MemberId(0)]);
        assert_eq!(look(&["removed", "removed", "spare"]), [MemberId(1)]);
        assert_eq!(look(&["removed", "removed", "removed"]), [MemberId(2)]);
        assert_eq!(look(&["removed", "removed", "removed"]), []);
    }
}

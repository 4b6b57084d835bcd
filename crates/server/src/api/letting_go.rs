//! Lets go of drives that the array does not use any more.
//!
//! A drive leaves the array in three ways: it is removed by an order, it is replaced and its copy is complete, or it
//! fails. No client waits for the last two, so this task looks at the status and lets go of every such drive. Each data
//! thread then gives up its slot in the ring's table of files as soon as none of its commands to the drive is under
//! way, and each other thread that uses the drive gives it up when its call returns. The last of them closes the
//! descriptor. A drive that hangs keeps its descriptor until the kernel has answered its last command, because the
//! kernel may still write to it.
//!
//! The kernel forgets a drive that was pulled out only when its descriptor is closed. After that, a drive that is
//! plugged into the same place gets the same node name, and the drive that was pulled out can be opened again.
//!
//! Nothing needs the descriptor of a failed drive. The array does not use the drive again until it is removed and
//! added anew, and `add-spare` opens it by its path. If a volume has failed with the drive, `stop` and the next `serve`
//! open it anew as well.

use crate::runtime::Shared;
use crate::status::Status;
use engine::units::MemberId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Checks the status periodically, for as long as the server runs.
pub async fn run(shared: Arc<Shared>) {
    let mut departures = Departures::default();
    loop {
        for member in departures.departed(&shared.status()) {
            shared.detach(member);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Which drives the array has used, and which of them it does not use any more. The array never uses a number again.
#[derive(Debug, Default)]
struct Departures {
    arrived: BTreeSet<u8>,
    departed: BTreeSet<u8>,
}

impl Departures {
    /// Drives that the array does not use any more, each of them once. A drive that is just being added is `removed` at
    /// first, and must be kept.
    fn departed(&mut self, status: &Status) -> Vec<MemberId> {
        let mut gone = Vec::new();
        for member in &status.members {
            let has_left = match member.state.as_str() {
                "failed" => true,
                "removed" => self.arrived.contains(&member.id),
                _ => {
                    self.arrived.insert(member.id);
                    false
                }
            };
            if has_left && self.departed.insert(member.id) {
                gone.push(MemberId(member.id));
            }
        }
        gone
    }
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
        let mut departures = Departures::default();
        let mut look = |states: &[&str]| departures.departed(&status(states));
        assert_eq!(look(&["active", "active", "removed"]), []);
        assert_eq!(look(&["removed", "active", "spare"]), [MemberId(0)]);
        assert_eq!(look(&["removed", "removed", "spare"]), [MemberId(1)]);
        assert_eq!(look(&["removed", "removed", "removed"]), [MemberId(2)]);
        assert_eq!(look(&["removed", "removed", "removed"]), []);
    }

    #[test]
    fn a_drive_departs_when_it_fails_and_not_again_when_it_is_removed() {
        let mut departures = Departures::default();
        let mut look = |states: &[&str]| departures.departed(&status(states));
        assert_eq!(
            look(&["active", "failed", "active"]),
            [MemberId(1)],
            "a drive that has failed before the start departs as well"
        );
        assert_eq!(look(&["failed", "failed", "active"]), [MemberId(0)]);
        assert_eq!(look(&["failed", "removed", "active"]), []);
    }
}

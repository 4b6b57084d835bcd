//! The result of stopping an array.

use anyhow::{Result, bail};
use engine::units::{MemberId, MemberSet};
use exports::inherited::Named;

/// The result of stopping an array.
#[derive(Debug, Default)]
pub struct Ended {
    /// Commands that drives have not answered.
    pub left: LeftBehind,
    /// Names of the volumes that had failed.
    pub failed: Vec<String>,
    /// Sockets for the next process; only after [`Server::hand_over`](crate::Server::hand_over).
    pub handed_over: Vec<Named>,
}

impl Ended {
    /// Returns an error if not every volume could be stopped in order, so that whoever waits for the process notices.
    ///
    /// # Errors
    /// One sentence that names the volumes that had failed.
    pub fn check(&self) -> Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let volumes = match self.failed.len() {
            1 => "volume",
            _ => "volumes",
        };
        bail!(
            "the array is stopped, but {volumes} {} had failed and could not be flushed; bring the lost drives \
             back and serve again",
            self.failed.join(", ")
        )
    }
}

/// Commands that drives had not answered when the data threads ended.
#[derive(Debug, Default)]
pub struct LeftBehind {
    commands: usize,
    members: MemberSet,
    names: Vec<String>,
}

impl LeftBehind {
    /// Adds the commands that one data thread has left.
    pub(super) fn add(&mut self, (commands, members): (usize, MemberSet)) {
        self.commands += commands;
        self.members.0 |= members.0;
    }

    /// Looks up the names of the drives.
    pub(super) fn name(&mut self, name_of: impl Fn(MemberId) -> Option<String>) {
        self.names = self.members.iter().filter_map(name_of).collect();
    }

    /// One sentence, if there is anything to say.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        (self.commands > 0).then(|| {
            format!(
                "{} commands are still with {}; no process can use a drive before the kernel has its \
                 commands back",
                self.commands,
                self.names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_had_failed_makes_the_end_an_error() {
        let mut ended = Ended::default();
        assert!(ended.check().is_ok());
        ended.failed = vec!["data".to_owned(), "log".to_owned()];
        assert_eq!(
            ended.check().unwrap_err().to_string(),
            "the array is stopped, but volumes data, log had failed and could not be flushed; bring the lost \
             drives back and serve again"
        );
    }

    #[test]
    fn drives_that_keep_commands_are_named() {
        let mut left = LeftBehind::default();
        assert_eq!(left.sentence(), None);
        left.add((0, MemberSet(0)));
        left.add((3, MemberSet(0b10)));
        left.add((4, MemberSet(0b110)));
        left.name(|member| Some(format!("d{}", member.0)));
        assert_eq!(
            left.sentence().unwrap(),
            "7 commands are still with d1, d2; no process can use a drive before the kernel has its \
             commands back"
        );
    }
}

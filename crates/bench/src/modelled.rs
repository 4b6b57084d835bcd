//! The speed of one modelled member, from its model in a closed loop in virtual time.
//!
//! A measurement would show how fast this machine's loop is. The model shows how fast the drive is, and always the same
//! for the same question. Each member has its share of the outstanding requests, and the loop lasts as long as the
//! array's measurement, so that a clean pool that shrinks while the array is written shrinks here too.

use super::config::Config;
use super::roofline::{Cost, MemberSpeed};
use drives::spec::Model;
use engine::units::Nanos;
use models::drive::{Command, Drive, Operation};
use models::profile::Profile;
use repeatable::random::Stream;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most commands: enough for a rate, and few enough to keep the user from waiting.
const COMMANDS_MAX: u64 = 1_000_000;

/// A member's drive profile and its model's state.
pub(super) struct ModelledMember {
    pub profile: Profile,
    pub model: Model,
    /// Bytes of it that the array uses.
    pub component_bytes: u64,
}

impl ModelledMember {
    /// The speed of reads alone and of writes alone, with the workload's size and order.
    pub fn speed(&self, config: &Config) -> MemberSpeed {
        MemberSpeed {
            read: self.cost(config, Operation::Read),
            write: self.cost(config, Operation::Write),
            // Both costs include the latency.
            latency: Nanos(0),
        }
    }

    /// Requests outstanding per member.
    pub fn depth(config: &Config) -> u32 {
        (config.queue_depth / u32::from(config.count)).max(1)
    }

    fn cost(&self, config: &Config, operation: Operation) -> Cost {
        let ModelledMember { profile, model, .. } = self;
        let mut drive = Drive::new(profile, model.state, profile.port, 1, 0);
        let length_bytes = u64::from(config.block_bytes);
        let blocks = (self.component_bytes / length_bytes).max(1);
        let mut places = Stream::new(1, "blocks of a modelled member", 0);
        let mut commands = 0;
        let mut submit = |now_ns| {
            let block = if config.workload.random {
                places.below(blocks)
            } else {
                commands % blocks
            };
            commands += 1;
            let command = Command {
                operation,
                offset_bytes: block * length_bytes,
                length_bytes,
            };
            Reverse(drive.submit(command, now_ns).done_ns)
        };
        let mut under_way: BinaryHeap<Reverse<u64>> = (0..ModelledMember::depth(config))
            .map(|_| submit(0))
            .collect();
        let end_ns = u64::try_from(config.time.as_nanos()).unwrap_or(u64::MAX);
        let (mut now_ns, mut done) = (0, 0);
        while now_ns < end_ns && done < COMMANDS_MAX {
            let Some(Reverse(at_ns)) = under_way.pop() else {
                break;
            };
            now_ns = at_ns;
            done += 1;
            under_way.push(submit(now_ns));
        }
        Cost::measured(length_bytes, done as f64 * 1e9 / now_ns.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Workload;
    use crate::tests::config;
    use engine::layout::Level;
    use models::drive::State;

    #[test]
    fn a_member_is_as_fast_as_its_ratings() {
        let model = Model {
            drive: "p4510-2tb".to_owned(),
            state: State::Steady,
        };
        let profile = model.profile().unwrap();
        let member = ModelledMember {
            profile,
            model,
            component_bytes: 1 << 40,
        };
        let config = Config {
            queue_depth: 2 * 512,
            workload: Workload {
                read_percent: 100,
                random: true,
            },
            ..config(Level::Raid0, "null:1t,model=p4510-2tb", 2)
        };
        let speed = member.speed(&config);
        let reads_per_s = 1.0 / speed.read.seconds(4096);
        // The specification says 637 000, but the model is fitted to reviewers' measurements.
        assert!((580e3..650e3).contains(&reads_per_s), "{reads_per_s}");
        assert!(speed.write.seconds(4096) > speed.read.seconds(4096));
    }
}

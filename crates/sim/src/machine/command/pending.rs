//! Writes that have begun but are not answered. At a power cut, each may or may not have been carried out.

use super::super::Machine;
use super::{Payload, gather};
use engine::plan::StepKind;

impl Machine {
    /// The writes in flight, each with its bay, its first byte and its payload.
    #[must_use]
    pub fn writes_on_their_way(&self) -> Vec<(usize, u64, Vec<u8>)> {
        let commands = self.commands.iter().flatten();
        let writes = commands.filter_map(|command| {
            let bytes = match (&command.payload, command.kind) {
                (Payload::Own(bytes, _), _) => bytes.clone(),
                (Payload::Memory(memory), StepKind::Write { .. }) => gather(&self.memory, memory),
                (_, StepKind::Zero { .. } | StepKind::Discard) => {
                    vec![0; command.length_bytes as usize]
                }
                _ => return None,
            };
            let bay = self.bays[command.member.0 as usize];
            Some((bay, command.offset_bytes, bytes))
        });
        writes.collect()
    }
}

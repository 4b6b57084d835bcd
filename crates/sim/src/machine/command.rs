//! Commands in flight to drives: started by the engine or to write its metadata, answered after a time, perhaps
//! cancelled, and ended when the process ends or the power is cut.

mod pending;

use super::{Ending, Happening, Machine, Note};
use crate::history::Errand;
use engine::control::message::Message;
use engine::control::record::Record;
use engine::plan::StepKind;
use engine::policy::MemberError;
use engine::token::Token;
use engine::units::{Buffer, MemberId, ShardId};
use engine::world::Input;
use std::collections::VecDeque;
use virtual_time::timing::Place;

/// Number of old records that are kept of each drive, for [`Machine::bring_back_record`].
const RECORDS_KEPT: usize = 5;
/// ECANCELED.
const CANCELLED: i32 = 125;

/// A part of a metadata record: first byte on the drive, and the bytes.
pub(super) type Part = (u64, Vec<u8>);

/// Where the bytes of a command are.
enum Payload {
    /// In the process's memory.
    Memory(Vec<(Buffer, u32)>),
    /// A part of a metadata record, and the parts to be written after it.
    Own(Vec<u8>, VecDeque<Part>),
}

pub(super) struct Command {
    shard: usize,
    /// `None` for metadata.
    token: Option<Token>,
    member: MemberId,
    kind: StepKind,
    offset_bytes: u64,
    length_bytes: u64,
    payload: Payload,
    cache_position: u64,
    cancelled: bool,
}

impl Command {
    /// The pieces of the process's memory that it uses, by first byte.
    pub(super) fn memory(&self) -> impl Iterator<Item = Buffer> {
        let memory = match &self.payload {
            Payload::Memory(memory) => memory.as_slice(),
            Payload::Own(..) => &[],
        };
        memory.iter().map(|(at, _)| *at)
    }

    fn errand(&self) -> Option<Errand> {
        match (self.token, self.kind) {
            (None, _) => Some(Errand::Metadata),
            (_, StepKind::Read) => None,
            (_, StepKind::Flush) => Some(Errand::Flush),
            (Some(token), _) if token.is_log() => Some(Errand::Log),
            _ => Some(Errand::Write),
        }
    }
}

impl Machine {
    pub(super) fn end_command(&mut self, command: Command, ending: Ending) {
        let writes = !matches!(command.kind, StepKind::Read | StepKind::Flush);
        let (begun, whole) = (self.endings.chance(1, 2), self.endings.chance(1, 2));
        let drive = &mut self.drives[self.bays[command.member.0 as usize]];
        if !writes || !begun || drive.faults.gone {
            return;
        }
        let mut bytes = match command.payload {
            Payload::Own(bytes, _) => bytes,
            Payload::Memory(memory) if matches!(command.kind, StepKind::Write { .. }) => {
                gather(&self.memory, &memory)
            }
            Payload::Memory(_) => vec![0; command.length_bytes as usize],
        };
        if ending == Ending::Power && !whole {
            drive.write_partly(command.offset_bytes, &bytes);
        } else {
            let range = (command.offset_bytes, command.length_bytes);
            // The process has ended, so nobody receives the answer.
            let _ = drive.carry_out(command.kind, range, &mut bytes, 0);
        }
    }

    /// Starts a command of the engine.
    pub fn start(
        &mut self,
        shard: usize,
        io: engine::world::Io,
        memory: impl Iterator<Item = engine::plan::Segment>,
    ) {
        let payload = memory.map(|segment| (segment.buffer, segment.length_bytes));
        self.start_command(Command {
            shard,
            token: Some(io.token),
            member: io.member,
            kind: io.kind,
            offset_bytes: io.offset_bytes,
            length_bytes: io.length_bytes,
            payload: Payload::Memory(payload.collect()),
            cache_position: 0,
            cancelled: false,
        });
    }

    /// Starts to write the engine's record to a member, durably.
    pub fn persist(&mut self, shard: ShardId, member: MemberId, record: &Record) {
        let Some(persister) = &mut self.persister else {
            return;
        };
        let bay = self.bays[member.0 as usize];
        let encoded = match self.refusals.refuses(persister.expressed(), record) {
            Ok(false) => persister
                .encode(member, record)
                .map_err(|error| error.to_string()),
            Ok(true) => Err(String::new()),
            Err(problem) => Err(problem),
        };
        let mut parts: VecDeque<Part> = match encoded {
            Ok(parts) => parts.into(),
            Err(problem) => {
                self.problems
                    .extend(Some(problem).filter(|problem| !problem.is_empty()));
                self.note(&Note::Refused(bay, record.generation));
                return self.tell(shard.0 as usize, Input::NotExpressible { member });
            }
        };
        if self.records.len() <= bay {
            self.records.resize_with(bay + 1, VecDeque::new);
        }
        self.records[bay].push_back(parts.clone().into());
        if self.records[bay].len() > RECORDS_KEPT {
            self.records[bay].pop_front();
        }
        if let Some(first) = parts.pop_front() {
            self.start_part(shard.0 as usize, member, first, parts);
        }
    }

    /// Writes a part of a record; the `rest` follows when that part is durable.
    fn start_part(&mut self, shard: usize, member: MemberId, part: Part, rest: VecDeque<Part>) {
        let (offset_bytes, bytes) = part;
        self.start_command(Command {
            shard,
            token: None,
            member,
            kind: StepKind::Write { fua: true },
            offset_bytes,
            length_bytes: bytes.len() as u64,
            payload: Payload::Own(bytes, rest),
            cache_position: 0,
            cancelled: false,
        });
    }

    /// Gives a drive its metadata of `back` updates ago, if that record is kept.
    pub fn bring_back_record(&mut self, bay: usize, back: usize) {
        let Some(records) = self.records.get(bay) else {
            return;
        };
        let at = records.len().checked_sub(back + 1);
        for (offset_bytes, bytes) in at.and_then(|at| records.get(at)).into_iter().flatten() {
            self.drives[bay].tamper(*offset_bytes, bytes);
        }
    }

    /// Whether the record that [`Machine::bring_back_record`] would restore contains this serial of another
    /// drive.
    #[must_use]
    pub fn record_named(&self, bay: usize, back: usize, serial: &str) -> bool {
        let Some(records) = self.records.get(bay) else {
            return false;
        };
        let at = records.len().checked_sub(back + 1);
        let mut parts = at.and_then(|at| records.get(at)).into_iter().flatten();
        parts.any(|(_, bytes)| {
            let mut places = bytes.windows(serial.len());
            places.any(|place| place == serial.as_bytes())
        })
    }

    fn start_command(&mut self, mut command: Command) {
        let now_ns = self.queue.now_ns();
        let bay = self.bays[command.member.0 as usize];
        self.journal.note(
            now_ns,
            &Note::Command(
                command.shard,
                bay,
                name(command.kind),
                command.offset_bytes,
                command.length_bytes,
            ),
        );
        self.passes(command.errand(), false);
        let drive = &mut self.drives[bay];
        let place = Place {
            offset_bytes: command.offset_bytes,
            length_bytes: command.length_bytes,
        };
        let at_ns = drive.finish_ns(now_ns, command.kind, place);
        command.cache_position = drive.cache_position();
        let index = self.free.pop().unwrap_or(self.commands.len());
        if index == self.commands.len() {
            self.commands.push(None);
        }
        self.commands[index] = Some(command);
        let life = self.life;
        self.queue.at(
            at_ns,
            Happening::Answer {
                life,
                command: index,
            },
        );
    }

    /// Asks a drive to answer a command early. Half of the time the request has no effect.
    pub fn cancel(&mut self, shard: usize, token: Token) {
        let heeded = self.cancels.chance(1, 2);
        let is_it = |command: &Option<Command>| {
            let own = |command: &Command| command.shard == shard && command.token == Some(token);
            command.as_ref().is_some_and(own)
        };
        let Some(index) = self.commands.iter().position(is_it).filter(|_| heeded) else {
            return;
        };
        if let Some(command) = &mut self.commands[index] {
            command.cancelled = true;
            let life = self.life;
            self.queue.after(
                1_000,
                Happening::Answer {
                    life,
                    command: index,
                },
            );
        }
    }

    /// Answers a command whose time has come.
    pub fn answer(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        let Some(mut command) = self.commands.get_mut(index).and_then(Option::take) else {
            // The command was cancelled and answered before.
            return;
        };
        let bay = self.bays[command.member.0 as usize];
        if let Some(until_ns) = self.drives[bay].faults.hung_until_ns(now_ns)
            && !command.cancelled
        {
            let after_ns = self.turns.below(50_000);
            let life = self.life;
            self.commands[index] = Some(command);
            let answer = Happening::Answer {
                life,
                command: index,
            };
            return self.queue.at(until_ns + after_ns, answer);
        }
        if now_ns < self.kernel_stands_until_ns {
            let at_ns = self.kernel_stands_until_ns + self.turns.below(1_000_000);
            let life = self.life;
            self.commands[index] = Some(command);
            let answer = Happening::Answer {
                life,
                command: index,
            };
            return self.queue.at(at_ns, answer);
        }
        let result = if command.cancelled {
            Err(CANCELLED)
        } else {
            self.carry_out(bay, &command)
        };
        let errno = result.err().unwrap_or(0);
        let (kind, offset_bytes) = (name(command.kind), command.offset_bytes);
        self.note(&Note::Answer(bay, kind, offset_bytes, errno));
        self.passes(command.errand(), true);
        // A cancelled command's original answer is still in the queue, so its place must not be used again.
        if !command.cancelled {
            self.free.push(index);
        }
        let result = result.map_err(MemberError::from_errno);
        if let (Payload::Own(_, rest), Ok(())) = (&mut command.payload, result)
            && let Some(next) = rest.pop_front()
        {
            let rest = std::mem::take(rest);
            return self.start_part(command.shard, command.member, next, rest);
        }
        let input = match command.token {
            Some(token) => Input::Done { token, result },
            None => Input::Persisted {
                member: command.member,
                result,
            },
        };
        self.tell(command.shard, input);
    }

    /// A drive that refuses to discard has zeros written, and the controller is informed. A drive that never
    /// could discard must not get the command.
    fn look_at_discard(&mut self, bay: usize, command: &Command) {
        let drive = &self.drives[bay];
        if !drive.abilities.discards {
            let text = format!("drive {bay} cannot discard, and is asked to");
            self.problems.push(text);
        } else if drive.faults.refuses_discards {
            self.post(command.shard, 0, Message::DiscardRefused(command.member));
        }
    }

    fn carry_out(&mut self, bay: usize, command: &Command) -> Result<(), i32> {
        if command.kind == StepKind::Discard {
            self.look_at_discard(bay, command);
        }
        let drive = &mut self.drives[bay];
        let range = (command.offset_bytes, command.length_bytes);
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        match (&command.payload, command.kind) {
            (Payload::Own(record, _), _) => bytes.extend_from_slice(record),
            (Payload::Memory(memory), StepKind::Write { .. }) => {
                for (at, length) in memory {
                    bytes.extend_from_slice(&self.memory[at.0 as usize..][..*length as usize]);
                }
            }
            (_, StepKind::Read) => bytes.resize(command.length_bytes as usize, 0),
            _ => {}
        }
        let result = drive.carry_out(command.kind, range, &mut bytes, command.cache_position);
        if let (Payload::Memory(memory), StepKind::Read) = (&command.payload, command.kind) {
            if result.is_err() {
                // A failed read may leave anything in memory.
                bytes.fill(0xEB);
            }
            let mut done = 0;
            for (at, length) in memory {
                let length = *length as usize;
                self.memory[at.0 as usize..][..length].copy_from_slice(&bytes[done..done + length]);
                done += length;
            }
        }
        self.buffer = bytes;
        result
    }
}

fn gather(memory: &[u8], pieces: &[(Buffer, u32)]) -> Vec<u8> {
    let piece = |&(at, length): &(Buffer, u32)| &memory[at.0 as usize..][..length as usize];
    pieces.iter().flat_map(piece).copied().collect()
}

fn name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Read => "read",
        StepKind::Write { fua: false } => "write",
        StepKind::Write { fua: true } => "write fua",
        StepKind::Zero { .. } => "zero",
        StepKind::Discard => "discard",
        StepKind::Flush => "flush",
        StepKind::Log { .. } => "log",
        StepKind::Xor { .. } => "xor",
        StepKind::Compare => "compare",
    }
}

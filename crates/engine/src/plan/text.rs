//! A plan as text, one line a step. `fullstripe explain` prints it, and the planners' snapshot tests compare it.
//!
//! ```text
//! stage 0  read   member 1  @1.5M +4k -> tmp+0
//!          read   member 3  @1.5M +4k -> tmp+4k  parity
//! stage 1  xor    +4k  tmp+0 ^ tmp+4k ^ data+0 -> tmp+4k
//! stage 2  write  member 1  @1.5M +4k <- data+0
//!          write  member 3  @1.5M +4k <- tmp+4k  parity
//! ```
//!
//! `@` is the offset on the member, `+` a length; `tmp` is the plan's scratch memory and `data` the
//! request's payload. Sizes are exact. A plan is printed before its scratch is bound.

use super::{Plan, SCRATCH, Segment, Step, StepKind};
use crate::layout::Geometry;
use crate::units::{Buffer, Slot};
use core::fmt::{self, Display, Formatter};

/// Shows `plan`. `names` gives the name of the drive in a slot; its second argument is true for the drive that is
/// being filled there (hot replace). [`slot_name`] can be passed where no names are known.
pub fn render<'a, Name: Display>(
    plan: &'a Plan,
    shape: &'a Geometry,
    names: impl Fn(Slot, bool) -> Name + 'a,
) -> impl Display + 'a {
    PlanText { plan, shape, names }
}

/// "member 3", or "new member 3" for the drive that is being filled in the slot.
pub fn slot_name(slot: Slot, shadow: bool) -> impl Display {
    SlotName { slot, shadow }
}

struct SlotName {
    slot: Slot,
    shadow: bool,
}

impl Display for SlotName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let prefix = if self.shadow { "new " } else { "" };
        write!(f, "{prefix}member {}", self.slot.0)
    }
}

struct PlanText<'a, Names> {
    plan: &'a Plan,
    shape: &'a Geometry,
    names: Names,
}

impl<Name: Display, Names: Fn(Slot, bool) -> Name> Display for PlanText<'_, Names> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut stage = None;
        for step in self.plan.steps() {
            if stage == Some(step.stage) {
                write!(f, "         ")?;
            } else {
                write!(f, "stage {}  ", step.stage)?;
            }
            stage = Some(step.stage);
            match step.kind {
                StepKind::Xor { target } => {
                    write!(f, "xor    +{}  ", Size(step.length_bytes))?;
                    self.sources(f, step)?;
                    write!(f, " -> {}", Place(target))?;
                }
                StepKind::Compare => {
                    write!(f, "check  +{}  ", Size(step.length_bytes))?;
                    self.sources(f, step)?;
                    write!(f, " = 0")?;
                }
                _ => self.member_step(f, step)?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl<Name: Display, Names: Fn(Slot, bool) -> Name> PlanText<'_, Names> {
    fn sources(&self, f: &mut Formatter<'_>, step: &Step) -> fmt::Result {
        for (index, segment) in self.plan.segments_of(step).enumerate() {
            let separator = if index == 0 { "" } else { " ^ " };
            write!(f, "{separator}{}", Place(segment.buffer))?;
        }
        Ok(())
    }

    fn member_step(&self, f: &mut Formatter<'_>, step: &Step) -> fmt::Result {
        let (verb, arrow) = match step.kind {
            StepKind::Read => ("read ", " ->"),
            StepKind::Write { .. } => ("write", " <-"),
            StepKind::Zero { .. } => ("zero ", ""),
            StepKind::Discard => ("trim ", ""),
            StepKind::Log { .. } => ("log  ", " <-"),
            _ => ("flush", ""),
        };
        write!(f, "{verb}  {}", (self.names)(step.slot, step.shadow))?;
        if step.length_bytes > 0 {
            write!(
                f,
                "  @{} +{}{arrow}",
                Size(step.offset_bytes),
                Size(step.length_bytes)
            )?;
        }
        for (index, segment) in self.plan.segments_of(step).enumerate() {
            let Segment {
                buffer,
                length_bytes,
                ..
            } = segment;
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator} {}", Place(buffer))?;
            if step.segments > 1 {
                write!(f, " (+{})", Size(length_bytes.into()))?;
            }
        }
        match step.kind {
            StepKind::Write { fua: true } => write!(f, "  durable")?,
            StepKind::Zero {
                keep_allocated: true,
            } => write!(f, "  kept allocated")?,
            _ => (),
        }
        if self.is_parity(step) {
            write!(f, "  parity")
        } else {
            Ok(())
        }
    }

    /// Whether the range of the step lies in parity alone.
    fn is_parity(&self, step: &Step) -> bool {
        let Some(low_bytes) = step.offset_bytes.checked_sub(self.shape.start_bytes) else {
            return false;
        };
        let chunk_bytes = u64::from(self.shape.chunk_bytes);
        let row = low_bytes / chunk_bytes;
        step.length_bytes > 0
            && low_bytes + step.length_bytes <= (row + 1) * chunk_bytes
            && self.shape.parity_slots(row).has(step.slot)
    }
}

struct Place(Buffer);

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = if self.0.0 & SCRATCH != 0 {
            "tmp"
        } else {
            "data"
        };
        write!(f, "{name}+{}", Size(self.0.0 & !SCRATCH))
    }
}

/// A byte count in the largest unit that shows it exactly with at most two decimals.
struct Size(u64);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'k')] {
            let whole = self.0 >> shift;
            let rest = self.0 & ((1 << shift) - 1);
            if whole == 0 || !self.0.is_multiple_of(512) || !(rest * 4).is_multiple_of(1 << shift) {
                continue;
            }
            return match (rest * 4) >> shift {
                0 => write!(f, "{whole}{unit}"),
                1 => write!(f, "{whole}.25{unit}"),
                2 => write!(f, "{whole}.5{unit}"),
                _ => write!(f, "{whole}.75{unit}"),
            };
        }
        write!(f, "{}", self.0)
    }
}

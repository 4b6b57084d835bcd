//! The array that a request is explained for: its shape, its drives' names, and their state.

use crate::cut::{Background, State};
use anyhow::{Result, anyhow, bail};
use container::assemble::geometry_of;
use container::named::{find, no_volume};
use container::open::to_look;
use container::probe::Probed;
use engine::layout::{Geometry, Level};
use engine::units::{Slot, SlotSet};
use metadata::imsm::choose::Assembly;
use metadata::imsm::start::{StartMode, StartOptions, SyncWork, start_mode};

const SECTOR_BYTES: u64 = 512;
const DEFAULT_CHUNK_BYTES: u32 = 128 << 10;
/// Data on each member of an imaginary array.
const DESCRIBED_COMPONENT_BYTES: u64 = 1 << 40;

/// See the module's prose.
pub struct Array {
    /// Name of the volume, if it exists.
    pub name: Option<String>,
    /// Its shape.
    pub shape: Geometry,
    /// Which slots can be used.
    pub state: State,
    /// Names of the drives by slot; absent where the drive is.
    drives: Vec<Option<String>>,
}

impl Array {
    /// An imaginary array.
    ///
    /// # Errors
    /// There is no such shape.
    pub fn described(level: Level, members: u32, chunk: Option<u32>) -> Result<Array> {
        level
            .check_members(members as usize)
            .map_err(anyhow::Error::msg)?;
        let members = u8::try_from(members)?;
        let shape = Geometry {
            level,
            members,
            chunk_bytes: chunk.unwrap_or(DEFAULT_CHUNK_BYTES),
            start_bytes: 0,
            component_bytes: DESCRIBED_COMPONENT_BYTES,
            size_bytes: DESCRIBED_COMPONENT_BYTES
                .saturating_mul(u64::from(level.data_members(members))),
            block_bytes: 512,
        };
        Ok(Array {
            name: None,
            shape: Geometry::new(shape).map_err(|error| anyhow!("{error}"))?,
            state: State::healthy(),
            drives: vec![None; usize::from(members)],
        })
    }

    /// The volume `name` on the drives `specs`.
    ///
    /// # Errors
    /// There is no such volume, or its container cannot be assembled.
    pub fn on_drives(name: &str, specs: &[String]) -> Result<Array> {
        if specs.is_empty() {
            bail!(
                "name the drives of volume {name} too, or describe an array with --level and --members"
            );
        }
        let drives = to_look(specs)?;
        match find(name, &drives) {
            Ok((assembly, at)) => Array::of_volume(&assembly, at, &drives),
            Err(Some(refusal)) => Err(anyhow!("{refusal}")),
            Err(None) => Err(no_volume(name, &drives)),
        }
    }

    fn of_volume(assembly: &Assembly, at: usize, drives: &[Probed]) -> Result<Array> {
        let volume = &assembly.mpb.volumes[at];
        let shape = geometry_of(volume, assembly.sector.bytes() as u32)?;
        let here = assembly.slot_drives(volume);
        let order = &volume.current_map().order;
        let everything_accepted = StartOptions {
            degraded: true,
            accept_write_hole: true,
            accept_unsynced: true,
            trust_returned_drive: true,
        };
        let mode = start_mode(&assembly.mpb, at, &assembly.present(), everything_accepted);
        let background = background(&mode);
        let rebuilt = match background {
            Background::Rebuild { slot, .. } => SlotSet(0).with(slot),
            _ => SlotSet(0),
        };
        let lost = (0u8..)
            .zip(order.iter().zip(&here))
            .filter(|(_, (entry, drive))| entry.out_of_sync || drive.is_none())
            .fold(SlotSet(0), |set, (slot, _)| set.with(Slot(slot)));
        Ok(Array {
            name: Some(volume.name.to_string()),
            shape,
            state: State {
                lost: SlotSet(lost.0 & !rebuilt.0),
                background,
                logged: volume.write_hole_policy == metadata::imsm::WriteHolePolicy::Log,
            },
            drives: here
                .iter()
                .map(|drive| drive.map(|drive| drives[drive].drive.name().to_owned()))
                .collect(),
        })
    }

    /// Pretends that the drive in `slot` has failed.
    ///
    /// # Errors
    /// There is no such slot.
    pub fn fail(&mut self, slot: u8) -> Result<()> {
        if slot >= self.shape.members {
            bail!(
                "there is no slot {slot}: the slots are 0 to {}",
                self.shape.members - 1
            );
        }
        self.state.lost = self.state.lost.with(Slot(slot));
        Ok(())
    }

    /// What the drive in `slot` is called.
    #[must_use]
    pub fn drive_name(&self, slot: Slot) -> String {
        match self.drives.get(usize::from(slot.0)) {
            Some(Some(name)) => name.clone(),
            _ => format!("member {}", slot.0),
        }
    }

    /// The chunk to show: 0 for a mirror, which has none.
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        match self.shape.level {
            Level::Raid1 => 0,
            _ => self.shape.chunk_bytes,
        }
    }

    /// The slots that cannot be used.
    #[must_use]
    pub fn lost_in_words(&self) -> String {
        let slots: Vec<String> = self
            .state
            .lost
            .iter()
            .map(|slot| format!("slot {}", slot.0))
            .collect();
        if slots.is_empty() {
            "a drive".to_owned()
        } else {
            slots.join(", ")
        }
    }
}

fn background(mode: &StartMode) -> Background {
    let StartMode::ReadWrite { sync, .. } = mode else {
        return Background::None;
    };
    match sync {
        SyncWork::None => Background::None,
        SyncWork::InitialSync { from_sector } | SyncWork::Resync { from_sector } => {
            Background::Sync {
                done_bytes: from_sector * SECTOR_BYTES,
            }
        }
        SyncWork::Rebuild {
            slots, from_sector, ..
        } => match slots.first() {
            Some(&slot) => Background::Rebuild {
                slot: Slot(slot as u8),
                done_bytes: from_sector * SECTOR_BYTES,
            },
            None => Background::None,
        },
    }
}

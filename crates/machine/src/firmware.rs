//! What the firmware's tables (SMBIOS, which is also called DMI) say: the board, memory modules, and slots.
//!
//! The kernel shows names of the board to everybody, and the tables to root only. Their form is DMTF's DSP0134.

use super::files::Files;
use dmidecode::system_slots::{SlotWidth, SystemSlots};
use dmidecode::{EntryPoint, MemoryDevice, Structure};

const TABLES: &str = "/sys/firmware/dmi/tables";

/// The machine's names. What makers left as a placeholder is left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Board {
    /// Who made the machine.
    pub vendor: Option<String>,
    /// What they call it.
    pub product: Option<String>,
}

impl Board {
    /// Reads them.
    #[must_use]
    pub fn read(files: &Files) -> Board {
        let said = |name: &str| {
            let text = files.text(&format!("/sys/class/dmi/id/{name}"))?;
            (!is_placeholder(&text)).then_some(text)
        };
        Board {
            vendor: said("sys_vendor").or_else(|| said("board_vendor")),
            product: said("product_name").or_else(|| said("board_name")),
        }
    }
}

fn is_placeholder(text: &str) -> bool {
    const PLACEHOLDERS: [&str; 5] = [
        "to be filled",
        "default string",
        "system manufacturer",
        "system product name",
        "not specified",
    ];
    let text = text.to_lowercase();
    PLACEHOLDERS.iter().any(|word| text.contains(word))
}

/// A memory module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Its place, as printed on the board.
    pub place: String,
    /// Its size.
    pub mib: u64,
    /// Million transfers per second that it is run at; `None` if the firmware does not say.
    pub mt_per_s: Option<u64>,
}

/// A slot for a card or a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Its name, as printed on the board.
    pub name: String,
    /// Lanes that are wired to it.
    pub lanes: u64,
    /// The PCI address of the device or port that it belongs to, `0000:17:00.0`; `None` if the firmware does not say.
    pub address: Option<String>,
}

/// Memory modules and slots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tables {
    /// Modules that are there.
    pub modules: Vec<Module>,
    /// Slots, with a card or without.
    pub slots: Vec<Slot>,
}

impl Tables {
    /// Reads them; `None` if they cannot be read, or are not there.
    #[must_use]
    pub fn read(files: &Files) -> Option<Tables> {
        let entry = files.bytes(&format!("{TABLES}/smbios_entry_point"))?;
        let tables = files.bytes(&format!("{TABLES}/DMI"))?;
        let entry = EntryPoint::search(&entry).ok()?;
        let mut found = Tables::default();
        // A table of the firmware's own making may be malformed. It ends nothing: the next ones are read all the same.
        for structure in entry.structures(&tables).flatten() {
            match structure {
                Structure::MemoryDevice(device) => found.modules.extend(module(&device)),
                Structure::SystemSlots(slot) => found.slots.extend(slot_of(&slot)),
                _ => {}
            }
        }
        Some(found)
    }
}

fn module(device: &MemoryDevice) -> Option<Module> {
    /// The size is in another field.
    const ELSEWHERE: u16 = 0x7fff;
    /// The size is in KiB, not MiB.
    const IN_KIB: u16 = 0x8000;
    let mib = match device.size? {
        ELSEWHERE => u64::from(device.extended_size & 0x7fff_ffff),
        kib if kib & IN_KIB != 0 => u64::from(kib & !IN_KIB) / 1024,
        mib => u64::from(mib),
    };
    let speed = device
        .extended_configured_memory_speed
        .filter(|speed| *speed > 0)
        .or(device.configured_memory_speed.map(u32::from))
        .or(device.speed.map(u32::from));
    (mib > 0).then(|| Module {
        place: device.device_locator.to_owned(),
        mib,
        mt_per_s: speed
            .filter(|speed| *speed > 0 && *speed < 0xffff)
            .map(u64::from),
    })
}

fn slot_of(slot: &SystemSlots) -> Option<Slot> {
    let lanes = match slot.slot_data_bus_width {
        SlotWidth::X1 => 1,
        SlotWidth::X2 => 2,
        SlotWidth::X4 => 4,
        SlotWidth::X8 => 8,
        SlotWidth::X12 => 12,
        SlotWidth::X16 => 16,
        SlotWidth::X32 => 32,
        _ => return None,
    };
    let address = match (slot.bus_number, slot.device_and_function_number) {
        (Some(bus), Some(place)) => {
            let segment = slot.segment_group_number.unwrap_or(0);
            let place = u8::from(place);
            let (device, function) = (place >> 3, place & 7);
            Some(format!("{segment:04x}:{bus:02x}:{device:02x}.{function}"))
        }
        _ => None,
    };
    Some(Slot {
        name: slot.slot_designation.to_owned(),
        lanes,
        address,
    })
}

//! What the firmware's tables (SMBIOS, which is also called DMI) say: the board, memory modules, and slots.
//!
//! The kernel shows names of the board to everybody, and the tables to root only. Their form is DMTF's DSP0134.

use super::files::Files;

/// The tables, one after the other. Only root may read them.
const TABLES: &str = "/sys/firmware/dmi/tables/DMI";

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
    /// Bits of data that it transfers at once.
    pub width_bits: u64,
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
    /// Modules of volatile memory that are there.
    pub modules: Vec<Module>,
    /// Slots, with a card or without.
    pub slots: Vec<Slot>,
}

impl Tables {
    /// Reads them; `None` if they cannot be read, or are not there.
    #[must_use]
    pub fn read(files: &Files) -> Option<Tables> {
        Some(Tables::of(&files.bytes(TABLES)?))
    }

    fn of(tables: &[u8]) -> Tables {
        let mut found = Tables::default();
        for structure in Structures(tables) {
            match structure.kind {
                MEMORY_DEVICE => found.modules.extend(module(&structure)),
                SYSTEM_SLOT => found.slots.extend(slot(&structure)),
                _ => {}
            }
        }
        found
    }
}

/// Types of structures (DSP0134, chapter 7).
const MEMORY_DEVICE: u8 = 17;
const SYSTEM_SLOT: u8 = 9;
const END_OF_TABLE: u8 = 127;

/// One structure: numbers at fixed places, and texts that numbers refer to.
struct Structure<'a> {
    kind: u8,
    numbers: &'a [u8],
    texts: &'a [u8],
}

impl Structure<'_> {
    /// A number of one byte; `None` if the structure is of an older form that ends before it.
    fn byte(&self, at: usize) -> Option<u8> {
        self.numbers.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(at)?, self.byte(at + 1)?]))
    }

    fn double_word(&self, at: usize) -> Option<u32> {
        let [low, high] = [self.word(at)?, self.word(at + 2)?];
        Some(u32::from(low) | u32::from(high) << 16)
    }

    /// The text that the byte at this place refers to, counted from 1.
    fn text(&self, at: usize) -> Option<String> {
        let number = usize::from(self.byte(at)?).checked_sub(1)?;
        let text = self.texts.split(|byte| *byte == 0).nth(number)?;
        Some(String::from_utf8_lossy(text).trim().to_owned())
    }
}

/// The structures one after the other, up to the end or to the first that is cut off.
struct Structures<'a>(&'a [u8]);

impl<'a> Iterator for Structures<'a> {
    type Item = Structure<'a>;

    fn next(&mut self) -> Option<Structure<'a>> {
        /// Type, length and handle.
        const HEADER_BYTES: usize = 4;
        let (kind, length) = (*self.0.first()?, usize::from(*self.0.get(1)?));
        if kind == END_OF_TABLE || length < HEADER_BYTES {
            return None;
        }
        let (numbers, rest) = self.0.split_at_checked(length)?;
        // The texts end with an empty one.
        let texts = rest.windows(2).position(|pair| pair == [0, 0])?;
        self.0 = &rest[texts + 2..];
        Some(Structure {
            kind,
            numbers,
            texts: &rest[..texts],
        })
    }
}

fn module(device: &Structure) -> Option<Module> {
    let size = device.word(0x0c)?;
    // Types of memory: DDR to DDR2 FB-DIMM, DDR3 to LPDDR4, HBM to HBM3. Technologies: other, unknown and DRAM; what is left keeps its
    // content.
    let is_dram = matches!(device.byte(0x12)?, 0x12..=0x14 | 0x18..=0x1e | 0x20..=0x24);
    let is_volatile = device
        .byte(0x28)
        .is_none_or(|technology| technology <= 0x03);
    if size == 0 || !is_dram || !is_volatile {
        return None;
    }
    // What it is run at comes before what it could be run at. From 65535 on, the speed is in a longer field.
    let speeds = [device.word(0x20), device.word(0x15)].map(|speed| match speed {
        Some(0xffff) => device.double_word(0x58),
        Some(speed) => Some(u32::from(speed)),
        None => None,
    });
    let speed = speeds.into_iter().flatten().find(|speed| *speed > 0);
    Some(Module {
        width_bits: match device.word(0x0a)? {
            0 | 0xffff => 64,
            bits => u64::from(bits),
        },
        mt_per_s: speed.map(u64::from),
    })
}

fn slot(slot: &Structure) -> Option<Slot> {
    let lanes = match slot.byte(0x06)? {
        0x08 => 1,
        0x09 => 2,
        0x0a => 4,
        0x0b => 8,
        0x0c => 12,
        0x0d => 16,
        0x0e => 32,
        _ => return None,
    };
    Some(Slot {
        name: slot.text(0x04)?,
        lanes,
        address: address(slot),
    })
}

/// Segment, bus, device and function; all bits are set if the firmware does not say.
fn address(slot: &Structure) -> Option<String> {
    let segment = slot.word(0x0d).filter(|segment| *segment != 0xffff)?;
    let bus = slot.byte(0x0f).filter(|bus| *bus != 0xff)?;
    let place = slot.byte(0x10).filter(|place| *place != 0xff)?;
    let (device, function) = (place >> 3, place & 7);
    Some(format!("{segment:04x}:{bus:02x}:{device:02x}.{function}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure of this type, with numbers of one value and two texts.
    fn structure(kind: u8, length: u8, value: u8) -> Vec<u8> {
        let mut bytes = vec![value; usize::from(length)];
        bytes[..4].copy_from_slice(&[kind, length, 0, 0]);
        // The first text.
        if let Some(text) = bytes.get_mut(4) {
            *text = 1;
        }
        bytes.extend(b"one\0two\0\0");
        bytes
    }

    #[test]
    fn what_is_cut_off_or_malformed_ends_the_tables_and_nothing_else() {
        let whole = [structure(4, 8, 1), structure(SYSTEM_SLOT, 0x11, 0x0a)].concat();
        let found = Tables::of(&whole).slots;
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].lanes, found[0].address.as_deref()),
            (4, Some("0a0a:0a:01.2"))
        );
        for length in 0..whole.len() {
            assert_eq!(Tables::of(&whole[..length]).slots.len(), 0, "{length}");
        }
        let mut short = whole.clone();
        short[1] = 3;
        assert_eq!(Tables::of(&short), Tables::default());
        // What follows the last structure is no table.
        let padded = [&whole[..], &[0; 40], &whole].concat();
        assert_eq!(Tables::of(&padded).slots.len(), 1);
        let ended = [structure(END_OF_TABLE, 4, 0), whole].concat();
        assert_eq!(Tables::of(&ended), Tables::default());
    }

    #[test]
    fn only_volatile_memory_is_a_module() {
        let mut bytes = structure(MEMORY_DEVICE, 0x5c, 0);
        bytes[0x0a..0x0e].copy_from_slice(&[16, 0, 0, 8]);
        bytes[0x12] = 0x23;
        bytes[0x20..0x22].copy_from_slice(&6400u16.to_le_bytes());
        let module = Module {
            width_bits: 16,
            mt_per_s: Some(6400),
        };
        assert_eq!(Tables::of(&bytes).modules, [module]);
        for (at, value) in [(0x12, 0x09), (0x12, 0x1f), (0x28, 0x07), (0x0d, 0)] {
            let mut other = bytes.clone();
            other[at] = value;
            assert_eq!(Tables::of(&other).modules, [], "{at:#x}");
        }
    }

    #[test]
    fn a_text_that_is_not_there_is_none() {
        let mut bytes = structure(SYSTEM_SLOT, 0x11, 0x0a);
        for (number, name) in [(1, Some("one")), (2, Some("two")), (0, None)] {
            bytes[4] = number;
            let found = Tables::of(&bytes).slots;
            assert_eq!(found.first().map(|slot| slot.name.as_str()), name);
        }
    }
}

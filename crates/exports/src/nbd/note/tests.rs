use super::*;
use crate::nbd::wire::{REQUEST_HEADER_BYTES, REQUEST_MAGIC};

/// Numbers that look random, each a function of the seed (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn of_seed(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(2).wrapping_add(1))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}

fn transmission() -> FrozenTransmission {
    FrozenTransmission {
        export: "vol0".to_owned(),
        structured_replies: true,
        rules: Rules {
            size_bytes: 0x0102_0304_0506_0000,
            minimum_block_bytes: 512,
            maximum_payload_bytes: 1 << 20,
            transmission_flags: 0x0d6d,
            block_status: false,
        },
        partial_header: REQUEST_MAGIC.to_be_bytes().to_vec(),
        discarded_bytes: 0,
    }
}

fn sample() -> Note {
    Note {
        listeners: vec![ListenerNote {
            address: "unix:/run/n".to_owned(),
            file: (7, 8),
        }],
        connections: vec![
            ConnectionNote {
                volume: std::array::from_fn(|at| at as u8),
                is_kernels: true,
                session: Frozen::Transmission(transmission()),
            },
            ConnectionNote {
                volume: [0; 16],
                is_kernels: false,
                session: Frozen::Handshake {
                    said: vec![0, 0, 0, 3],
                },
            },
        ],
    }
}

/// What version 1 is, byte for byte: a program of this version has to read what another one has written.
#[test]
fn the_bytes_are_those_of_the_table() {
    let expected = [
        &b"FSNBDNOT\0\x01\0\x01"[..],
        b"\0\x0bunix:/run/n",
        b"\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08",
        b"\0\x02",
        b"\x01\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
        b"\0\x04vol0\x05\x0d\x6d\x01\x02\x03\x04\x05\x06\0\0\0\0\x02\0\0\x10\0\0",
        b"\x04\x25\x60\x95\x13\0\0\0\0",
        b"\0\0\x04\0\0\0\x03",
    ]
    .concat();
    assert_eq!(sample().to_bytes(), expected);
    assert_eq!(Note::from_bytes(&expected), Ok(sample()));
}

#[test]
fn another_version_is_refused() {
    let mut bytes = sample().to_bytes();
    bytes[9] = 2;
    let error = Note::from_bytes(&bytes).unwrap_err();
    assert_eq!(error, NoteError::Version { found: 2 });
    assert_eq!(
        error.to_string(),
        "it has version 2, and this program knows 1"
    );
}

#[test]
fn a_note_that_is_cut_or_longer_is_damaged() {
    let bytes = sample().to_bytes();
    for length in 0..bytes.len() {
        let error = Note::from_bytes(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, NoteError::Damaged { .. }),
            "{length}: {error}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(Note::from_bytes(&longer).is_err());
}

#[test]
fn impossible_numbers_are_refused() {
    let refused = |change: fn(&mut FrozenTransmission)| {
        let mut session = transmission();
        change(&mut session);
        let mut note = sample();
        note.connections[0].session = Frozen::Transmission(session);
        Note::from_bytes(&note.to_bytes()).unwrap_err().to_string()
    };
    let wanted = "it is damaged: a connection has numbers that no client was told";
    for change in [
        (|one| one.rules.minimum_block_bytes = 0) as fn(&mut FrozenTransmission),
        |one| one.rules.minimum_block_bytes = 768,
        |one| one.rules.maximum_payload_bytes = u32::MAX,
        |one| one.rules.size_bytes = u64::MAX,
        |one| one.partial_header = vec![0; REQUEST_HEADER_BYTES],
        |one| one.discarded_bytes = 1,
    ] {
        assert_eq!(refused(change), wanted);
    }
}

/// Bytes that were changed, cut or joined anywhere: they are refused, or are exactly what a server would write.
#[test]
fn any_bytes_are_refused_or_are_a_note() {
    let (mut read, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut numbers = Numbers::of_seed(seed);
        let mut bytes = sample().to_bytes();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(bytes.len());
            match numbers.below(4) {
                0 => bytes[at] = numbers.below(256) as u8,
                1 => bytes[at] ^= 1 << numbers.below(8),
                2 => drop(bytes.splice(at..at, vec![0; numbers.below(40)])),
                _ => drop(bytes.drain(at..(at + numbers.below(20)).min(bytes.len()))),
            }
            if bytes.is_empty() {
                break;
            }
        }
        match Note::from_bytes(&bytes) {
            Ok(note) => {
                read += 1;
                assert_eq!(note.to_bytes(), bytes, "seed {seed}");
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().starts_with("it "), "seed {seed}: {error}");
            }
        }
    }
    assert!(
        read > 1000 && refused > 1000,
        "{read} read, {refused} refused"
    );
}

#[test]
fn each_descriptor_has_one_name() {
    for kept in [Kept::Note, Kept::Listener(0), Kept::Connection(4095)] {
        assert_eq!(Kept::named(&kept.name()), Some(kept));
    }
    for name in [
        "",
        "stored",
        "nbd-listener-",
        "nbd-listener-01",
        "nbd-connection-x",
        "nbd-connection-+1",
    ] {
        assert_eq!(Kept::named(name), None, "{name}");
    }
}

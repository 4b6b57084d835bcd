//! Any bytes in place of the note that goes with NBD connections from one server to the next: they are refused, or are exactly
//! what a server would write.

#![no_main]

use exports::nbd::note::Note;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(note) = Note::from_bytes(data) {
        assert_eq!(note.to_bytes(), data);
    }
});

//! Makes the files of a sample machine, to look at it: `cargo run -p machine --features samples --example sample vmd_on FOLDER`,
//! then `fullstripe platform discover --root FOLDER`.

use machine::samples::{ALL, Reader, build};
use std::path::Path;

#[expect(clippy::print_stderr, reason = "it is a program")]
fn main() {
    let mut words = std::env::args().skip(1);
    let (name, folder) = (words.next(), words.next());
    let sample = ALL
        .iter()
        .find(|(known, _)| Some(*known) == name.as_deref());
    let (Some((_, facts)), Some(folder)) = (sample, folder) else {
        let names = ALL.map(|(name, _)| name);
        eprintln!("usage: sample NAME FOLDER; names: {}", names.join(", "));
        std::process::exit(2);
    };
    build(facts, Path::new(&folder), Reader::User);
}

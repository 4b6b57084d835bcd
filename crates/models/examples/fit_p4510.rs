//! Fits the P4510's profile to the published results of single drives that may be used for fitting, and prints what the
//! drive alone gives for each of them.
//!
//! ```text
//! cargo run --release -p models --example fit_p4510           # rows with the profile as it stands
//! cargo run --release -p models --example fit_p4510 -- fit    # searches the fitted constants again
//! ```
//!
//! The same profile and the same code print the same numbers on every machine. The drive is modelled alone: a command
//! reaches it at once, and its completion is seen at once. Published results of a review whose host takes time include
//! that time.

use models::fit::{fit, rows};
use models::profile::Family;
use std::path::Path;

fn print_rows(family: &Family) {
    println!(
        "think 0: the drive alone; think 5 us: a host that takes so long between answer and next command"
    );
    println!(
        "{:20} {:>10} {:>10} {:>11} {:>11}",
        "row", "from", "to", "think 0", "think 5 us"
    );
    let mut met = [0, 0];
    let (alone, hosted) = (rows(family, 0), rows(family, 5000));
    for (alone, hosted) in alone.iter().zip(&hosted) {
        print!("{:20} {:>10.5} {:>10.5}", alone.id, alone.low, alone.high);
        for (which, row) in [alone, hosted].into_iter().enumerate() {
            let holds = row.low <= row.value && row.value <= row.high;
            met[which] += u32::from(holds);
            print!(" {:>10.5}{}", row.value, if holds { ' ' } else { '*' });
        }
        println!();
    }
    println!(
        "within their intervals: {} and {} of {}",
        met[0],
        met[1],
        alone.len()
    );
}

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/drives/p4510.toml");
    let text = std::fs::read_to_string(path).expect("the profile is part of the repository");
    let mut family: Family = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    if std::env::args().nth(1).as_deref() == Some("fit") {
        fit(&mut family, &mut |line| println!("{line}"));
    }
    print_rows(&family);
}

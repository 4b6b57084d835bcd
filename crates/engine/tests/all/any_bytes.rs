//! Whatever clients, drives, operators and time do, no assertion of the engine fails. This is the fuzzer's exercise
//! (`fuzz/fuzz_targets/engine.rs`), over bytes drawn from seeds.

use crate::exercise::{ScriptOutcome, fuzz_one};
use crate::memory::Random;

/// Longest script.
const BYTES_MAX: u64 = 600;

/// The script of a seed.
fn script(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let length = random.below(BYTES_MAX + 1);
    (0..length).map(|_| random.next() as u8).collect()
}

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return otherwise;
    };
    let parsed = text.parse();
    parsed.unwrap_or_else(|_| panic!("{name} is '{text}': a number is wanted"))
}

/// Says which seed it was if its script panics.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!("seed {seed}; repeat it with ANY_BYTES_SEED={seed} ANY_BYTES_COUNT=1");
        }
    }
}

/// `ANY_BYTES_COUNT` scripts (300), of seeds from `ANY_BYTES_SEED` (1) on.
#[test]
fn scripts_of_every_kind_are_survived() {
    let (count, first) = (number("ANY_BYTES_COUNT", 300), number("ANY_BYTES_SEED", 1));
    let mut sum = ScriptOutcome::default();
    for seed in first..first + count {
        let told = Told(seed);
        sum += fuzz_one(&script(seed));
        drop(told);
    }
    println!("{sum:#?}");
    if count >= 100 {
        check_reach(sum, count as usize);
    }
}

/// Checks that the scripts together reached each outcome often enough.
fn check_reach(sum: ScriptOutcome, scripts: usize) {
    for (what, there, wanted) in [
        ("requests carried out", sum.carried_out, 5 * scripts),
        ("requests with errors", sum.errors, scripts),
        ("right blocks", sum.right_blocks, 500 * scripts),
        ("accepted orders", sum.accepted, scripts),
        ("refused orders", sum.refused, scripts),
        ("failed drives", sum.failed_members, scripts / 4),
        ("failed volumes", sum.failed_volumes, scripts / 20),
        ("jobs that ended", sum.ended_jobs, scripts / 10),
    ] {
        assert!(there >= wanted, "{there} {what}, at least {wanted} wanted");
    }
}

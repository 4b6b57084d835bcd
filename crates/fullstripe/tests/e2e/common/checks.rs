//! Checks that many tests share: of acknowledged data, of the record on the drives, and by a scrub.

use super::{Bed, Ledger, Load, Mix, Server, run};
use serde_json::Value;

/// A ledger for a volume of zeros.
pub fn ledger(server: &Server<'_>, volume: usize, seed: u64) -> Ledger {
    let size_bytes = server.at_start["volumes"][volume]["size_bytes"].as_u64();
    Ledger::new(size_bytes.expect("a size"), seed)
}

/// The volume with this number in a drive's record, as `examine` reports it.
pub fn on_drive(bed: &Bed, drive: usize, volume: usize) -> Value {
    let path = bed.drive(drive).display().to_string();
    let said = run(&mut bed.fullstripe(&["examine", "--json", &path]), 20).ok();
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    found["drives"][0]["record"]["volumes"][volume].clone()
}

/// Expects the volume on these drives to be clean and whole.
#[track_caller]
pub fn expect_clean(bed: &Bed, drives: impl IntoIterator<Item = usize>) {
    for drive in drives {
        let volume = on_drive(bed, drive, 0);
        assert_eq!(volume["dirty"], false, "d{drive}: {volume:#}");
        assert_eq!(volume["state"], "normal", "d{drive}: {volume:#}");
    }
}

/// Scrubs a volume and expects no mismatch.
#[track_caller]
pub fn scrub_finds_nothing(server: &Server<'_>, volume: &str) {
    server.order(&["scrub", volume, "--wait"]).ok();
    assert_eq!(server.count_events("mismatch"), 0, "{:#?}", server.events());
}

/// Starts load of two clients on the volume `data`.
pub fn load(server: &Server<'_>, seed: u64, mix: Mix) -> Load {
    ledger(server, 0, seed).load(server.clients("data", 2), mix)
}

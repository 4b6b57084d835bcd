//! What a server does about those that end slowly.

use super::*;
use crate::scrub::every::ScrubEvery;
use alerts::Ways;
use drives::completion::CompletionMode;
use engine::layout::Level;
use metadata::imsm::start::StartOptions;
use std::fmt::Display;
use std::path::Path;

/// Keeps nothing.
struct Deaf;

impl Hearer for Deaf {
    fn say(&self, _: &dyn Display) {}
    fn event(&self, _: &Told, _: Audience) {}
}

fn slow(folder: &Path) -> ServeOptions {
    let slow = "sleep 25".to_owned();
    ServeOptions {
        drives: (0..2).map(|at| format!("ram:32m,serial=S{at}")).collect(),
        scratch: Some(Level::Raid1),
        spares: Vec::new(),
        exports: Vec::new(),
        socket: Some(folder.join("api.sock")),
        shards: 1,
        payload_bytes: 32 << 20,
        completion: CompletionMode::Interrupt,
        start: StartOptions::default(),
        read_only: false,
        auto_rebuild: true,
        rate_bytes_per_s: None,
        scrub_every: ScrubEvery::default(),
        member_deadline: Duration::from_secs(30),
        on_event: Some(slow.clone()),
        newcomers: None,
        alerts: Some(AlertOptions {
            ways: Ways {
                exec: Some(slow),
                ..Ways::default()
            },
            minimum: alerts::Severity::Info,
            ..AlertOptions::default()
        }),
        sockets_are_kept: false,
        backup: None,
    }
}

/// The commands of the operator take half a minute for each event, and there are several.
#[test]
fn a_hand_over_does_not_wait_for_slow_hooks_and_alerts() {
    let folder = tempfile::tempdir().unwrap();
    let options = slow(folder.path());
    let server = Prepared::new(options, Arc::new(Deaf)).unwrap();
    let server = server.serve().unwrap();
    let begin = Instant::now();
    server.hand_over().unwrap().check().unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
}

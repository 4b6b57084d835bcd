//! The process is stopped for longer than the deadline, although no drive was slow.

use crate::common::checks::ledger;
use crate::common::{Bed, MIB, Mix};
use rustix::process::Signal;
use std::time::Duration;

const DEADLINE_S: &str = "2";
const PAUSE: Duration = Duration::from_secs(3);

#[test]
fn a_process_that_was_stopped_for_longer_than_the_deadline_keeps_its_members() {
    for folder in [std::env::temp_dir(), "/dev/shm".into()] {
        let bed = Bed::within(&folder, 2, 48 * MIB);
        bed.create("data", 1, bed.drives(), &[]);
        let server = bed
            .serve(bed.drives())
            .option(&["--shards", "2", "--deadline", DEADLINE_S])
            .start();
        let mut ledger = ledger(&server, 0, 1);
        ledger.fill(&mut server.client("data"));
        let load = ledger.load(server.clients("data", 16), Mix::Everything);
        for _ in 0..3 {
            load.wait_for(200, 60);
            server.signal(Signal::STOP);
            std::thread::sleep(PAUSE);
            server.signal(Signal::CONT);
        }
        load.wait_for(200, 60);
        let mut ledger = load.stop();
        assert_eq!(
            server.count_events("member-failed"),
            0,
            "{:?}",
            server.events()
        );
        server.verify("data", &mut ledger);
        server.stop();
    }
}

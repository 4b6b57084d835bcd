//! F rows that no run of a point shows: about one drive's commands, the shape of platforms, and a load.

use crate::predict::built_in::machines;
use lab::workload::Kind;
use lab::workload::act::LIMITS;
use lab::workload::generator::Generator;
use models::drive::{Command, Drive, Operation, State};
use models::library::with_id;
use models::platform::{Kind as NodeKind, Machine};
use std::collections::BTreeMap;

/// Drives that O-08.mode and O-11 are about.
const OPTANE: [&str; 2] = ["p4800x-375gb", "p4800x-750gb"];
/// Lanes of a VMD, drives of four lanes at it, and VMDs of a socket: P-01.count.
const VMD: [u64; 3] = [16, 4, 3];
/// A write of the largest command.
const WRITE_BYTES: u64 = 128 << 10;
/// Writes at once: as much as any buffer of such drives would take.
const WRITES: u64 = 1000;

/// The rows, with what breaks each.
pub(super) fn all() -> [(&'static str, Option<String>); 5] {
    [
        ("O-09.refresh", OPTANE.into_iter().find_map(refresh_differs)),
        ("O-08.mode", OPTANE.into_iter().find_map(|id| worn(id, 2))),
        ("O-11", OPTANE.into_iter().find_map(without_cache)),
        ("O-35", act_is_as_published()),
        ("P-01.rule", machines().iter().find_map(vmd_is_misshapen)),
    ]
}

fn drive(id: &str, state: State) -> Drive {
    let mut profile = with_id(id).expect("the drive comes with the program");
    profile.without_stalls();
    Drive::new(&profile, state, profile.port, 1, 0)
}

/// When the last of so many commands is done that all arrive now.
fn all_done_ns(drive: &mut Drive, operation: Operation, commands: u64) -> u64 {
    all_done_from_ns(drive, operation, commands, 0)
}

/// How long it takes until the last of so many commands is done that all arrive at `now_ns`.
fn all_done_from_ns(drive: &mut Drive, operation: Operation, commands: u64, now_ns: u64) -> u64 {
    let done = (0..commands).map(|command| {
        let command = Command {
            operation,
            offset_bytes: command * WRITE_BYTES,
            length_bytes: WRITE_BYTES,
        };
        drive.submit(command, now_ns).done_ns
    });
    done.max().unwrap_or_default().saturating_sub(now_ns)
}

/// O-09.refresh: after power-on, reads and writes take longer for three hours, within a tenth, and then no longer.
fn refresh_differs(id: &str) -> Option<String> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let of = |is_powered_on: bool, operation, tenths_of_hours: u64| {
        let mut drive = drive(id, State::Steady);
        if is_powered_on {
            drive.power_on();
        }
        let now_ns = tenths_of_hours * HOUR_NS / 10;
        all_done_from_ns(&mut drive, operation, WRITES, now_ns)
    };
    for operation in [Operation::Read, Operation::Write] {
        let usual_ns = of(false, operation, 0);
        for (tenths_of_hours, is_slower) in
            [(0, true), (15, true), (27, true), (33, false), (240, false)]
        {
            let found_ns = of(true, operation, tenths_of_hours);
            if (found_ns > usual_ns) != is_slower {
                return Some(format!(
                    "{id} takes {found_ns} ns for {operation:?} {:.1} hours after power-on, and {usual_ns} as usual",
                    tenths_of_hours as f64 / 10.0
                ));
            }
        }
    }
    None
}

/// O-08.mode: a worn drive limits writes, to less than one in `times`, and goes on serving reads.
fn worn(id: &str, times: u64) -> Option<String> {
    let of = |state, operation| all_done_ns(&mut drive(id, state), operation, WRITES);
    let [steady_ns, worn_ns] = [State::Steady, State::Worn].map(|state| of(state, Operation::Read));
    if steady_ns != worn_ns {
        return Some(format!(
            "{id} reads for {worn_ns} ns when worn, and for {steady_ns} before"
        ));
    }
    let [steady_ns, worn_ns] =
        [State::Steady, State::Worn].map(|state| of(state, Operation::Write));
    (worn_ns < times * steady_ns)
        .then(|| format!("{id} writes for {worn_ns} ns when worn, and for {steady_ns} before"))
}

/// O-11: a write is done when the medium has it.
fn without_cache(id: &str) -> Option<String> {
    let mut drive = drive(id, State::Steady);
    let done_ns = all_done_ns(&mut drive, Operation::Write, WRITES);
    let rate = drive.profile().program_bytes_per_s;
    let programs_ns = WRITES * WRITE_BYTES * 1_000_000_000 / rate;
    if done_ns < programs_ns {
        return Some(format!(
            "{id} has a burst: {done_ns} ns, and its medium needs {programs_ns}"
        ));
    }
    let flush = Command {
        operation: Operation::Flush,
        offset_bytes: 0,
        length_bytes: 0,
    };
    let flush_ns = drive.submit(flush, done_ns).done_ns - done_ns;
    (flush_ns >= drive.profile().write_latency_ns)
        .then(|| format!("{id} flushes for {flush_ns} ns, as if it had a cache"))
}

/// O-35: the load at 1x, and its limits.
fn act_is_as_published() -> Option<String> {
    // 2000 small reads and 23.53 large blocks of each kind, times 85 seconds, are whole numbers.
    const SECONDS: u64 = 85;
    let Ok(mut load) = Generator::act(8, 10, 1 << 40, 1) else {
        return Some("the load is refused".to_owned());
    };
    let mut counts = BTreeMap::<(u32, Kind), u64>::new();
    for thread in 0..load.threads() {
        while let Some(command) = load.next(thread, SECONDS * 1_000_000_000 - 1) {
            load.completed(thread);
            *counts
                .entry((command.length_bytes, command.kind))
                .or_default() += 1;
        }
    }
    let expected = BTreeMap::from([
        ((1536, Kind::Read), 2000 * SECONDS),
        ((128 << 10, Kind::Read), 2000),
        ((128 << 10, Kind::Write), 2000),
    ]);
    if counts != expected {
        return Some(format!("the load has {counts:?}, not {expected:?}"));
    }
    let published = [(1, 5000), (8, 1000), (64, 100)];
    (LIMITS != published).then(|| format!("the limits are {LIMITS:?}, not {published:?}"))
}

/// P-01.rule, for one machine: what is wrong with its VMDs.
fn vmd_is_misshapen(machine: &Machine) -> Option<String> {
    let node = |name: &str| machine.nodes.iter().find(|node| node.name == name);
    // The way from a node to its socket.
    let way = |name: &str| {
        let first = node(name);
        std::iter::successors(first, |at| node(&at.parent)).collect::<Vec<_>>()
    };
    let mut of_socket = BTreeMap::<&str, u64>::new();
    for vmd in machine
        .nodes
        .iter()
        .filter(|node| node.kind == NodeKind::Vmd)
    {
        let lanes = vmd.figures.lanes.value as u64;
        if lanes > VMD[0] {
            return Some(format!(
                "{}: {} has {lanes} lanes",
                machine.platform, vmd.name
            ));
        }
        let socket = way(&vmd.name).last().map_or("", |node| &node.parent);
        *of_socket.entry(socket).or_default() += 1;
    }
    if let Some((socket, count)) = of_socket.into_iter().find(|(_, count)| *count > VMD[2]) {
        return Some(format!("{}: {socket} has {count} VMDs", machine.platform));
    }
    let mut drives = BTreeMap::<&str, u64>::new();
    for bays in &machine.bays {
        let way = way(&bays.parent);
        let mut vmds = way.iter().filter(|node| node.kind == NodeKind::Vmd);
        let Some(vmd) = vmds.next() else { continue };
        if vmds.next().is_some() {
            return Some(format!(
                "{}: {} lies in two VMDs",
                machine.platform, bays.name
            ));
        }
        let is_direct = way.iter().all(|node| node.kind != NodeKind::Switch);
        if is_direct {
            *drives.entry(&vmd.name).or_default() += bays.figures.count.value as u64;
        }
    }
    drives
        .into_iter()
        .find(|(_, count)| *count > VMD[1])
        .map(|(vmd, count)| format!("{}: {vmd} has {count} drives", machine.platform))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_holds() {
        for (id, broken) in all() {
            assert_eq!(broken, None, "{id}");
        }
    }

    #[test]
    fn other_drives_and_machines_break_the_rules() {
        // Flash drives do not refresh their medium after power-on.
        assert!(refresh_differs("p4510-2tb").is_some_and(|what| what.contains("as usual")));
        // A worn Optane Memory writes a tenth of its rate, not a twentieth.
        let told = worn("optane-memory-32gb", 20);
        assert!(told.is_some_and(|what| what.contains("when worn")));
        // Flash drives have a buffer: a burst is done before it is in flash.
        assert!(without_cache("p4510-2tb").is_some_and(|what| what.contains("has a burst")));
        let machines = machines();
        let find = |id: &str| machines.iter().find(|machine| machine.platform == id);
        let mut many = find("s2600wft-8170")
            .expect("it comes with the program")
            .clone();
        assert_eq!(vmd_is_misshapen(&many), None);
        let vmd = many.nodes.iter().find(|node| node.kind == NodeKind::Vmd);
        let vmd = vmd.expect("it has VMDs").clone();
        for number in 0..3 {
            many.nodes.push(models::platform::Node {
                name: format!("more-{number}"),
                ..vmd.clone()
            });
        }
        assert!(vmd_is_misshapen(&many).is_some_and(|what| what.contains("VMDs")));
        let mut wide = find("x299-7960x")
            .expect("it comes with the program")
            .clone();
        wide.bays[0].figures.count.value = 5.0;
        assert!(vmd_is_misshapen(&wide).is_some_and(|what| what.contains("has 5 drives")));
        let mut nested = find("x299-7960x")
            .expect("it comes with the program")
            .clone();
        let vmd = nested.nodes[1].clone();
        nested.nodes.push(models::platform::Node {
            name: "inner".to_owned(),
            parent: vmd.name.clone(),
            ..vmd
        });
        nested.bays[0].parent = "inner".to_owned();
        assert!(vmd_is_misshapen(&nested).is_some_and(|what| what.contains("two VMDs")));
    }
}

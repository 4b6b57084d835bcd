//! What monitoring reads: work counters and states, in the OpenMetrics text format.
//!
//! The text is made from one published status, so all numbers in it belong together. Counters begin
//! at 0 with the process. A state is exported as a set of gauges, of which exactly one is 1, so that monitoring
//! can sum a state over time.

use super::hook::Hook;
use crate::status::drive_health::{FAILING, GOOD, HealthLog, NOT_KNOWN, WARNING};
use crate::status::{JobStatus, MemberStatus, Status, VolumeStatus};
use drives::nvme::Warning;
use engine::stats::Stats;
use exports::export::Statistics;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

const VOLUME_STATES: [&str; 6] = [
    "optimal",
    "degraded",
    "not protected",
    "writes stopped",
    "failed",
    "not started",
];
const MEMBER_STATES: [&str; 4] = ["active", "spare", "failed", "removed"];
const HEALTH_STATES: [&str; 4] = [GOOD, WARNING, FAILING, NOT_KNOWN];
const SLOT_STATES: [&str; 4] = ["in sync", "rebuilding", "failed", "missing"];

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<u64, AtomicU64>>;

/// The metrics of `status`, of each export, and of the event hook if there is one.
///
/// # Errors
/// None in practice: the text is written to memory.
pub fn text(
    status: &Status,
    exports: &[(&'static str, Statistics)],
    hook: Option<&Hook>,
) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("fullstripe");
    for (name, value) in &status.counters {
        let help = help(name);
        registry.register(name.as_str(), help, ConstCounter::new(*value));
    }
    let mut gauge = |name: &str, help: &str, value: u64| {
        registry.register(name, help, ConstGauge::new(value));
    };
    gauge(
        "generation",
        "Number of the last metadata update",
        status.generation,
    );
    gauge("shards", "Data threads", u64::from(status.shards));
    gauge(
        "background_limit_bytes_per_second",
        "Limit of background work per member; 0 is unlimited",
        status.rate_bytes_per_s,
    );
    if let Some(hook) = hook {
        let counts = hook.counts();
        registry.register(
            "hook_calls",
            "Calls of the event hook",
            ConstCounter::new(counts.calls),
        );
        registry.register(
            "hook_failures",
            "Calls of the event hook that failed or took too long",
            ConstCounter::new(counts.failures),
        );
        registry.register(
            "hook_dropped_events",
            "Events left out because the event hook was too slow",
            ConstCounter::new(counts.dropped),
        );
    }
    register_exports(&mut registry, exports);
    register_volumes(&mut registry, &status.volumes);
    register_jobs(&mut registry, &status.volumes);
    register_members(&mut registry, &status.members);
    register_drive_health(&mut registry, &status.members);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// What a counter counts. The registry adds the full stop itself.
fn help(name: &str) -> &'static str {
    let found = Stats::HELP.iter().find(|(counter, _)| *counter == name);
    found.map_or("", |(_, words)| words.trim().trim_end_matches('.'))
}

fn family(registry: &mut Registry, name: &str, help: &str) -> Gauges {
    let gauges = Gauges::default();
    registry.register(name, help, gauges.clone());
    gauges
}

fn register_exports(registry: &mut Registry, exports: &[(&'static str, Statistics)]) {
    type Value = fn(&Statistics) -> u64;
    let counters: [(&str, &str, Value); 6] = [
        ("export_clients_accepted", "Clients accepted", |one| {
            one.clients_accepted
        }),
        (
            "export_clients_refused",
            "Clients turned away, or disconnected because they broke a rule",
            |one| one.clients_refused,
        ),
        ("export_requests", "Requests of clients", |one| one.requests),
        (
            "export_requests_failed",
            "Requests of clients that were answered with an error",
            |one| one.requests_failed,
        ),
        (
            "export_received_bytes",
            "Bytes received from clients",
            |one| one.received_bytes,
        ),
        ("export_sent_bytes", "Bytes sent to clients", |one| {
            one.sent_bytes
        }),
    ];
    let gauges: [(&str, &str, Value); 3] = [
        ("export_clients", "Clients that are connected", |one| {
            one.clients
        }),
        (
            "export_requests_in_flight",
            "Requests of clients that are being carried out",
            |one| one.requests_in_flight,
        ),
        (
            "export_pinned_bytes",
            "Payload memory that hung drives hold",
            |one| one.pinned_bytes,
        ),
    ];
    for (name, help, value) in counters {
        let counters = Family::<Labels, Counter>::default();
        registry.register(name, help, counters.clone());
        for (kind, one) in exports {
            let labels = vec![("export", (*kind).to_owned())];
            counters.get_or_create(&labels).inc_by(value(one));
        }
    }
    for (name, help, value) in gauges {
        let gauges = family(registry, name, help);
        for (kind, one) in exports {
            let labels = vec![("export", (*kind).to_owned())];
            gauges.get_or_create(&labels).inc_by(value(one));
        }
    }
}

/// Sets the gauge of `state` to 1 and those of all other `states` to 0.
fn set_state(gauges: &Gauges, labels: &Labels, states: &[&str], state: &str) {
    for each in states {
        let mut labels = labels.clone();
        labels.push(("state", (*each).to_owned()));
        gauges.get_or_create(&labels).set(u64::from(*each == state));
    }
}

fn register_volumes(registry: &mut Registry, volumes: &[VolumeStatus]) {
    let states = family(
        registry,
        "volume_state",
        "1 for the state that a volume is in",
    );
    let sizes = family(registry, "volume_size_bytes", "Usable size of a volume");
    let dirty = family(
        registry,
        "volume_dirty",
        "1 while the metadata says that writes may be under way",
    );
    let read_only = family(registry, "volume_read_only", "1 while writes are refused");
    let slots = family(registry, "slot_state", "1 for the state that a slot is in");
    for volume in volumes {
        let labels = vec![("volume", volume.name.clone())];
        set_state(&states, &labels, &VOLUME_STATES, &volume.state);
        sizes.get_or_create(&labels).set(volume.size_bytes);
        dirty.get_or_create(&labels).set(u64::from(volume.dirty));
        read_only
            .get_or_create(&labels)
            .set(u64::from(volume.read_only));
        for (at, slot) in volume.slots.iter().enumerate() {
            let mut labels = labels.clone();
            labels.push(("slot", at.to_string()));
            set_state(&slots, &labels, &SLOT_STATES, &slot.state);
        }
    }
}

fn register_jobs(registry: &mut Registry, volumes: &[VolumeStatus]) {
    type Value = fn(&JobStatus) -> u64;
    let values: [(&str, &str, Value); 6] = [
        (
            "job_running",
            "1 while background work runs, 0 while it waits",
            |job| u64::from(job.running),
        ),
        (
            "job_done_bytes",
            "Bytes of each member that have been processed",
            |job| job.done_bytes,
        ),
        (
            "job_total_bytes",
            "Bytes of each member to process in all",
            |job| job.total_bytes,
        ),
        ("job_bytes_per_second", "Speed per member", |job| {
            job.rate_bytes_per_s
        }),
        (
            "job_mismatches",
            "Stripes whose redundancy did not match",
            |job| job.mismatches,
        ),
        (
            "job_failures",
            "Stripes that could not be processed",
            |job| job.failures,
        ),
    ];
    for (name, help, value) in values {
        let gauges = family(registry, name, help);
        for volume in volumes {
            let Some(job) = &volume.job else { continue };
            let labels = vec![("volume", volume.name.clone()), ("job", job.kind.clone())];
            gauges.get_or_create(&labels).set(value(job));
        }
    }
}

fn register_members(registry: &mut Registry, members: &[MemberStatus]) {
    let states = family(
        registry,
        "member_state",
        "1 for the state that a drive is in",
    );
    let sizes = family(registry, "member_size_bytes", "Capacity of a drive");
    for member in members {
        let labels = labels_of(member);
        set_state(&states, &labels, &MEMBER_STATES, &member.state);
        sizes.get_or_create(&labels).set(member.size_bytes);
    }
}

fn labels_of(member: &MemberStatus) -> Labels {
    vec![
        ("member", member.id.to_string()),
        ("drive", member.name.clone()),
        ("serial", member.serial.clone()),
    ]
}

/// What drives in use report about their health. A drive whose health is not known has a state and no numbers, so that no
/// old number is taken for a new one.
fn register_drive_health(registry: &mut Registry, members: &[MemberStatus]) {
    type Value = fn(&HealthLog) -> u64;
    let numbers: [(&str, &str, Value); 4] = [
        (
            "member_life_used_percent",
            "Rated life that a drive has used; may exceed 100",
            |log| u64::from(log.used_percent),
        ),
        (
            "member_available_spare_percent",
            "Spare capacity that a drive has left, of the original",
            |log| u64::from(log.available_spare_percent),
        ),
        (
            "member_spare_threshold_percent",
            "Spare capacity below which a drive warns",
            |log| u64::from(log.spare_threshold_percent),
        ),
        (
            "member_media_errors",
            "Errors that a drive could not correct since it was made",
            |log| log.media_errors,
        ),
    ];
    let in_use = members.iter();
    let in_use = in_use.filter(|member| matches!(member.state.as_str(), "active" | "spare"));
    let in_use: Vec<&MemberStatus> = in_use.collect();
    let states = family(
        registry,
        "member_health_state",
        "1 for the health that a drive reports",
    );
    for member in &in_use {
        let labels = labels_of(member);
        set_state(&states, &labels, &HEALTH_STATES, &member.health.state);
    }
    let warnings = family(
        registry,
        "member_warning",
        "1 while a drive reports this warning about its health",
    );
    let celsius = Family::<Labels, Gauge>::default();
    let help = "Temperature that a drive reports";
    registry.register("member_temperature_celsius", help, celsius.clone());
    let known = |member: &&MemberStatus| member.health.state != NOT_KNOWN;
    let logs = in_use.into_iter().filter(known);
    let logs: Vec<_> = logs
        .filter_map(|member| Some((member, member.health.log.as_ref()?)))
        .collect();
    for (member, log) in &logs {
        let labels = labels_of(member);
        celsius.get_or_create(&labels).set(i64::from(log.celsius));
        for name in Warning::ALL.map(Warning::name) {
            let labels = [&labels[..], &[("warning", name.to_owned())]].concat();
            let is_reported = member.health.warnings.iter().any(|one| one == name);
            warnings.get_or_create(&labels).set(u64::from(is_reported));
        }
    }
    for (name, help, value) in numbers {
        let gauges = family(registry, name, help);
        for (member, log) in &logs {
            gauges.get_or_create(&labels_of(member)).set(value(log));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::DriveHealth;
    use crate::testing::samples::member;

    #[test]
    fn a_drive_has_its_numbers_and_one_that_does_not_say_has_none() {
        let mut status = Status {
            members: vec![member(0, "active"), member(1, "spare"), member(2, "failed")],
            ..Status::default()
        };
        status.members[0].health = DriveHealth {
            state: FAILING.to_owned(),
            not_known: None,
            may_report: true,
            log: Some(HealthLog {
                read_s: 1_700_000_000,
                celsius: -3,
                used_percent: 104,
                available_spare_percent: 9,
                spare_threshold_percent: 10,
                media_errors: 7,
            }),
            warnings: vec!["spare-low".to_owned(), "worn-out".to_owned()],
        };
        let text = text(&status, &[], None).unwrap();
        let drive =
            |id: u8| format!("member=\"{id}\",drive=\"/dev/nvme{id}n1\",serial=\"SERIAL{id}\"");
        for (metric, more, value) in [
            ("member_temperature_celsius", "", -3),
            ("member_life_used_percent", "", 104),
            ("member_available_spare_percent", "", 9),
            ("member_spare_threshold_percent", "", 10),
            ("member_media_errors", "", 7),
            ("member_warning", ",warning=\"spare-low\"", 1),
            ("member_warning", ",warning=\"hot\"", 0),
            ("member_health_state", ",state=\"failing\"", 1),
            ("member_health_state", ",state=\"good\"", 0),
        ] {
            let line = format!("fullstripe_{metric}{{{}{more}}} {value}\n", drive(0));
            assert!(text.contains(&line), "no {line} in {text}");
        }
        let unknown = format!(
            "fullstripe_member_health_state{{{},state=\"not known\"}} 1\n",
            drive(1)
        );
        assert!(text.contains(&unknown), "{text}");
        let of_spare = text.lines().filter(|line| line.contains(&drive(1)));
        assert!(
            !of_spare.clone().any(|line| line.contains("celsius")),
            "{text}"
        );
        assert!(!text.contains(&format!("health_state{{{}", drive(2))));
    }
}

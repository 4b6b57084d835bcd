//! The costs of hosts.

use super::*;

#[test]
fn a_core_of_three_gigahertz_passes_what_was_published() {
    // O-23: one thread reads 1.2 GB/s in 4 KiB requests, asynchronously with interrupts, many answers per interrupt.
    let cores = graph("s2600wft-6154-x16").cores;
    let costs = host("linux-4.13")
        .host()
        .unwrap()
        .costs(&cores, 1, Completion::Interrupt);
    let kiops = 1e6 / costs.direct_request_ns(100) as f64;
    assert!((kiops / 293.0 - 1.0).abs() < 0.02, "{kiops}");
    // Page-table isolation costs as much as its maker says.
    let isolated = host("linux-3.10-kpti")
        .host()
        .unwrap()
        .costs(&cores, 1, Completion::Interrupt);
    let loss = 1.0 - costs.direct_request_ns(100) as f64 / isolated.direct_request_ns(100) as f64;
    assert!((0.08..0.19).contains(&loss), "{loss}");
}

#[test]
fn polling_saves_the_interrupt_and_the_appliance_costs_nothing() {
    let cores = graph("s2600wft-6154-x16").cores;
    let host_of = |name: &str| host(name).host().unwrap();
    let delay_ns = |completion| {
        let costs = host_of("linux-4.13").costs(&cores, 1, completion);
        costs.notice_ns + costs.interrupt_ns + costs.switch_ns + costs.answer_command_ns
    };
    // O-17 names one to two microseconds for synchronous reads.
    let saved_ns = delay_ns(Completion::Interrupt) - delay_ns(Completion::Polled);
    assert!((900..=2_400).contains(&saved_ns), "{saved_ns}");
    let looks = |completion| {
        host_of("linux-4.13")
            .costs(&cores, 1, completion)
            .look_per_mille
    };
    let all = [
        Completion::Interrupt,
        Completion::Hybrid,
        Completion::Polled,
    ]
    .map(looks);
    assert_eq!(all, [0, 500, 1000]);
    let nothing = host_of("appliance").costs(&cores, 1, Completion::Interrupt);
    assert_eq!(nothing, models::host::Costs::default());
}

#[test]
fn every_constant_of_a_host_makes_requests_dearer_or_later() {
    let cores = graph("s2600wft-6154-x16").cores;
    let sum = |file: &HostFile, completion| {
        let costs = file.host().unwrap().costs(&cores, 1, completion);
        let shared_queue_ns = costs.queue_held_ns + costs.kick_ns;
        costs.direct_request_ns(1) + costs.page_ns + costs.notice_ns + shared_queue_ns
    };
    let mut names = Vec::new();
    host("linux-3.10-kpti").each_figure(&mut |table, key, _| names.push(format!("{table}.{key}")));
    for name in names.iter().filter(|name| {
        // Numbers of things, and what is or is not so.
        let others = [
            "_isolation",
            "share",
            "_changes",
            "_per_call",
            "_lines",
            "_spread",
        ];
        !others.map(|end| name.ends_with(end)).contains(&true)
    }) {
        let polled = name.contains("polled") || name.contains("look");
        let completion = if polled {
            Completion::Polled
        } else {
            Completion::Interrupt
        };
        let [less, more] = [0.8, 1.25].map(|factor| {
            let mut file = host("linux-3.10-kpti");
            file.figure_mut(name).unwrap().value *= factor;
            sum(&file, completion)
        });
        assert!(less < more, "{name}: {less} {more}");
    }
}

#[test]
fn who_polls_takes_two_locks_of_a_queue_and_hands_nothing_over() {
    let cores = graph("x299-7960x").cores;
    let checked = |name: &str| host(name).host().expect("a host that keeps every rule");
    let costs = |completion| checked("linux-6.12").costs(&cores, 1, completion);
    let by_interrupt = costs(Completion::Interrupt);
    assert_eq!(by_interrupt.queue_lock_changes, 2);
    assert_eq!(by_interrupt.handed_lines, 3);
    assert!(by_interrupt.queue_lock_per_call && by_interrupt.spreads_handlers);
    for completion in [Completion::Polled, Completion::Hybrid] {
        let polled = costs(completion);
        assert_eq!((polled.queue_lock_changes, polled.handed_lines), (4, 0));
    }
    let old = checked("linux-4.13").costs(&cores, 1, Completion::Interrupt);
    assert!(!old.queue_lock_per_call && !old.spreads_handlers);
}

#[test]
fn mds_work_scales_with_the_clock_and_a_wrong_number_is_told() {
    let costs = |platform: &str| md().costs(&graph(platform).cores, 8).unwrap();
    let [fast, slow] = ["s2600wft-6154-x16", "s2600wft-8170"].map(costs);
    // The clocks are 3.0 and 2.8 GHz.
    assert_eq!([fast.map_ns, slow.map_ns], [200, 214]);
    assert_eq!(fast.page_ns, slow.page_ns);
    assert_eq!(fast.line_ns, [8, 60, 200]);
    assert_eq!(fast.chunk_bytes, 128 << 10);
    let cores = graph("s2600wft-8170").cores;
    let mut wrong = md();
    wrong.figure_mut("array.stripe_cache_heads").unwrap().value = 16.0;
    assert_eq!(
        wrong.costs(&cores, 8).unwrap_err().to_string(),
        "md-2018: array.stripe_cache_heads is 16, but has to be from 17 to 32768"
    );
    wrong = md();
    wrong.schema = 7;
    assert_eq!(
        wrong.costs(&cores, 8).unwrap_err().to_string(),
        "md-2018: schema is 7, but this program reads 1"
    );
}

#[test]
fn a_raid_driver_costs_cycles_a_lock_and_a_delay() {
    let cores = graph("x299-7960x").cores;
    let vroc = raid_driver("vroc-windows-2017");
    let alone = vroc.costs(&cores, 1).expect("its numbers are sound");
    assert_eq!([alone.request_ns, alone.command_ns], [1000, 278]);
    assert_eq!([alone.serial_ns, alone.delay_ns], [950, 4000]);
    // More threads than cores slow work down, and neither the lock nor the delay.
    let crowded = vroc.costs(&cores, 64).expect("its numbers are sound");
    assert!(crowded.request_ns > 3 * alone.request_ns);
    assert_eq!(crowded.serial_ns, alone.serial_ns);
    let mut wrong = vroc;
    wrong.array.chunk_kib.value = 2.0;
    let told = wrong.costs(&cores, 1).expect_err("a chunk of 2 KiB");
    assert_eq!(
        told.to_string(),
        "vroc-windows-2017: array.chunk_kib is 2, but has to be from 4 to 1024"
    );
}

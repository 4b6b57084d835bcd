//! Each test breaks the state on purpose, and the check has to notice it.

use super::*;
use crate::claims::Claims;
use crate::control::record::{MemberRecord, MemberState, Record, SlotRecord, VolumeRecord};
use crate::layout::{Geometry, Level};
use crate::options::Options;
use crate::order::ranges::{BandKey, Part};
use crate::request::Request;
use crate::setup::Setup;
use crate::units::{Buffer, MemberId, Nanos, ShardId, VolumeId};
use crate::world::Input;

/// An engine with a read under way that needs no plan, and one that needs one.
fn engine() -> Engine {
    let geometry = Geometry::new(Geometry {
        level: Level::Raid0,
        members: 2,
        chunk_bytes: 64 << 10,
        start_bytes: 0,
        component_bytes: 1 << 20,
        size_bytes: 2 << 20,
        block_bytes: 512,
    })
    .unwrap();
    let drive = MemberRecord {
        state: MemberState::Active,
        size_bytes: 8 << 20,
        ..MemberRecord::ABSENT
    };
    let slot = |member| SlotRecord {
        member: Some(MemberId(member)),
        current: true,
    };
    let volume = VolumeRecord {
        geometry,
        not_started: false,
        read_only: false,
        dirty: false,
        slots: vec![slot(0), slot(1)],
        sync: None,
        then_resync: false,
        log: None,
        bitmap: None,
    };
    let record = Record {
        generation: 1,
        members: vec![drive; 2],
        volumes: vec![volume],
        bad_blocks: Default::default(),
    };
    let setup = Setup {
        shard: ShardId(0),
        shards: 1,
        record,
        scratch: (Buffer(0), 16 << 20),
        zeros: Buffer(16 << 20),
        options: Options::default(),
        claims: Claims::new(),
    };
    let mut engine = Engine::new(setup, Nanos(0));
    for (tag, length_bytes) in [(1, 4096), (2, 128 << 10)] {
        let request = Request {
            tag,
            volume: VolumeId(0),
            operation: Operation::Read,
            fua: false,
            offset_bytes: 0,
            length_bytes,
            buffer: Buffer(32 << 20),
        };
        engine.handle(Input::Request(request), Nanos(1));
    }
    assert_eq!(
        (engine.flight.singles_used(), engine.flight.plans_used()),
        (1, 1)
    );
    engine
}

#[test]
fn what_is_whole_passes() {
    engine().check();
}

macro_rules! noticed {
    ($($name:ident, $words:literal, $break:expr;)*) => {$(
        #[test]
        #[should_panic(expected = $words)]
        fn $name() {
            let mut engine = engine();
            let spoil: fn(&mut Engine) = $break;
            spoil(&mut engine);
            engine.check();
        }
    )*};
}

noticed! {
    a_request_too_many_is_noticed, "requests of ports and of other shards", |engine| engine.admission.begun(false);
    a_lost_single_is_noticed, "may yet need a plan", |engine| engine.flight.single_needs_none();
    a_lost_command_is_noticed, "commands with member 1", |engine| engine.members.forget_commands(MemberId(1));
    a_lost_step_is_noticed, "steps that plan 0 waits for", |engine| engine.flight.running_mut(0).step_goes_out(0);
    a_lost_lock_is_noticed, "requests that hold one", |engine| {
        engine.flight.take_plan(Work::LogFlush { log: 0 }, 0, 5);
    };
    a_lost_scratch_block_is_noticed, "scratch blocks that are lent", |engine| {
        engine.flight.lose_scratch();
    };
    a_lost_forward_is_noticed, "pieces with other shards", |engine| engine.admission.piece_sent();
    a_request_that_waits_for_nothing_is_noticed, "has 1 here", |engine| {
        engine.admission[0].piece_ends();
    };
    a_request_in_a_list_too_many_is_noticed, "lists in which request 0 waits", |engine| {
        engine.admission.stall(0);
    };
    a_plan_in_a_list_too_many_is_noticed, "lists in which plan 0 waits", |engine| engine.flight.hold(0);
    a_name_of_nothing_is_noticed, "plan 7 is referred to, and not in use", |engine| engine.flight.hold(7);
    a_leak_of_a_part_is_noticed, "parts that wait or are planned", |engine| {
        engine.order.ranges.make_part(Part::background((0, 4096), Buffer(1)));
    };
    work_that_nobody_will_look_at_is_noticed, "nobody will look", |engine| {
        let part = engine.order.ranges.make_part(Part::background((0, 4096), Buffer(1)));
        engine.order.ranges.requeue_quietly(BandKey { volume: 0, band: 3 }, part);
    };
    a_part_of_nothing_is_noticed, "is empty", |engine| {
        let part = Part::background((4096, 4096), Buffer(1));
        engine.order.ranges.add(BandKey { volume: 0, band: 3 }, part);
    };
    a_write_plan_too_many_is_noticed, "write plans of volume 0", |engine| engine.volumes[0].writes_mut().plan_begins();
    a_write_too_many_is_noticed, "requests that write to volume 0", |engine| {
        engine.volumes[0].writes_mut().begin(Nanos(0));
    };
    plans_that_wait_for_logs_are_counted, "plans that wait for logs", |engine| engine.hole_logs.miscount();
    a_plan_that_waits_for_a_log_too_many_is_noticed, "plan 0 waits for log 0", |engine| {
        let area = crate::control::record::LogArea { offset_bytes: 0, length_bytes: 1 << 20 };
        let log = crate::log::slot::SlotLog::new(VolumeId(0), crate::units::Slot(0), area, Buffer(0));
        let log = engine.hole_logs.open(log);
        engine.hole_logs.wait(log, 0);
    };
    a_name_that_is_given_out_again_is_noticed, "is given out again", |engine| {
        let name = engine.flight.running(0).name_of(0, 0);
        assert!(engine.flight.leave_command(name, MemberId(1)));
    };
    a_leak_of_a_request_is_noticed, "requests of ports and of other shards", |engine| {
        engine.admission.take_counted();
    };
}

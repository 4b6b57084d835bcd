use super::*;

const READS: f64 = 50_000.0;
const WRITES: f64 = 20_000.0;

fn speed() -> MemberSpeed {
    let limits = Limits {
        read_iops: Some(50_000),
        write_iops: Some(20_000),
        ..Limits::default()
    };
    MemberSpeed::of(&limits)
}

fn question(level: Level, members: u8, read_percent: u8) -> Question {
    Question {
        level,
        members,
        chunk_bytes: 65_536,
        degraded: false,
        workload: Workload {
            read_percent,
            random: true,
        },
        block_bytes: 4096,
        stream_depth: 128,
        queue_depth: 128,
    }
}

fn assert_limit(question: &Question, expected: f64) {
    let found = roofline(question, &speed());
    let iops = found.iops.expect("limited");
    assert!(
        (iops / expected - 1.0).abs() < 1e-9,
        "{iops} is not {expected}: {}",
        found.words
    );
}

#[test]
fn the_classic_formulas() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5] {
        assert_limit(&question(level, 4, 100), 4.0 * READS);
    }
    assert_limit(&question(Level::Raid0, 5, 0), 5.0 * WRITES);
    assert_limit(&question(Level::Raid1, 3, 0), WRITES);
    assert_limit(&question(Level::Raid10, 6, 0), 3.0 * WRITES);
    assert_limit(
        &question(Level::Raid5, 4, 0),
        4.0 / (2.0 / READS + 2.0 / WRITES),
    );
    assert_limit(
        &question(Level::Raid5, 3, 0),
        3.0 / (1.0 / READS + 2.0 / WRITES),
    );
}

#[test]
fn full_stripes_move_all_but_one_member_of_bandwidth() {
    let bandwidth = WRITES * 4096.0;
    let row = 3.0 * 65_536.0;
    let whole = Question {
        block_bytes: 3 * 65_536,
        ..question(Level::Raid5, 4, 0)
    };
    assert_limit(&whole, 3.0 * bandwidth / row);
    let workload = Workload {
        read_percent: 0,
        random: false,
    };
    let merged = Question {
        workload,
        ..question(Level::Raid5, 4, 0)
    };
    assert_limit(&merged, 3.0 * bandwidth / 4096.0);
    let shallow = Question {
        stream_depth: 8,
        ..merged
    };
    assert_limit(&shallow, 4.0 / (2.0 / READS + 2.0 / WRITES));
    let lost = Question {
        degraded: true,
        ..whole
    };
    assert_limit(&lost, 3.0 * bandwidth / row);
}

#[test]
fn part_stripes_of_whole_chunks() {
    // Five of ten data chunks: the other five are read, five and parity are written.
    let (reads, writes) = (READS / 16.0, WRITES / 16.0);
    let most = Question {
        block_bytes: 5 * 65_536,
        ..question(Level::Raid5, 11, 0)
    };
    assert_limit(&most, 11.0 / (5.0 / reads + 6.0 / writes));
    let odd = Question {
        block_bytes: 3 * 65_536,
        ..question(Level::Raid5, 6, 0)
    };
    let found = roofline(&odd, &speed());
    assert_eq!(found.iops, None);
    assert!(
        found
            .words
            .starts_with("no simple formula for writes of 196608"),
        "{}",
        found.words
    );
}

#[test]
fn degraded() {
    let lost = |level, members, read_percent| Question {
        degraded: true,
        ..question(level, members, read_percent)
    };
    assert_limit(&lost(Level::Raid5, 4, 100), 2.0 * READS);
    assert_limit(&lost(Level::Raid10, 4, 100), 2.0 * READS);
    assert_limit(&lost(Level::Raid1, 3, 100), 2.0 * READS);
    assert_limit(&lost(Level::Raid1, 2, 0), WRITES);
    assert_limit(&lost(Level::Raid10, 4, 0), 2.0 * WRITES);
    let expected = 3.0 / ((6.0 / READS + 6.0 / WRITES) / 4.0);
    assert_limit(&lost(Level::Raid5, 4, 0), expected);
}

#[test]
fn mixes_add_up_by_time() {
    let (reads, writes) = (4.0 * READS, 4.0 / (2.0 / READS + 2.0 / WRITES));
    assert_limit(
        &question(Level::Raid5, 4, 70),
        1.0 / (0.7 / reads + 0.3 / writes),
    );
}

#[test]
fn bytes_limit_where_they_cost_more_than_count() {
    let limits = Limits {
        read_iops: Some(1_000_000),
        bandwidth_bytes_per_second: Some(1 << 30),
        ..Limits::default()
    };
    let large = Question {
        block_bytes: 65_536,
        ..question(Level::Raid0, 2, 100)
    };
    let found = roofline(&large, &MemberSpeed::of(&limits));
    assert_eq!(found.iops.map(f64::round), Some(2.0 * 16_384.0));
    let measured = MemberSpeed {
        read: Cost::measured(4096, READS),
        ..MemberSpeed::default()
    };
    let found = roofline(&question(Level::Raid0, 2, 100), &measured);
    assert_eq!(found.iops.map(f64::round), Some(2.0 * READS));
}

#[test]
fn unlimited_members_and_latency() {
    let free = roofline(&question(Level::Raid5, 4, 0), &MemberSpeed::default());
    assert_eq!(
        free,
        Roofline {
            iops: None,
            words: "not limited by members".to_owned()
        }
    );
    let slow = MemberSpeed {
        latency: Nanos(80_000),
        ..MemberSpeed::default()
    };
    let single = Question {
        queue_depth: 1,
        ..question(Level::Raid5, 4, 0)
    };
    assert_eq!(roofline(&single, &slow).iops.map(f64::round), Some(6250.0));
}

#[test]
fn the_words_show_formula_and_figures() {
    let found = roofline(&question(Level::Raid5, 4, 70), &speed());
    assert_eq!(
        found.words,
        "1 / (0.70 / [N x R] + 0.30 / [N / (2/R + 2/W)]) with N = 4, R = 50000/s, W = 20000/s at \
         4096 bytes"
    );
}

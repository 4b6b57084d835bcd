use super::capacity::capacity;
use super::endurance::amplification_at_most;
use super::loss::{
    YEAR_S, at_least_one, failures_per_s, other_drives, rebuild_at_most_bytes_per_s,
};
use super::*;
use assembly::level::in_format;
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::geometry::SizeRequest;
use metadata::imsm::{Mpb, Serial, VolumeName};
use repeatable::random::Stream;

const ARRAYS: [Level; 4] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10];

/// A drive of 2 TB for servers.
const DRIVE: DriveFigures = DriveFigures {
    capacity_bytes: 2_000_000_000_000,
    idle_watts: 5.0,
    endurance_dwpd: 0.7,
    warranty_years: 5.0,
    unreadable_per_bit: 1e-17,
    annual_failure_share: 0.0044,
};

/// Four of them with a spare.
fn shape(level: Level) -> Shape {
    Shape {
        level,
        drives: 4,
        spares: 1,
    }
}

const LOAD: Load = Load {
    iops: 90e3,
    drives_watts: 40.0,
    written_bytes_per_s: 100e6,
    amplification: Some(2.0),
    written_drives: 4,
    rebuild_bytes_per_s: Some(2e9),
};

fn is_near(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-9
}

/// The size of the volume that `create` puts on new drives.
fn created_bytes(level: Level, drives: u32, chunk_bytes: u32, drive_bytes: u64) -> Option<u64> {
    let new = |number: u32| NewDrive {
        serial: Serial::from_drive(format!("S{number:03}").as_bytes()),
        total_sectors: drive_bytes / 512,
    };
    let drives: Vec<NewDrive> = (0..drives).map(new).collect();
    let spec = VolumeSpec {
        name: VolumeName::new("v").expect("a name"),
        level: in_format(level.array().expect("an array")),
        strip_sectors: chunk_bytes / 512,
        size: SizeRequest::Largest,
        born_in_sync: false,
        allow_wide: true,
    };
    let identity = ContainerIdentity {
        family_num: 1,
        creation_time: 1,
    };
    let record = Mpb::create(&drives, &spec, identity).ok()?;
    Some(record.volumes[0].size_sectors * 512)
}

#[test]
fn every_array_holds_what_create_gives_or_neither_is_possible() {
    let (mut possible, mut impossible) = (0, 0);
    for level in ARRAYS {
        for drives in 1..=64 {
            for chunk_kib in [4, 128, 512, 1024] {
                for drive_bytes in [1_000_000_000, 960_197_124_096, 2_000_000_000_000] {
                    let planned = capacity(level, drives, chunk_kib << 10, drive_bytes).ok();
                    let created = created_bytes(level, drives, chunk_kib << 10, drive_bytes);
                    let usable = planned.map(|capacity| capacity.usable_bytes);
                    // One drive is no array for the setups of plans, but the format has RAID 0 of one.
                    assert_eq!(
                        usable, created,
                        "{level:?} {drives} {chunk_kib} {drive_bytes}"
                    );
                    *(if usable.is_some() {
                        &mut possible
                    } else {
                        &mut impossible
                    }) += 1;
                }
            }
        }
    }
    assert!(
        possible > 1000 && impossible > 500,
        "{possible} {impossible}"
    );
}

#[test]
fn four_drives_of_2_tb_hold_so_many_bytes() {
    // 2e12 / 512 = 3,906,250,000 sectors, of which 10,402 are kept, and the rest is rounded down to 2,048.
    let member_bytes = 1_999_994_093_568;
    for (level, members) in [(Level::Raid0, 4), (Level::Raid5, 3), (Level::Raid10, 2)] {
        let held = capacity(level, 4, 128 << 10, DRIVE.capacity_bytes).expect("it is possible");
        assert_eq!(held.usable_bytes, members * member_bytes);
        assert_eq!(held.member_bytes, member_bytes);
    }
    let alone = capacity(Level::Single, 1, 0, DRIVE.capacity_bytes).expect("no metadata");
    assert_eq!(alone.usable_bytes, DRIVE.capacity_bytes);
    let refused = |level, drives, bytes| {
        capacity(level, drives, 128 << 10, bytes)
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(Level::Raid5, 2, 1 << 40).contains("RAID 5"),
        "{}",
        refused(Level::Raid5, 2, 1 << 40)
    );
    assert!(refused(Level::Raid0, 2, 1 << 20).contains("metadata needs more than"));
}

#[test]
fn price_power_and_endurance_are_those_computed_by_hand() {
    let prices = UnitPrices {
        drive: 210.0,
        platform: None,
    };
    let capacity = Capacity {
        usable_bytes: 6_000_000_000_000,
        member_bytes: 2_000_000_000_000,
    };
    let sizing = size(&DRIVE, &shape(Level::Raid5), capacity, &LOAD, Some(&prices));
    let price = sizing.price.expect("there are prices");
    assert_eq!((price.total, price.per_usable_tb), (1050.0, 175.0));
    assert!(is_near(
        price.per_thousand_iops.expect("it serves"),
        1050.0 / 90.0
    ));
    let with_platform = UnitPrices {
        platform: Some(9000.0),
        ..prices
    };
    let price = size(
        &DRIVE,
        &shape(Level::Raid5),
        capacity,
        &LOAD,
        Some(&with_platform),
    )
    .price;
    assert_eq!(price.map(|price| price.total), Some(10_050.0));
    // 40 W and one idle spare of 5 W; 45 J a second for 90,000 requests a second.
    assert_eq!(sizing.power.watts, 45.0);
    assert!(is_near(
        sizing.power.joules_per_million_io.expect("it serves"),
        500.0
    ));
    // 50 MB a second to each drive are 4.32 TB a day, 2.16 times what it holds; 0.7 x 5 / 2.16.
    let endurance = sizing.endurance.expect("it writes");
    assert!(is_near(endurance.drive_writes_per_day, 2.16));
    assert!(is_near(endurance.years, 3.5 / 2.16));
}

#[test]
fn what_does_not_happen_has_no_figure_instead_of_infinity() {
    let capacity = Capacity {
        usable_bytes: 1,
        member_bytes: 1,
    };
    let idle = Load {
        iops: 0.0,
        written_bytes_per_s: 0.0,
        rebuild_bytes_per_s: None,
        ..LOAD
    };
    let prices = UnitPrices {
        drive: 1.0,
        platform: None,
    };
    let sizing = size(&DRIVE, &shape(Level::Raid5), capacity, &idle, Some(&prices));
    assert_eq!(sizing.price.and_then(|price| price.per_thousand_iops), None);
    assert_eq!(sizing.power.joules_per_million_io, None);
    assert_eq!(sizing.endurance, None);
    assert_eq!(sizing.losses.second, None);
    assert!(sizing.losses.survives_one);
}

#[test]
fn each_level_writes_its_copies_its_parity_and_its_log() {
    let random = |level, drives| amplification_at_most(level, drives, 128 << 10, 4096, false);
    let in_order = |level, drives| amplification_at_most(level, drives, 128 << 10, 128 << 10, true);
    assert_eq!(random(Level::Single, 1), 1.0);
    assert_eq!(random(Level::Raid0, 4), 1.0);
    assert_eq!(random(Level::Raid1, 2), 2.0);
    assert_eq!(random(Level::Raid10, 8), 2.0);
    // Data, parity, partial parity, and a header as long as the request.
    assert_eq!(random(Level::Raid5, 4), 4.0);
    // 512 KiB for 384 KiB, and a header of 4 KiB.
    assert!(is_near(in_order(Level::Raid5, 4), 516.0 / 384.0));
}

#[test]
fn a_second_loss_is_as_likely_as_computed_by_hand() {
    let capacity = capacity(Level::Raid5, 4, 128 << 10, DRIVE.capacity_bytes).expect("possible");
    let losses = size(&DRIVE, &shape(Level::Raid5), capacity, &LOAD, None).losses;
    let second = losses.second.expect("RAID 5 survives one");
    assert_eq!(second.other_drives, 3);
    // About 1000 s at 2 GB/s; ln(1 / 0.9956) = 0.00440971 a year of 31,557,600 s.
    assert!((second.rebuild_seconds - 1000.0).abs() < 0.01, "{second:?}");
    let expected = 3.0 * 0.004_409_709_5 / 31_557_600.0 * second.rebuild_seconds;
    assert!((second.drive / expected - 1.0).abs() < 1e-6, "{second:?}");
    // 6 TB are 4.8e13 bits, so 4.8e-4 sectors are expected to be unreadable.
    assert!((second.block - 4.798_8e-4).abs() < 1e-8, "{second:?}");
    let either = 1.0 - (1.0 - second.drive) * (1.0 - second.block);
    assert!((second.either / either - 1.0).abs() < 1e-9, "{second:?}");
    // Four drives, each of which survives a year with 0.9956.
    assert!(is_near(losses.first_per_year, 1.0 - 0.9956_f64.powi(4)));
}

#[test]
fn each_level_names_the_drives_on_which_it_depends() {
    let others = [
        Level::Single,
        Level::Raid0,
        Level::Raid1,
        Level::Raid10,
        Level::Raid5,
    ]
    .map(|level| other_drives(level, 6));
    assert_eq!(others, [None, None, Some(1), Some(1), Some(5)]);
}

/// MTTDL = MTTF² / (n k MTTR), Patterson, Gibson and Katz: the mean time between first failures, over the share of them that are
/// followed by a second.
#[test]
fn rare_second_losses_give_the_mean_time_to_data_loss_of_1988() {
    let capacity = capacity(Level::Raid5, 4, 128 << 10, DRIVE.capacity_bytes).expect("possible");
    let losses = size(&DRIVE, &shape(Level::Raid5), capacity, &LOAD, None).losses;
    let second = losses.second.expect("RAID 5 survives one");
    let mttf_s = 1.0 / failures_per_s(DRIVE.annual_failure_share);
    let of_1988_s = mttf_s * mttf_s / (4.0 * 3.0 * second.rebuild_seconds);
    let ours_s = mttf_s / 4.0 / second.drive;
    assert!(
        (ours_s / of_1988_s - 1.0).abs() < 1e-6,
        "{ours_s} {of_1988_s}"
    );
}

#[test]
fn at_least_one_event_is_as_exact_as_the_platforms_mathematics() {
    let mut expected: f64 = 1e-18;
    while expected < 60.0 {
        let exact = -(-expected).exp_m1();
        let ours = at_least_one(expected);
        assert!(
            (ours / exact - 1.0).abs() < 1e-14,
            "{expected}: {ours} {exact}"
        );
        expected *= 1.37;
    }
    assert_eq!(at_least_one(0.0), 0.0);
    assert_eq!(at_least_one(f64::INFINITY), 1.0);
}

/// Draws the rebuild again and again: each other drive has a life of its own, and unreadable sectors lie at distances of their own.
#[test]
fn a_second_loss_is_as_frequent_as_in_drawn_rebuilds() {
    const TRIALS: u32 = 100_000;
    let bad = DriveFigures {
        annual_failure_share: 0.6,
        unreadable_per_bit: 1.2e-14,
        ..DRIVE
    };
    let slow = Load {
        rebuild_bytes_per_s: Some(2e12 / (YEAR_S / 20.0)),
        ..LOAD
    };
    for (level, drives) in [(Level::Raid5, 4), (Level::Raid10, 4)] {
        let shape = shape(level);
        let capacity = capacity(level, drives, 128 << 10, bad.capacity_bytes).expect("possible");
        let losses = size(&bad, &shape, capacity, &slow, None).losses;
        let second = losses.second.expect("it survives one");
        let mut stream = Stream::new(1, "rebuilds", u64::from(drives));
        // The life of drives of which 40 % survive a year; the distance between sectors that cannot be read.
        let mean_life_s = YEAR_S / (1.0_f64 / 0.4).ln();
        let others = match level {
            Level::Raid5 => 3,
            _ => 1,
        };
        let (mut drive, mut block, mut either) = (0, 0, 0);
        for _ in 0..TRIALS {
            let (mut fails, mut unreadable) = (false, false);
            for _ in 0..others {
                fails |= stream.exponential() * mean_life_s < YEAR_S / 20.0;
                unreadable |= stream.exponential() / bad.unreadable_per_bit < 2e12 * 8.0;
            }
            drive += u32::from(fails);
            block += u32::from(unreadable);
            either += u32::from(fails || unreadable);
        }
        for (what, counted, computed) in [
            ("drive", drive, second.drive),
            ("block", block, second.block),
            ("either", either, second.either),
        ] {
            let share = f64::from(counted) / f64::from(TRIALS);
            let deviation = (computed * (1.0 - computed) / f64::from(TRIALS)).sqrt();
            assert!(
                (share - computed).abs() < 4.0 * deviation,
                "{level:?} {what}: {share} drawn, {computed} computed"
            );
        }
    }
}

#[test]
fn a_rebuild_is_as_fast_as_the_slowest_of_drives_and_links() {
    let pace =
        |level, read, write, links| rebuild_at_most_bytes_per_s(&shape(level), read, write, links);
    assert_eq!(pace(Level::Raid5, 3e9, 2e9, None), 2e9);
    assert_eq!(pace(Level::Raid5, 1e9, 2e9, Some(20e9)), 1e9);
    // Three of four drives are read over a link of 4.5 GB/s.
    assert_eq!(pace(Level::Raid5, 3e9, 2e9, Some(4.5e9)), 1.5e9);
    // A mirror is read from one drive only.
    assert_eq!(pace(Level::Raid10, 3e9, 2e9, Some(4.5e9)), 2e9);
}

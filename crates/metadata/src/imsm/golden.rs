//! Records made by mdadm 4.2, as values of their fields; for tests.
//!
//! They were read from images of 64 MiB drives after a clean stop. When the fields are encoded, they must give
//! the checksums that were on the images.

use super::attributes::{Attributes, SIGNATURE_PREFIX};
use super::record::*;
use super::serial::Serial;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The fields that differ between the golden records.
pub struct Golden {
    pub version: &'static str,
    pub serials: Vec<String>,
    pub drive_sectors: u64,
    pub family: u32,
    pub generation: u32,
    pub creation_time: u64,
    pub name: &'static str,
    pub size_sectors: u64,
    pub level: u8,
    pub domains: u8,
    pub sectors_per_member: u64,
    pub stripes: u64,
}

impl Golden {
    pub fn record(&self) -> Mpb {
        let mut signature = [0; 32];
        signature[..24].copy_from_slice(&SIGNATURE_PREFIX);
        signature[24..24 + self.version.len()].copy_from_slice(self.version.as_bytes());
        let disk = |serial: &String| {
            Disk::member(Serial::from_drive(serial.as_bytes()), self.drive_sectors)
        };
        let order = (0..self.serials.len() as u32)
            .map(SlotEntry::in_sync)
            .collect();
        Mpb {
            signature,
            family_num: self.family,
            generation: self.generation,
            orig_family_num: self.family,
            attributes: Attributes(0x8000_0000),
            creation_time: self.creation_time,
            power_cycle_count: 1,
            num_raid_devs_created: 1,
            cache_size: 0,
            error_log_size: 0,
            error_log_position: 0,
            disks: self.serials.iter().map(disk).collect(),
            volumes: [self.volume(order)].into(),
            bad_blocks: Vec::new(),
            uninterpreted: HeaderBytes::default(),
            trailing: Vec::new(),
        }
    }

    fn volume(&self, order: Vec<SlotEntry>) -> Volume {
        Volume {
            name: VolumeName::new(self.name).unwrap(),
            size_sectors: self.size_sectors,
            status: 0xC,
            volume_id: 1,
            write_hole_policy: WriteHolePolicy::Off,
            journal_serial: Serial::default(),
            migration: None,
            dirty: 0,
            verify_errors: 0,
            verify_bad_blocks: 0,
            map: Map {
                start_sector: 0,
                sectors_per_member: self.sectors_per_member,
                data_stripes: self.stripes,
                sectors_per_strip: 128,
                state: MapState::Normal,
                stored_level: self.level,
                domains: self.domains,
                failed_slot: None,
                order,
                uninterpreted: MapBytes::default(),
            },
            uninterpreted: VolumeBytes::default(),
        }
    }
}

fn serials(first: usize, count: usize) -> Vec<String> {
    (first..first + count)
        .map(|number| format!("IMSMLAB{number:04}"))
        .collect()
}

pub fn raid0() -> Mpb {
    Golden {
        version: "1.2.01",
        serials: serials(0, 4),
        drive_sectors: 131_072,
        family: 0xdf31_8b59,
        generation: 2,
        creation_time: 1_795_225_074,
        name: "r0",
        size_sectors: 475_136,
        level: 0,
        domains: 1,
        sectors_per_member: 120_832,
        stripes: 928,
    }
    .record()
}

pub fn raid1() -> Mpb {
    Golden {
        version: "1.1.00",
        serials: serials(4, 2),
        drive_sectors: 131_072,
        family: 0x8d4f_6540,
        generation: 26,
        creation_time: 1_795_225_087,
        name: "r1",
        size_sectors: 102_400,
        level: 1,
        domains: 2,
        sectors_per_member: 104_448,
        stripes: 400,
    }
    .record()
}

pub fn raid10() -> Mpb {
    Golden {
        version: "1.2.01",
        serials: serials(6, 4),
        drive_sectors: 131_072,
        family: 0x1e0d_abfc,
        generation: 26,
        creation_time: 1_795_225_094,
        name: "r10",
        size_sectors: 237_568,
        level: 1,
        domains: 2,
        sectors_per_member: 120_832,
        stripes: 464,
    }
    .record()
}

pub fn raid5() -> Mpb {
    Golden {
        version: "1.2.02",
        serials: serials(10, 4),
        drive_sectors: 131_072,
        family: 0x27df_be6e,
        generation: 23,
        creation_time: 1_795_225_107,
        name: "r5",
        size_sectors: 356_352,
        level: 5,
        domains: 1,
        sectors_per_member: 120_832,
        stripes: 928,
    }
    .record()
}

/// A RAID 5 on 128 MiB drives of user-mode Linux.
pub fn raid5_128_mib() -> Mpb {
    Golden {
        version: "1.2.02",
        serials: ["a", "b", "c", "d"]
            .iter()
            .map(|letter| format!("/dev/ubd{letter}"))
            .collect(),
        drive_sectors: 262_144,
        family: 0x046a_ca93,
        generation: 25,
        creation_time: 1_795_224_399,
        name: "vol0",
        size_sectors: 749_568,
        level: 5,
        domains: 1,
        sectors_per_member: 251_904,
        stripes: 1952,
    }
    .record()
}

#[test]
fn records_of_mdadm_are_rebuilt_byte_for_byte() {
    use super::codec::word_at;
    use super::uuid::Uuid;
    use alloc::string::ToString;
    // Checksum, length, container UUID, volume UUID as mdadm printed them.
    let expected = [
        (
            raid0(),
            0x971e_c75a,
            584,
            "c1d848a6:220850c7:50b579a0:7a3ce0d7",
            "36484c1b:108396db:984fb534:ec7beade",
        ),
        (
            raid1(),
            0xf8c7_0c3e,
            480,
            "c87edb95:a6d67e59:20c24782:0c882358",
            "f291ad52:4d36566c:c42cd39e:a80e188a",
        ),
        (
            raid10(),
            0x161b_68fc,
            584,
            "e1768d89:f4cefc75:9b300838:d2567e24",
            "f35f36a0:05f571ef:0b345432:41c700d8",
        ),
        (
            raid5(),
            0x2d79_67ba,
            584,
            "0b99080b:d3769de9:16634da9:5f4b16a7",
            "3295c935:7eed56e9:414b7b30:65dda2cf",
        ),
        (
            raid5_128_mib(),
            0x8b0e_2334,
            584,
            "fdda55c8:af159078:3632b6b8:011af892",
            "9a4aa6f1:ed53037b:c71a58a0:66e3e69f",
        ),
    ];
    for (mpb, checksum, length, container, volume) in expected {
        let bytes = mpb.encode(SectorSize::Bytes512).unwrap();
        let name = mpb.volumes[0].name;
        assert_eq!(bytes.len(), length, "{name}");
        assert_eq!(word_at(&bytes, 0x20), Some(checksum), "{name}");
        assert_eq!(word_at(&bytes, 0x24), Some(length as u32), "{name}");
        assert_eq!(Uuid::of_container(&mpb).to_string(), container, "{name}");
        assert_eq!(
            Uuid::of_volume(&mpb, 0).unwrap().to_string(),
            volume,
            "{name}"
        );
        assert_eq!(Uuid::of_volume(&mpb, 1), None);
        assert_eq!(Mpb::decode(&bytes, SectorSize::Bytes512), Ok(mpb));
    }
}

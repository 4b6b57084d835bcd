//! An array that lasts as long as its process: `serve --scratch LEVEL ram:1g ram:1g`.
//!
//! It is meant for trying out fullstripe, for tests of clients, and for measuring everything between a client and the
//! drives. Its record is made as `create` makes one and is then read from the drives like any other, so `serve`
//! treats this array like every other one.

use anyhow::{Context, Result, anyhow, bail};
use assembly::level::in_format;
use container::probe::Probed;
use container::write::write_record;
use engine::layout::Level;
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::geometry::SizeRequest;
use metadata::imsm::place::Found;
use metadata::imsm::{Mpb, RecordPrint, VolumeName};

/// Name of the volume.
const NAME: &str = "scratch";
/// 128 KiB, as `create` chooses.
const STRIP_SECTORS: u32 = 256;
/// No other process will ever see the container.
const IDENTITY: ContainerIdentity = ContainerIdentity {
    family_num: 1,
    creation_time: 0,
};

/// Makes one volume of all `drives`, in their order. The drives are new, so their content is equal and in sync.
///
/// # Errors
/// A drive that others could use or that outlasts the process, or a shape that is not possible.
pub fn make(level: Level, drives: &mut [Probed]) -> Result<()> {
    if let Some(probed) = drives.iter().find(|probed| probed.path().is_some()) {
        bail!(
            "--scratch makes an array that is gone when serve ends, and {} would last; give ram:SIZE \
             for each drive, or null:SIZE, or use `fullstripe create`",
            probed.drive.name()
        );
    }
    let members: Vec<NewDrive> = drives
        .iter()
        .map(|probed| NewDrive {
            serial: probed.serial,
            total_sectors: probed.placement.total_sectors(),
        })
        .collect();
    let spec = VolumeSpec {
        name: VolumeName::new(NAME).context("a valid name")?,
        level: in_format(level),
        strip_sectors: STRIP_SECTORS,
        size: SizeRequest::Largest,
        born_in_sync: true,
        allow_wide: true,
    };
    let mpb =
        Mpb::create(&members, &spec, IDENTITY).map_err(|error| anyhow!("--scratch: {error}"))?;
    write_record(&mpb, &drives.iter().collect::<Vec<_>>())?;
    for probed in drives {
        // Not read back from the drive: a null drive does not store anything.
        probed.found = Ok(Some(Found {
            mpb: mpb.clone(),
            print: RecordPrint::default(),
            migration_record: None,
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use container::assemble::assemble;
    use container::probe::probe_all;
    use drives::drive::Access;
    use metadata::imsm::start::StartOptions;

    fn drives(specs: &[&str]) -> Vec<Probed> {
        let specs: Vec<String> = specs.iter().map(ToString::to_string).collect();
        probe_all(&specs, Access::Exclusive).unwrap()
    }

    #[test]
    fn every_level_is_assembled_in_sync_on_memory_and_on_nothing() {
        for (level, count) in [
            (Level::Raid0, 2),
            (Level::Raid1, 2),
            (Level::Raid10, 4),
            (Level::Raid5, 3),
        ] {
            for spec in ["ram:32m", "null:1t,sector=4096"] {
                let mut drives = drives(&vec![spec; count]);
                make(level, &mut drives).unwrap();
                let container = assemble(drives, StartOptions::default(), false).unwrap();
                assert_eq!(container.volume_names, [NAME]);
                let volume = &container.record.volumes[0];
                assert!(volume.sync.is_none() && !volume.dirty, "{volume:?}");
                assert!(volume.slots.iter().all(|slot| slot.current));
            }
        }
    }

    #[test]
    fn what_lasts_or_does_not_fit_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(32 << 20).unwrap();
        let path = file.path().display().to_string();
        let error =
            |level, specs: &[&str]| make(level, &mut drives(specs)).unwrap_err().to_string();
        let lasting = error(Level::Raid0, &["ram:32m", &path]);
        assert!(lasting.contains(&format!("{path} would last")), "{lasting}");
        let few = error(Level::Raid5, &["ram:32m", "ram:32m"]);
        assert!(few.starts_with("--scratch: "), "{few}");
    }
}

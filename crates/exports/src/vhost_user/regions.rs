//! The memory of a guest as a front end describes it: parts of files, each with its address in the guest and in the front
//! end. A table of all parts replaces what was known, or single parts come and go.

use super::guest::{Broken, Guest};
use std::fs::File;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestRegionMmap, MmapRegion};

/// The most parts.
pub const REGIONS_MAX: usize = 64;

/// One part.
#[derive(Clone)]
struct Region {
    /// The front end's address.
    user: u64,
    /// The guest's address.
    guest: u64,
    length_bytes: u64,
    map: Arc<GuestRegionMmap<()>>,
}

/// All parts.
#[derive(Clone, Default)]
pub struct Regions(Vec<Region>);

impl Regions {
    /// Maps another part.
    ///
    /// # Errors
    /// A sentence that says why it cannot be mapped.
    pub fn add(&mut self, told: &VhostUserMemoryRegion, file: File) -> Result<(), String> {
        // Its fields are not aligned, so they cannot be borrowed.
        let (user, guest, length_bytes) = (told.user_addr, told.guest_phys_addr, told.memory_size);
        if self.0.len() == REGIONS_MAX {
            return Err(format!(
                "the guest's memory has more than {REGIONS_MAX} parts"
            ));
        }
        let map = map_file(file, told.mmap_offset, length_bytes).and_then(|map| {
            let region = GuestRegionMmap::new(map, GuestAddress(guest));
            region.ok_or_else(|| "it wraps around".to_owned())
        });
        let map = map.map_err(|reason| {
            format!("the guest's memory at {guest:#x} cannot be mapped: {reason}")
        })?;
        self.0.push(Region {
            user,
            guest,
            length_bytes,
            map: Arc::new(map),
        });
        Ok(())
    }

    /// Forgets a part.
    ///
    /// # Errors
    /// There is no such part.
    pub fn remove(&mut self, told: (u64, u64, u64)) -> Result<(), String> {
        let is_it = |region: &Region| (region.user, region.guest, region.length_bytes) == told;
        let at = self.0.iter().position(is_it);
        let (_, guest, _) = told;
        let at = at.ok_or_else(|| format!("the guest has no memory at {guest:#x} to take away"))?;
        self.0.remove(at);
        Ok(())
    }

    /// The memory for those who use it; `None` without parts.
    ///
    /// # Errors
    /// Parts overlap.
    pub fn guest(&self) -> Result<Option<Arc<Guest>>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut regions: Vec<&Region> = self.0.iter().collect();
        regions.sort_by_key(|region| region.guest);
        let maps = regions.into_iter().map(|region| region.map.clone());
        let guest = Guest::from_arc_regions(maps.collect());
        let guest = guest.map_err(|error| format!("the guest's memory: {error}"))?;
        Ok(Some(Arc::new(guest)))
    }

    /// The guest's address of what the front end has at `user`.
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    pub fn address(&self, user: u64) -> Result<u64, Broken> {
        let mut regions = self.0.iter();
        let found = regions.find_map(|region| {
            let offset = user.checked_sub(region.user)?;
            (offset < region.length_bytes).then(|| region.guest + offset)
        });
        found.ok_or(Broken::NotMemory(user))
    }
}

/// Maps a part of a file that the front end has sent. The part must exist: the system ends a process that touches memory
/// behind the end of a file.
///
/// # Errors
/// Why not: most often, that the file is too short.
pub fn map_file(file: File, offset: u64, length_bytes: u64) -> Result<MmapRegion<()>, String> {
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let file_bytes = metadata.len();
    if !metadata.is_file() {
        return Err("it is not in a file".to_owned());
    }
    if offset
        .checked_add(length_bytes)
        .is_none_or(|end| end > file_bytes)
    {
        return Err(format!(
            "{length_bytes} bytes from {offset} are not in its file, which has {file_bytes}"
        ));
    }
    let length = usize::try_from(length_bytes).map_err(|_| "it is too long".to_owned())?;
    let map = MmapRegion::from_file(FileOffset::new(file, offset), length);
    map.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_user::guest::{read, write};

    fn file(length_bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length_bytes).unwrap();
        file
    }

    fn region(guest: u64, length_bytes: u64, user: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion::new(guest, length_bytes, user, 0)
    }

    #[test]
    fn parts_come_and_go() {
        let mut regions = Regions::default();
        assert!(regions.guest().unwrap().is_none());
        regions
            .add(&region(0x8000, 4096, 0x70000), file(4096))
            .unwrap();
        let backing = file(8192);
        let same = backing.try_clone().unwrap();
        regions.add(&region(0, 8192, 0x10000), backing).unwrap();
        let guest = regions.guest().unwrap().unwrap();
        assert_eq!(regions.address(0x11000), Ok(0x1000));
        assert_eq!(regions.address(0x70fff), Ok(0x8fff));
        assert_eq!(regions.address(0x71000), Err(Broken::NotMemory(0x71000)));
        // Both see the same bytes.
        write(&guest, 0x1ffe, b"hi").unwrap();
        let mut seen = [0; 2];
        std::os::unix::fs::FileExt::read_exact_at(&same, &mut seen, 0x1ffe).unwrap();
        assert_eq!(&seen, b"hi");
        regions.remove((0x10000, 0, 8192)).unwrap();
        assert!(regions.remove((0x10000, 0, 8192)).is_err());
        let smaller = regions.guest().unwrap().unwrap();
        assert!(read(&smaller, 0, &mut seen).is_err());
        // Who still uses the old memory can go on.
        assert!(read(&guest, 0, &mut seen).is_ok());
    }

    #[test]
    fn what_cannot_be_mapped_is_refused_with_its_place() {
        let mut regions = Regions::default();
        let short = regions
            .add(&region(0x4000, 8192, 0), file(4096))
            .unwrap_err();
        assert!(
            short.contains("the guest's memory at 0x4000 cannot be mapped"),
            "{short}"
        );
        regions.add(&region(0, 8192, 0), file(8192)).unwrap();
        regions
            .add(&region(4096, 8192, 0x10000), file(8192))
            .unwrap();
        assert!(regions.guest().is_err(), "they overlap");
        for at in 0..REGIONS_MAX as u64 - 2 {
            regions.add(&region(at << 20, 4096, 0), file(4096)).unwrap();
        }
        let many = regions
            .add(&region(1 << 40, 4096, 0), file(4096))
            .unwrap_err();
        assert_eq!(many, "the guest's memory has more than 64 parts");
    }
}

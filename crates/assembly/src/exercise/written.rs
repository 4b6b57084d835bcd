//! What else on a drive changes when a record is written, and what does not.

use super::{DRIVE_BYTES, MIB_SECTORS, Memory, Pages, SECTOR, put_record, read, record, write};
use crate::assemble::assemble;
use crate::member::{FoundShadow, Member};
use crate::write::{erase_shadow, write_record};
use engine::units::MemberId;
use metadata::imsm::build::NewDrive;
use metadata::imsm::place::{ByteRange, Placement, encode_image};
use metadata::imsm::shadow::{self, has_room};
use metadata::imsm::start::StartOptions;
use metadata::imsm::{Level, Mpb, RecordPrint, Shadow};

const MEMBERS: usize = 2;

/// The record of a mirror at rest, and the one of the next update.
fn made() -> (Mpb, Mpb) {
    let mpb = record(Level::Raid1, MEMBERS, 4).expect("a valid record");
    let mut next = mpb.clone();
    next.bump_generation();
    (mpb, next)
}

fn placement() -> Placement {
    Placement::new(DRIVE_BYTES, SECTOR).unwrap()
}

fn open(pages: &Pages) -> Memory {
    Memory::open(0, pages.clone()).unwrap()
}

fn with(mpb: &Mpb) -> Pages {
    let pages = Pages::default();
    put_record(&pages, mpb);
    pages
}

fn print_of(mpb: &Mpb) -> Option<RecordPrint> {
    RecordPrint::of(&mpb.encode(SECTOR).unwrap())
}

fn at(pages: &Pages, place: ByteRange) -> Vec<u8> {
    read(pages, place.offset_bytes, place.length_bytes as usize)
}

/// The shadow on a drive, which has to be whole.
fn shadow_on(pages: &Pages) -> Box<Shadow> {
    match open(pages).looked.1 {
        FoundShadow::Whole(shadow) => shadow,
        other => panic!("{other:?}"),
    }
}

/// Changes a byte behind the header of the record, as a write that was cut off may do.
fn tear(pages: &Pages) {
    let torn = placement().anchor_offset_bytes() + 400;
    let byte = !read(pages, torn, 1)[0];
    write(pages, torn, &[byte]);
    assert!(
        open(pages)
            .found()
            .as_ref()
            .is_err_and(|error| error.torn().is_some())
    );
}

/// Writes a shadow of this record as a later version of the format would.
fn put_newer_shadow(pages: &Pages, mpb: &Mpb) -> Vec<u8> {
    let mut bytes = shadow::encode(mpb, None, SECTOR).unwrap();
    bytes[16..20].copy_from_slice(&2u32.to_le_bytes());
    write(pages, placement().shadow().offset_bytes, &bytes);
    assert!(open(pages).shadow().is_newer());
    at(pages, placement().shadow())
}

/// If the record is torn next, its shadow tells whether it is the record that it was to replace, or one of another
/// program.
#[test]
fn a_shadow_names_the_record_that_it_goes_over() {
    let (mpb, next) = made();
    let replaced = |pages: &Pages| {
        write_record(&next, &[&open(pages)]).unwrap();
        shadow_on(pages).replaced
    };
    assert_eq!(replaced(&with(&mpb)), print_of(&mpb));
    assert_eq!(replaced(&Pages::default()), None, "there was no record");
    // The record is torn, but the shadow beside it holds the same record whole.
    let torn = with(&mpb);
    tear(&torn);
    assert_eq!(replaced(&torn), print_of(&mpb));
    // The shadow cannot identify a later record that was written without one.
    let mut later = mpb.clone();
    later.generation += 5;
    let torn = with(&mpb);
    let image = encode_image(&later, SECTOR).unwrap();
    write(&torn, placement().image(image.len()).offset_bytes, &image);
    tear(&torn);
    let identity = print_of(&later).unwrap().identity;
    let crc = None;
    assert_eq!(replaced(&torn), Some(RecordPrint { identity, crc }));
    // Without a shadow, only the torn record's header is known.
    let torn = with(&mpb);
    tear(&torn);
    erase_shadow(&open(&torn)).unwrap();
    let identity = print_of(&mpb).unwrap().identity;
    let crc = None;
    assert_eq!(replaced(&torn), Some(RecordPrint { identity, crc }));
}

/// The updates of an array that is being served continue from the record that its start has found.
#[test]
fn the_first_shadow_of_a_session_names_the_record_that_was_found() {
    let (mpb, _) = made();
    let drives: Vec<Pages> = (0..MEMBERS).map(|_| with(&mpb)).collect();
    let found = drives.iter().enumerate();
    let found = found.map(|(slot, pages)| Memory::open(slot, pages.clone()).unwrap());
    let mut container = assemble(found.collect(), StartOptions::default(), false).unwrap();
    let mut record = container.record.clone();
    record.generation += 1;
    for member in (0..MEMBERS as u8).map(MemberId) {
        let parts = container.persister.encode(member, &record).unwrap();
        let [(offset_bytes, bytes), _] = &parts[..] else {
            panic!("{} parts", parts.len());
        };
        assert_eq!(*offset_bytes, placement().shadow().offset_bytes);
        let shadow = shadow::decode(bytes, &placement(), SECTOR)
            .unwrap()
            .unwrap();
        assert_eq!(shadow.replaced, print_of(&mpb));
    }
}

/// A shadow that another array has left on the drive must not outlive that array's record.
#[test]
fn a_drive_that_becomes_a_spare_loses_its_shadow() {
    let (mpb, _) = made();
    let drive = NewDrive {
        serial: open(&Pages::default()).serial(),
        total_sectors: placement().total_sectors(),
    };
    let spare = Mpb::spare(&drive, SECTOR).unwrap();
    let whole = with(&mpb);
    let damaged = with(&mpb);
    write(
        &damaged,
        placement().shadow().offset_bytes + 100,
        &[0xAA; 8],
    );
    assert!(matches!(open(&damaged).shadow(), FoundShadow::Damaged(_)));
    let newer = with(&mpb);
    put_newer_shadow(&newer, &mpb);
    for pages in [whole, damaged, newer] {
        write_record(&spare, &[&open(&pages)]).unwrap();
        let now = open(&pages);
        assert!(matches!(now.shadow(), FoundShadow::Nothing));
        assert!(
            at(&pages, placement().shadow())
                .iter()
                .all(|&byte| byte == 0)
        );
        assert_eq!(now.found().as_ref().unwrap().as_ref().unwrap().mpb, spare);
    }
}

/// The newer program that wrote the shadow may still need it.
#[test]
fn a_shadow_of_a_newer_version_is_not_written_over() {
    let (mpb, next) = made();
    let drives = [with(&mpb), with(&mpb)];
    let before = put_newer_shadow(&drives[1], &mpb);
    write_record(&next, &[&open(&drives[1])]).unwrap();
    assert_eq!(at(&drives[1], placement().shadow()), before);
    put_record(&drives[0], &next);
    put_newer_shadow(&drives[1], &next);
    // The updates of an array that is being served do not overwrite it either.
    let found = drives.iter().enumerate();
    let found = found.map(|(slot, pages)| Memory::open(slot, pages.clone()).unwrap());
    let mut container = assemble(found.collect(), StartOptions::default(), false).unwrap();
    let mut record = container.record.clone();
    record.generation += 1;
    for (member, parts) in [(0, 2), (1, 1)] {
        let found = container.persister.encode(MemberId(member), &record);
        assert_eq!(found.unwrap().len(), parts, "member {member}");
    }
}

/// Data of a volume, or its log, may lie where the shadow would.
#[test]
fn no_shadow_is_written_where_a_volume_may_lie() {
    let (mut mpb, _) = made();
    let pages = with(&mpb);
    let volume = &mut mpb.volumes[0];
    volume.map.start_sector = placement().total_sectors() - 2352 - 2 * MIB_SECTORS + 1;
    assert!(!has_room(&placement(), &mpb));
    let data = vec![0x5A; placement().shadow().length_bytes as usize];
    write(&pages, placement().shadow().offset_bytes, &data);
    write_record(&mpb, &[&open(&pages)]).unwrap();
    assert_eq!(at(&pages, placement().shadow()), data);
    let now = open(&pages);
    assert_eq!(now.found().as_ref().unwrap().as_ref().unwrap().mpb, mpb);
    // If the volume lies a sector further to the front, there is room again.
    mpb.volumes[0].map.start_sector -= 1;
    write_record(&mpb, &[&open(&pages)]).unwrap();
    assert_eq!(shadow_on(&pages).mpb, mpb);
}

/// The last sector of a drive may describe a reshape that another array has left there.
#[test]
fn a_record_comes_without_an_old_reshape() {
    let (mpb, next) = made();
    let pages = with(&mpb);
    let last = placement().migration_record_offset_bytes();
    write(&pages, last, &[0x77; 512]);
    write_record(&next, &[&open(&pages)]).unwrap();
    assert_eq!(read(&pages, last, 512), [0; 512]);
}

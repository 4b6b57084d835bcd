//! A year of an array's life at the terminal: it is made, filled, loses a drive, is scrubbed, crashes, moves to other
//! files, and ends. What an operator types and reads is kept as one snapshot per quarter. People review these, so a
//! misleading message is noticed there before it misleads an operator.
//!
//! The tests also check the data: all that was acknowledged is compared at the end of every part.

mod transcript;

use crate::common::{Bed, MIB};
use transcript::Terminal;

const DRIVES: &str = "d0 d1 d2 d3";

/// A served array of four files, fully written.
fn made_and_filled(bed: &Bed) -> Terminal<'_> {
    let mut terminal = Terminal::new(bed);
    terminal.done(&format!(
        "fullstripe create vol0 --level 5 --chunk 64k {DRIVES}"
    ));
    terminal.serve(&format!("fullstripe serve --memory 48m {DRIVES}"));
    terminal.fill();
    terminal
}

#[test]
fn the_first_quarter_an_array_is_made_loses_a_drive_and_is_whole_again() {
    let bed = Bed::new(5, 48 * MIB);
    let mut terminal = Terminal::new(&bed);
    terminal.says("January: four drives become an array");
    terminal.fails(1, "fullstripe create --level 5 d0 d1 d2 d3");
    terminal.done("fullstripe create vol0 --level 5 --chunk 64k d0 d1 d2 d3");
    terminal.done("fullstripe list d0 d1 d2 d3");
    terminal.serve("fullstripe serve --memory 48m d0 d1 d2 d3");
    terminal.done("fullstripe status");
    terminal.fill();
    terminal.says("February: a month without news");
    terminal.done("fullstripe status --check");
    terminal.done("fullstripe scrub --wait");
    terminal.done("fullstripe scrub --report");
    terminal.says("March: a drive dies, and a new one takes its place");
    terminal.shell("truncate -s 0 d1");
    terminal.verify();
    terminal.fails(3, "fullstripe status --check");
    terminal.done("fullstripe status");
    terminal.fails(4, "fullstripe fail vol0:2");
    terminal.done("fullstripe add-spare d4");
    terminal.done("fullstripe rebuild --wait");
    terminal.done("fullstripe status --check");
    terminal.done("fullstripe remove d1");
    terminal.done("fullstripe status");
    terminal.verify();
    terminal.done("fullstripe stop --wait");
    insta::assert_snapshot!("first_quarter", terminal.transcript());
}

#[test]
fn the_second_quarter_silent_damage_and_a_crash() {
    let bed = Bed::new(4, 48 * MIB);
    let mut terminal = made_and_filled(&bed);
    terminal.says("April: bytes change on a drive by themselves");
    terminal.done("fullstripe scrub --every 7d");
    bed.scribble(2, 8 * MIB + 4096, 512, 0x5A);
    terminal.fails(1, "fullstripe scrub --wait");
    terminal.fails(1, "fullstripe scrub --report");
    terminal.fails(1, "fullstripe scrub --repair --wait");
    // Parity matches again, but the data may be wrong. `fill` writes all data again, as from a backup.
    terminal.fill();
    terminal.done("fullstripe scrub --wait");
    terminal.says("May: the process is killed while clients write");
    terminal.kill_while_writing();
    terminal.fails(1, "fullstripe status");
    terminal.done("fullstripe list d0 d1 d2 d3");
    terminal.serve("fullstripe serve --memory 48m d0 d1 d2 d3");
    terminal.done("fullstripe rebuild --wait");
    terminal.done("fullstripe status --check");
    terminal.verify();
    terminal.says("June: maintenance in hours without load");
    terminal.done("fullstripe rate 200m");
    terminal.done("fullstripe rate unlimited");
    terminal.fails(1, "fullstripe cancel");
    terminal.done("fullstripe stop --wait");
    insta::assert_snapshot!("second_quarter", terminal.transcript());
}

#[test]
fn the_third_quarter_a_drive_is_replaced_in_service_and_the_array_moves() {
    let bed = Bed::new(5, 48 * MIB);
    let mut terminal = made_and_filled(&bed);
    terminal.says("July: a worn drive is replaced before it dies");
    terminal.fails(1, "fullstripe replace 2 --with d4");
    terminal.done("fullstripe replace vol0:2 --with d4");
    terminal.done("fullstripe rebuild --wait");
    terminal.done("fullstripe status");
    terminal.verify();
    terminal.done("fullstripe stop --wait");
    terminal.says("August: the files move");
    terminal.shell("mkdir new && mv d0 new/disk0 && mv d1 d3 d4 new");
    terminal.fails(4, "fullstripe serve new/disk0 new/d1 new/d3 new/d4");
    terminal.serve("fullstripe serve --memory 48m new/disk0,serial=d0 new/d1 new/d3 new/d4");
    terminal.verify();
    terminal.says("September: a second terminal, and a second array by mistake");
    terminal.fails(4, "fullstripe create other --level 1 new/d1 d2");
    terminal.fails(4, "fullstripe add-spare new/d1");
    terminal.fails(1, "fullstripe serve new/d1 new/d3 new/d4");
    terminal.done("fullstripe list new/disk0,serial=d0 new/d1 new/d3 new/d4");
    terminal.done("fullstripe stop --wait");
    insta::assert_snapshot!("third_quarter", terminal.transcript());
}

#[test]
fn the_fourth_quarter_drives_are_missing_metadata_is_lost_and_the_array_ends() {
    let bed = Bed::new(4, 48 * MIB);
    let mut terminal = made_and_filled(&bed);
    terminal.done("fullstripe stop --wait");
    terminal.says("October: drives are not plugged in");
    terminal.fails(4, "fullstripe serve d0 d1");
    terminal.fails(4, "fullstripe serve d0 d1 d2");
    terminal.serve("fullstripe serve --memory 48m --degraded d0 d1 d2");
    terminal.fails(3, "fullstripe status --check");
    terminal.verify();
    terminal.done("fullstripe stop --wait");
    terminal.serve("fullstripe serve --memory 48m d0 d1 d2 d3");
    terminal.fails(4, "fullstripe add-spare d3");
    terminal.done("fullstripe add-spare --force d3");
    terminal.done("fullstripe rebuild --wait");
    terminal.verify();
    terminal.done("fullstripe stop --wait");
    terminal.says("November: the records are overwritten");
    terminal.done("fullstripe metadata save --output saved d0 d1 d2 d3");
    for drive in 0..4 {
        bed.scribble(drive, 48 * MIB - 4096, 4096, 0);
    }
    terminal.fails(1, "fullstripe assemble d0 d1 d2 d3");
    terminal.fails(4, "fullstripe create vol1 --level 5 d0 d1 d2 d3");
    terminal.done("fullstripe metadata restore saved d0 d1 d2 d3 --yes");
    terminal.serve("fullstripe serve --memory 48m d0 d1 d2 d3");
    terminal.verify();
    terminal.says("December: the array has served");
    terminal.fails(4, "fullstripe destroy vol0 d0 d1 d2 d3");
    terminal.done("fullstripe stop --wait");
    terminal.fails(4, "fullstripe destroy vol0 d0 d1 d2");
    terminal.done("fullstripe destroy vol0 d0 d1 d2 d3 --yes");
    terminal.done("fullstripe list d0 d1 d2 d3");
    insta::assert_snapshot!("fourth_quarter", terminal.transcript());
}

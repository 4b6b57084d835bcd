//! Lives of arrays, drawn from seeds: each array is made, used, degraded, rebuilt, and its power is cut many times.
//!
//! A life's draws follow from its seed, but the machine's timing does not (which request is under way when the power
//! is cut). So a seed that failed repeats the kind of life, and often enough of these meet the same fault again.

use super::judge::brief;
use super::load::{Compared, compare};
use super::promise::Promise;
use super::rig::{DRIVE_BYTES, Kind, Rig, Shape};
use super::session::{After, Session};
use crate::common::is_root;
use faultfs::{CutAt, Entry, Loss};
use repeatable::random::Stream;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Cuts in one life.
const CUTS: u64 = 12;

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return otherwise;
    };
    let parsed = text.parse();
    parsed.unwrap_or_else(|_| panic!("{name} is '{text}': a number is wanted"))
}

/// At least `REAL_CUTS_COUNT` (40) cuts, in lives from the seed `REAL_CUTS_SEED` (1) on, two lives at a time.
#[test]
fn whatever_a_power_cut_leaves_is_what_was_promised() {
    if !is_root("whatever_a_power_cut_leaves_is_what_was_promised") {
        return;
    }
    let (count, first) = (number("REAL_CUTS_COUNT", 40), number("REAL_CUTS_SEED", 1));
    let (next, done) = (AtomicU64::new(first), AtomicU64::new(0));
    let shapes: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let since = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < count {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let told = Told { seed, done: &done };
                    let mut life = Life::new(seed);
                    for _ in 0..CUTS {
                        life.round();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    life.end();
                    let kind = life.name();
                    drop(told);
                    println!(
                        "life {seed}, {kind}: holds; {} of {count} cuts in {:.0} s",
                        done.load(Ordering::Relaxed),
                        since.elapsed().as_secs_f64()
                    );
                    if std::env::var_os("REAL_CUTS_STORY").is_some() {
                        println!("life {seed}, {kind}:\n  {}", life.story.join("\n  "));
                    }
                    let mut shapes = shapes.lock().unwrap_or_else(PoisonError::into_inner);
                    *shapes.entry(kind).or_default() += CUTS;
                    for mark in life.marks {
                        *shapes.entry(mark.to_owned()).or_default() += 1;
                    }
                }
            });
        }
    });
    println!(
        "{} cuts of lives {first} to {} in {:.0} s:",
        done.load(Ordering::Relaxed),
        next.load(Ordering::Relaxed) - 1,
        since.elapsed().as_secs_f64()
    );
    let shapes = shapes.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (kind, cuts) in shapes {
        println!("  {cuts:5} {kind}");
    }
}

/// When a life fails, prints after how many cuts, and how to run such lives again.
struct Told<'a> {
    seed: u64,
    done: &'a AtomicU64,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let done = self.done.load(Ordering::Relaxed);
            let seed = self.seed;
            self.done.store(u64::MAX / 2, Ordering::Relaxed);
            eprintln!(
                "life {seed} failed, after {done} cuts of all lives; such lives again: \
                 make test-real-cuts SEED={seed} COUNT={CUTS}"
            );
        }
    }
}

fn draw_shape(seed: u64, random: &mut Stream) -> Shape {
    let all = [
        (1, "off"),
        (5, "log"),
        (10, "bitmap"),
        (5, "bitmap"),
        (1, "bitmap"),
        (5, "log"),
        (10, "off"),
        (5, "off"),
    ];
    let (level, write_hole) = all[(seed % all.len() as u64) as usize];
    // The metadata format has no bitmap on drives with larger sectors.
    let larger = if write_hole == "bitmap" { 512 } else { 4096 };
    Shape {
        level,
        write_hole,
        kind: random.pick(&[Kind::File, Kind::File, Kind::Loop(512), Kind::Loop(larger)]),
        shards: random.between(1, 2) as u32,
        heeds_dsync: random.chance(1, 4),
        held: random.pick(&[(0, 1), (1, 8), (1, 2)]),
    }
}

struct Life {
    rig: Rig,
    promise: Option<Promise>,
    random: Stream,
    seed: u64,
    /// What happened, printed when the life fails.
    story: Vec<String>,
    /// What the cuts interrupted, for the summary.
    marks: Vec<&'static str>,
    /// The journal before the last cut.
    before: Vec<Entry>,
    /// Whether all members were in sync when the array was last seen, and nothing has been done to them since.
    is_whole: bool,
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut random = Stream::new(seed, "life", 0);
        let shape = draw_shape(seed, &mut random);
        Life {
            rig: Rig::new(shape, 1, seed),
            promise: None,
            random,
            seed,
            story: Vec::new(),
            marks: Vec::new(),
            before: Vec::new(),
            is_whole: true,
        }
    }

    fn name(&self) -> String {
        let Shape {
            level,
            write_hole,
            kind,
            ..
        } = &self.rig.shape;
        format!("RAID {level} with {write_hole} on {kind:?}")
    }

    fn tell(&mut self, sentence: String) {
        self.story.push(sentence);
    }

    #[track_caller]
    fn fail(&self, sentence: &str) -> ! {
        let sector = self
            .promise
            .as_ref()
            .and_then(|promise| promise.wrong_sector);
        let places = sector.map_or_else(Vec::new, |sector| self.whereabouts(sector));
        panic!(
            "life {} ({:?}): {sentence}\n  {}\nBefore that:\n  {}",
            self.seed,
            self.rig.shape,
            places.join("\n  "),
            self.story.join("\n  ")
        );
    }

    /// Where members hold versions of a sector, and the journal's entries about those places.
    fn whereabouts(&self, sector: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut places = Vec::new();
        for drive in 0..self.rig.drives().len() {
            let bytes = self.rig.fs.current(drive, 0, DRIVE_BYTES);
            for (at, bytes) in bytes.chunks_exact(512).enumerate() {
                let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
                if word(0) == sector as u32 && word(4) == 0 && word(8) > 0 {
                    lines.push(format!("d{drive} has version {} at {}", word(8), at * 512));
                    places.push(at as u64 * 512);
                }
            }
        }
        let now = self.rig.fs.journal();
        let before = self.before.iter().map(|entry| ("before", entry));
        for (when, entry) in before.chain(now.iter().map(|entry| ("since", entry))) {
            let is_there = |place: &u64| (entry.offset_bytes..entry.end_bytes()).contains(place);
            if places.iter().any(is_there) {
                let version = |place: &u64| {
                    let at = (place.checked_sub(entry.offset_bytes)? / 512) as usize;
                    let tag = entry.tags.get(at)?;
                    let promise = self.promise.as_ref()?;
                    promise.version_with_tag(sector, *tag)
                };
                let version = places.iter().find_map(version);
                lines.push(format!("{when}: version {version:?} by {}", brief(entry)));
            }
        }
        lines
    }

    /// One start, what happens then, and the cut.
    fn round(&mut self) {
        let is_early = self.promise.is_some() && self.random.chance(1, 4);
        if is_early {
            let cut_at = CutAt {
                operations: Vec::new(),
                range: 0..u64::MAX,
                skip: self.random.below(40),
                is_carried_out: self.random.chance(1, 2),
            };
            self.tell(format!("start, to be cut off: {cut_at:?}"));
            self.rig.fs.cut_at(cut_at);
        } else {
            self.tell("start".to_owned());
        }
        let mut may_spoil = !self.is_whole;
        // The server borrows the rig, so the session's outcome is kept here and judged after the server's end.
        let mut after = After::default();
        match self.rig.try_serve(&self.rig.drives()) {
            Ok(server) => {
                let mut random = self.random.clone();
                random.draw();
                after = Session::new(&self.rig, &server, &mut random, &mut self.promise).run();
                self.random = random;
                server.kill();
            }
            Err(why) if self.rig.fs.is_cut() => {
                after.marks.push("(before it served)");
                after.story.push(format!("no start: {why}"));
            }
            Err(why) => self.fail(&why),
        }
        self.story.append(&mut after.story);
        self.marks.append(&mut after.marks);
        if let Some(sentence) = after.wrong {
            self.fail(&sentence);
        }
        if let Some(is_whole) = after.is_whole {
            self.is_whole = is_whole;
            may_spoil |= !is_whole;
        }
        let may_spoil = may_spoil && self.rig.shape.level == 5;
        if let Some(promise) = &mut self.promise {
            promise.cut(may_spoil);
        }
        self.lose();
    }

    fn lose(&mut self) {
        // `Loss::Sectors` tears a 4 KiB block, which a drive with sectors of 4 KiB writes whole or not at all.
        let has_small_sectors = self.rig.shape.sector_bytes() == 512;
        let can_be = |loss: &Loss| has_small_sectors || *loss != Loss::Sectors;
        let possible: Vec<Loss> = Loss::ALL.into_iter().filter(can_be).collect();
        let mut losses: Vec<Loss> = (0..self.rig.drives().len())
            .map(|_| self.random.pick(&possible))
            .collect();
        if self.random.chance(1, 4) {
            let first = losses[0];
            losses.fill(first);
        }
        self.tell(format!("power cut, lost is: {losses:?}"));
        self.before = self.rig.fs.journal();
        self.rig.lose(&losses, &mut self.random);
    }

    /// Starts the array, compares everything and stops it in order, twice.
    fn end(&mut self) {
        for _ in 0..2 {
            let server = self.rig.serve(&self.rig.drives());
            let promise = self.promise.as_mut().expect("it was served before");
            let compared = compare(&self.rig.fs, &mut server.client("data"), promise);
            if let Compared::Wrong(sentence) = compared {
                self.fail(&sentence);
            }
            server.stop();
        }
    }
}

//! The commands that look at or change metadata while no array runs on the drives.
//!
//! In the order of an array's life: [`create`], [`examine`] and [`list`], [`assemble`] (what `serve` would
//! do, without doing it), [`explain`] (the plan of one request), [`metadata`] (a copy of the records, and
//! back), [`write_hole`] (a RAID 5's protection), [`destroy`]. [`sim`] needs no drives: it tries the engine in
//! virtual time. Nor do [`plan`], [`predict`] and [`claims`], which say what drives and arrays will do, and how far such
//! predictions are from what others have published.
//!
//! The rules that all of them keep are those of [`container`]: drives that somebody else uses or claims are left alone;
//! what a command would destroy is looked for first and named; it goes only by `--force` or `--yes`; and before a byte
//! of existing metadata changes, what was there lies in a file whose path is printed. [`arguments`] says how sizes and
//! levels are read, [`exit_codes`] how commands end, [`describe`] what is told of a container.

pub mod arguments;
pub mod assemble;
pub mod bar;
pub mod bench;
pub mod claims;
pub mod create;
pub mod describe;
pub mod destroy;
pub mod doctor;
pub mod examine;
pub mod exit_codes;
pub mod explain;
pub mod list;
pub mod metadata;
pub mod plan;
pub mod predict;
mod progress;
pub mod serve;
pub mod sim;
pub mod write_hole;

//! The commands that read or change metadata while no array runs on the drives.
//!
//! In the order of an array's life: [`create`], [`examine`] and [`list`], [`assemble`] (what `serve` would do, without
//! doing it), [`explain`] (the plan of one request), [`metadata`] (saves and restores the records), [`write_hole`] (the
//! protection against interrupted writes), [`destroy`]. [`sim`] needs no drives: it tests the engine in virtual time.
//! Nor do [`plan`] and [`predict`], which predict the performance of drives and arrays, and [`claims`], which compares
//! predictions with published figures; [`drive`] tells what is published of single drives, [`platform`] which machines plans know.
//! [`lab`] reads what fio has measured.
//! [`config`] checks and shows the settings file of the machine, [`boot`] changes it, and [`alert`] tries the alerts that it asks for. [`upgrade`] switches arrays that are served to this
//! program. [`doctor`] examines the machine, and [`bundle`] collects what it and other commands say into one file.
//!
//! All of them keep the rules of [`container`]: drives that somebody else uses or claims are left alone; a command
//! looks for what it would destroy and names it; it destroys that only with `--force` or `--yes`; and before existing
//! metadata is changed, it is saved to a file whose path is printed. [`arguments`] parses sizes and levels,
//! [`exit_codes`] defines how commands end, [`describe`] how a container is described, [`limited`] runs programs that may hang,
//! and [`new_file`] writes files that must not replace others.

pub mod alert;
pub mod arguments;
pub mod assemble;
pub mod bar;
pub mod bench;
pub mod boot;
mod bundle;
pub mod claims;
pub mod config;
pub mod create;
pub mod describe;
pub mod destroy;
pub mod doctor;
pub mod drive;
pub mod examine;
pub mod exit_codes;
pub mod explain;
pub mod lab;
mod limited;
pub mod list;
pub mod metadata;
pub mod new_file;
pub mod nvmet_helper;
pub mod plan;
pub mod platform;
pub mod predict;
mod progress;
pub mod serve;
pub mod sim;
pub mod upgrade;
pub mod vroc;
mod waiting;
pub mod write_hole;

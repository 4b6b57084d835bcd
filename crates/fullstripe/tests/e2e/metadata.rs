//! The commands on metadata, as a user runs them: the built binary on files and loop devices.
//!
//! [`life`] follows an array from `create` to `destroy`; [`refusals`] gives the commands every kind of bad input;
//! [`failures`] checks errors in JSON;
//! [`damage`] breaks records and checks what commands make of them; [`shadows`] breaks all of them at once;
//! [`settings`] is about the settings file of the machine, [`boot`] about the commands that change it; [`mdadm`] lets mdadm read what fullstripe writes.
//! A test that the machine cannot run (no root, no loop devices, a missing program) prints that it is skipped.

mod boot;
mod damage;
mod devices;
mod failures;
mod life;
mod mdadm;
mod refusals;
mod rig;
mod settings;
mod shadows;
mod write_hole;

//! The commands on metadata, as a user runs them: the built binary on files and loop devices.
//!
//! [`life`] follows an array from `create` to `destroy`; [`refusals`] gives it every kind of bad input;
//! [`failures`] asks for errors in JSON;
//! [`damage`] breaks records and asks what is made of them; [`shadows`] breaks all of them at once; [`mdadm`]
//! lets mdadm read what we write.
//! What a machine cannot run (no root, no loop devices, a program that is not installed) is said aloud.

#[path = "e2e_metadata/damage.rs"]
mod damage;
#[path = "e2e_metadata/devices.rs"]
mod devices;
#[path = "e2e_metadata/failures.rs"]
mod failures;
#[path = "e2e_metadata/life.rs"]
mod life;
#[path = "e2e_metadata/mdadm.rs"]
mod mdadm;
#[path = "e2e_metadata/refusals.rs"]
mod refusals;
#[path = "e2e_metadata/rig.rs"]
mod rig;
#[path = "e2e_metadata/shadows.rs"]
mod shadows;
#[path = "e2e_metadata/write_hole.rs"]
mod write_hole;

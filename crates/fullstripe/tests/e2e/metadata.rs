//! The commands on metadata, as a user runs them: the built binary on files and loop devices.
//!
//! [`life`] follows an array from `create` to `destroy`; [`refusals`] gives it every kind of bad input;
//! [`failures`] asks for errors in JSON;
//! [`damage`] breaks records and asks what is made of them; [`shadows`] breaks all of them at once; [`mdadm`]
//! lets mdadm read what we write.
//! What a machine cannot run (no root, no loop devices, a program that is not installed) is said aloud.

mod damage;
mod devices;
mod failures;
mod life;
mod mdadm;
mod refusals;
mod rig;
mod shadows;
mod write_hole;

//! An array's life with the built binary on files: every level served, loaded, ended in order and by
//! `kill -9`, degraded, rebuilt, replaced, scrubbed. What was acknowledged is compared sector by sector.
//!
//! [`life`] follows arrays from start to end; [`members`] lets drives come and go, [`two_volumes`] for two
//! volumes at once, and [`own_merits`] where only one of them goes on; [`old_copies`] puts drives back as they were
//! before a life; [`refusals`] asks for what is not to be had;
//! [`counting_clients`] looks at what monitoring reads of clients; [`remembering`] is about what a server knows from the one before.

mod common;

#[path = "e2e_serve/counting_clients.rs"]
mod counting_clients;
#[path = "e2e_serve/life.rs"]
mod life;
#[path = "e2e_serve/members.rs"]
mod members;
#[path = "e2e_serve/old_copies.rs"]
mod old_copies;
#[path = "e2e_serve/own_merits.rs"]
mod own_merits;
#[path = "e2e_serve/refusals.rs"]
mod refusals;
#[path = "e2e_serve/remembering.rs"]
mod remembering;
#[path = "e2e_serve/two_volumes.rs"]
mod two_volumes;

//! An array's life with the built binary on files: every level served, loaded, ended in order and by
//! `kill -9`, degraded, rebuilt, replaced, scrubbed. What was acknowledged is compared sector by sector.
//!
//! [`life`] follows arrays from start to end; [`members`] lets drives come and go, [`two_volumes`] for two
//! volumes at once, and [`own_merits`] where only one of them goes on; [`old_copies`] puts drives back as they were
//! before a life; [`refusals`] asks for what is not to be had;
//! [`counting_clients`] looks at what monitoring reads of clients; [`remembering`] is about what a server knows from the one before.

mod counting_clients;
mod life;
mod members;
mod old_copies;
mod own_merits;
mod refusals;
mod remembering;
mod two_volumes;

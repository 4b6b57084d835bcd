//! An array's life with the built binary on files: every level served, loaded, ended in order and by
//! `kill -9`, degraded, rebuilt, replaced, scrubbed. What was acknowledged is compared sector by sector.
//!
//! [`life`] follows arrays from start to end; [`members`] adds and removes drives, [`two_volumes`] does so with two
//! volumes at once, and [`own_merits`] where only one of them can be served; [`old_copies`] puts back copies of drives
//! from before a session; [`refusals`] requests what must be refused; [`counting_clients`] checks the metrics about
//! clients; [`readers`] checks who may connect to the API; [`remembering`] checks what a server knows from the one before; [`tls`] checks clients over TCP; [`unit`] runs a server with the
//! capabilities that it has at boot.

mod counting_clients;
mod life;
mod machine;
mod members;
mod old_copies;
mod own_merits;
mod readers;
mod refusals;
mod remembering;
mod tls;
mod two_volumes;
mod unit;

//! A real array over memory, served through a real socket and queried by the real client.

mod description;
mod garbage;
mod inexpressible;
mod letting_go;
mod life;
mod limits;
mod listening;
mod readers;
mod refusals;
mod work;

use super::schema::{Done, Events};
use crate::client::{Client, ClientError};
use crate::status::Status;
use crate::testing::{PATIENCE, Served, create};
use container::assemble::assemble;
use container::probe::probe_all;
use drives::drive::Access;
use engine::options::Options;
use hyper::Method;
use metadata::imsm::Level;
use metadata::imsm::start::StartOptions;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Of a refusal: its status code, its sentence, and whether it protects data.
pub fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> (u16, String, bool) {
    match result.unwrap_err().downcast::<ClientError>().unwrap() {
        ClientError::Answered { code, body } => (code, body.error, body.protects_data),
        other => panic!("{other}"),
    }
}

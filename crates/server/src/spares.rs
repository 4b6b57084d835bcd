//! The drives that the options name: the array's, and spares, which the array does not need to start.

use super::events::{Told, tell_spare_refused};
use super::options::ServeOptions;
use super::runtime::Shared;
use crate::api::Spares;
use crate::api::schema::SpareRequest;
use anyhow::Result;
use container::open::{for_change, for_reading, refuse_twins};
use container::probe::Probed;

/// The drives that `--spare` names and that are not part of the array yet.
#[derive(Default)]
pub(super) struct NamedSpares {
    /// Those that are still to be added.
    pub new: Vec<String>,
    /// Reports of those that cannot be opened.
    pub refused: Vec<Told>,
}

/// Opens the array's drives, and returns them with the spares still to be added. A spare that has a record already is
/// returned with the array's drives: it may have taken a failed member's place since the same command line was first
/// used. An array does not need its spares to start, so one that cannot be opened is only reported.
pub(super) fn open_drives(options: &ServeOptions) -> Result<(Vec<Probed>, NamedSpares)> {
    refuse_twins(&[&options.drives[..], &options.spares].concat())?;
    let open = match options.read_only {
        true => for_reading,
        false => for_change,
    };
    let mut drives = open(&options.drives)?;
    let mut spares = NamedSpares::default();
    for spec in &options.spares {
        match open(std::slice::from_ref(spec)) {
            Ok(opened) => {
                let (new, recorded) = opened
                    .into_iter()
                    .partition(|drive| matches!(drive.found, Ok(None)));
                let new: Vec<Probed> = new;
                drives.extend::<Vec<Probed>>(recorded);
                spares.new.extend(new.iter().map(|_| spec.clone()));
            }
            Err(error) => {
                let why = format!("{error:#}");
                spares.refused.push(tell_spare_refused(spec, &why));
            }
        }
    }
    Ok((drives, spares))
}

/// Adds the drives that `--spare` names and that are not part of the array yet; refusals are reported.
pub(super) fn add_spares(
    options: &ServeOptions,
    (shared, spares): (&Shared, &Spares),
    drives: &[String],
    tell: &dyn Fn(Told),
) {
    for drive in drives {
        let request = SpareRequest {
            drive: drive.clone(),
            force: false,
        };
        let added = match options.read_only {
            true => Err("--read-only takes no spares".to_owned()),
            false => spares
                .add(shared, &request)
                .map_err(|error| match error.protects_data {
                    true => format!("{error}, as an option of `add-spare`"),
                    false => error.to_string(),
                }),
        };
        if let Err(why) = added {
            tell(tell_spare_refused(drive, &why));
        }
    }
}

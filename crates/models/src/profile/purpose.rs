//! What drives are made for.

use core::fmt;
use serde::{Deserialize, Serialize};

/// What drives are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Servers: steady loads, power-loss protection.
    DataCentre,
    /// Workstations and notebooks.
    Consumer,
}

impl Purpose {
    /// Every value with its word.
    pub const ALL: &[(Purpose, &str)] = &[
        (Purpose::DataCentre, "data-centre"),
        (Purpose::Consumer, "consumer"),
    ];

    /// The word for it, as the files have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Purpose::DataCentre => "data-centre",
            Purpose::Consumer => "consumer",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

//! Who makes a drive, and what for.

use models::profile::{Family, Purpose};
use std::collections::BTreeMap;

/// What is known of a drive besides its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Make {
    /// What its maker sells it as.
    pub title: String,
    /// Its maker, if its file says so.
    pub maker: Option<String>,
    /// What it is made for, if its file says so.
    pub purpose: Option<Purpose>,
}

impl Make {
    /// What a family's file says.
    #[must_use]
    pub fn of(family: &Family) -> Make {
        Make {
            title: family.title.clone(),
            maker: family.maker.clone(),
            purpose: family.purpose,
        }
    }
}

/// Makes by the names of drives.
pub type Makes = BTreeMap<String, Make>;

//! Chooses drives of a catalogue.

use crate::Entry;
use crate::sheet::{Class, Purpose};

/// Which drives are wanted; what is not given allows all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// The maker, in any case.
    pub maker: Option<String>,
    /// The kind of memory.
    pub class: Option<Class>,
    /// What it is made for.
    pub purpose: Option<Purpose>,
    /// PCIe generation.
    pub generation: Option<u8>,
    /// Least capacity in 10¹² bytes.
    pub at_least_tb: Option<f64>,
    /// Largest capacity in 10¹² bytes.
    pub at_most_tb: Option<f64>,
}

impl Filter {
    /// Whether a drive is wanted.
    #[must_use]
    pub fn wants(&self, entry: Entry) -> bool {
        let Entry { family, drive } = entry;
        let is_from = |maker: &String| maker.eq_ignore_ascii_case(&family.maker);
        let tb = drive.capacity_gb() / 1000.0;
        self.maker.as_ref().is_none_or(is_from)
            && self.class.is_none_or(|class| class == family.class)
            && self.purpose.is_none_or(|purpose| purpose == family.purpose)
            && self
                .generation
                .is_none_or(|generation| f64::from(generation) == family.generation.high())
            && self.at_least_tb.is_none_or(|least| tb >= least)
            && self.at_most_tb.is_none_or(|most| tb <= most)
    }
}

//! A number of a profile, with its source.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The status of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    /// A specification, or computed from specifications alone.
    S,
    /// What the press, a seller or another than the maker says.
    #[serde(rename = "reported")]
    Reported,
    /// Fitted to published results that may be used for fitting; it counts as a fitted constant.
    C,
    /// The usual value of such a drive, taken from another source and never fitted.
    #[serde(rename = "prior")]
    Prior,
    /// Read from the machine itself, or counted on it.
    #[serde(rename = "measured")]
    Measured,
}

impl Use {
    /// The word for it in lists of figures.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Use::S => "sheet",
            Use::Reported => "reported",
            Use::C => "fitted",
            Use::Prior => "prior",
            Use::Measured => "measured",
        }
    }
}

/// One number of a profile. Its unit is the last word of its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// The document, claim or reasoning that it comes from.
    pub source: String,
    /// The status of the number.
    pub r#use: Use,
}

/// Defines a table of figures, all of them required. [`Figures::each`] lists them.
macro_rules! figures {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $key:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$meaning])* pub $key: $crate::profile::Figure,)+
        }

        impl $crate::profile::Figures for $name {
            fn each(&self, visit: &mut dyn FnMut(&'static str, &$crate::profile::Figure)) {
                $(visit(stringify!($key), &self.$key);)+
            }

            fn find_mut(&mut self, key: &str) -> Option<&mut $crate::profile::Figure> {
                match key {
                    $(stringify!($key) => Some(&mut self.$key),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use figures;

/// A table whose figures can be listed and changed by key.
pub trait Figures {
    /// Calls `visit` with each figure and its key, in the order of declaration.
    fn each(&self, visit: &mut dyn FnMut(&'static str, &Figure));
    /// The figure with this key.
    fn find_mut(&mut self, key: &str) -> Option<&mut Figure>;
}

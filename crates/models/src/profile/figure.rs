//! A number of a profile with where it comes from.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// What a number may be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    /// A specification, or computed from specifications alone.
    S,
    /// Fitted to published results that may be used for fitting: a constant that counts.
    C,
    /// The usual value of such a drive, taken from elsewhere and never fitted.
    #[serde(rename = "prior")]
    Prior,
}

/// One number of a profile. Its unit is the last word of its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// Document, claim or reasoning that it comes from.
    pub source: String,
    /// What it may be taken for.
    pub r#use: Use,
}

/// A table of figures, all of them required, listed by [`Figures::each`].
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
    /// Shows each figure with its key, in the order of their declaration.
    fn each(&self, visit: &mut dyn FnMut(&'static str, &Figure));
    /// The figure with this key.
    fn find_mut(&mut self, key: &str) -> Option<&mut Figure>;
}

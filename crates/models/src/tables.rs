//! A file of figures: its tables are listed, a figure is found by name, and all are checked, in the same way for
//! drives, platforms, hosts, exports and md.

use crate::profile::{Figure, Figures};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Why a file cannot be used: which one, which key, which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureError {
    /// The drive, its family, the platform, host, export or stack.
    pub name: String,
    /// Key, with its table.
    pub key: String,
    /// What is wrong and what the rule is.
    pub rule: String,
}

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.name, self.key, self.rule)
    }
}

impl core::error::Error for FigureError {}

/// A file with tables of figures.
pub trait Tables {
    /// Its tables in the order of the file, with their names.
    fn tables(&self) -> Vec<(&str, &dyn Figures)>;
    /// The same, to be changed.
    fn tables_mut(&mut self) -> Vec<(&str, &mut dyn Figures)>;

    /// Shows every number of the file with its table and key.
    fn each_figure(&self, visit: &mut dyn FnMut(&str, &'static str, &Figure)) {
        for (table, figures) in self.tables() {
            figures.each(&mut |key, figure| visit(table, key, figure));
        }
    }

    /// The number called `table.key`, to be changed: for fitting and for asking what a constant does.
    fn figure_mut(&mut self, name: &str) -> Option<&mut Figure> {
        let (table, key) = name.rsplit_once('.')?;
        let mut tables = self.tables_mut().into_iter();
        let (_, figures) = tables.find(|(name, _)| *name == table)?;
        figures.find_mut(key)
    }
}

/// [`Tables`] of a file whose fields are called as its tables are. Behind a semicolon come lists of further tables,
/// with the field that names each and the one that has its figures.
macro_rules! tables {
    ($file:ident: $($table:ident),+ $(; $($list:ident: $name:ident $figures:ident),+)?) => {
        impl $crate::tables::Tables for $file {
            fn tables(&self) -> alloc::vec::Vec<(&str, &dyn $crate::profile::Figures)> {
                let all = [$((stringify!($table), &self.$table as &dyn $crate::profile::Figures)),+];
                let all = all.into_iter();
                $($(let all = all.chain(
                    self.$list.iter().map(|one| (one.$name.as_str(), &one.$figures as _)),
                );)+)?
                all.collect()
            }

            fn tables_mut(&mut self) -> alloc::vec::Vec<(&str, &mut dyn $crate::profile::Figures)> {
                let all = [$((stringify!($table), &mut self.$table as &mut dyn $crate::profile::Figures)),+];
                let all = all.into_iter();
                $($(let all = all.chain(
                    self.$list.iter_mut().map(|one| (one.$name.as_str(), &mut one.$figures as _)),
                );)+)?
                all.collect()
            }
        }
    };
}
pub(crate) use tables;

/// Smallest and largest value of a key, and whether it counts something.
pub(crate) type Range = fn(&str) -> (f64, f64, bool);

/// Checks the version of a file's form (`schema`, which should be `known`) and the range of each of its numbers.
pub(crate) fn check(
    file: &dyn Tables,
    name: &str,
    [schema, known]: [u32; 2],
    range: Range,
) -> Result<(), FigureError> {
    let refuse = |key: String, rule: String| FigureError {
        name: name.to_string(),
        key,
        rule,
    };
    if schema != known {
        let rule = format!("is {schema}, but this program reads {known}");
        return Err(refuse("schema".to_string(), rule));
    }
    for (table, figures) in file.tables() {
        if let Some((key, rule)) = out_of_range(figures, range) {
            return Err(refuse(format!("{table}.{key}"), rule));
        }
    }
    Ok(())
}

/// The first number of a table that no machine can have, as key and rule.
fn out_of_range(figures: &dyn Figures, range: Range) -> Option<(&'static str, String)> {
    let mut found = None;
    figures.each(&mut |key, figure| {
        let (least, most, counts) = range(key);
        let value = figure.value;
        let rule = if !(least..=most).contains(&value) {
            format!("is {value}, but has to be from {least} to {most}")
        } else if counts && value != (value as u64) as f64 {
            format!("is {value}, but has to be a whole number")
        } else {
            return;
        };
        found.get_or_insert((key, rule));
    });
    found
}

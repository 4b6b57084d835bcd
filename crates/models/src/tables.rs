//! Files of figures: lists their tables, finds a figure by name, and checks all figures, in the same way for drives,
//! platforms, hosts, exports and md.

use crate::profile::{Figure, Figures};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Why a file cannot be used: the file's subject, the key, and the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureError {
    /// The name of the drive, family, platform, host, export or stack.
    pub name: String,
    /// The key, with its table.
    pub key: String,
    /// What is wrong, and the rule.
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
    /// The same, mutable.
    fn tables_mut(&mut self) -> Vec<(&str, &mut dyn Figures)>;

    /// Calls `visit` with each figure of the file, its table and its key.
    fn each_figure(&self, visit: &mut dyn FnMut(&str, &'static str, &Figure)) {
        for (table, figures) in self.tables() {
            figures.each(&mut |key, figure| visit(table, key, figure));
        }
    }

    /// The figure called `table.key`, mutable: for fitting, and to find out what a constant does.
    fn figure_mut(&mut self, name: &str) -> Option<&mut Figure> {
        let (table, key) = name.rsplit_once('.')?;
        let mut tables = self.tables_mut().into_iter();
        let (_, figures) = tables.find(|(name, _)| *name == table)?;
        figures.find_mut(key)
    }
}

/// Implements [`Tables`] for a file whose fields are named like its tables. After a semicolon come lists of further
/// tables, each with the field that holds its name and the field that holds its figures.
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

/// Smallest and largest value of a key, and whether it must be a whole number.
pub(crate) type Range = fn(&str) -> (f64, f64, bool);

/// Checks the version of a file's form (`schema`, which must be `known`) and the range of each of its numbers.
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

/// The first number of a table that is out of range, as key and rule.
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

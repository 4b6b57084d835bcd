//! Named arguments, as JSON: turned into the planner's question, or into a request to explain.
//!
//! Names are those of setups and loads in files of points (docs/planning.md), so that a report's configuration reads
//! like the call that asked for it.

use crate::refusals::{error, refused};
use engine::layout::Level as ArrayLevel;
use explain::Asked;
use explain::array::Array;
use explain::report::{self, Explanation};
use lab::schema::setup::Level;
use lab::workload::size::Size;
use planner::plan::ask::Question;
use planner::plan::loads::LoadQuestion;
use planner::plan::size::SizeQuestion;
use pyo3::prelude::PyErr;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::cell::RefCell;

/// Arguments by name. Each is taken once; what is left is unknown.
pub struct Arguments {
    left: RefCell<Map<String, Value>>,
    known: RefCell<Vec<&'static str>>,
}

impl Arguments {
    /// Reads a JSON object. Arguments that are `null` count as missing.
    ///
    /// # Errors
    /// It is no object.
    pub fn read(json: &str) -> Result<Arguments, PyErr> {
        let mut left: Map<String, Value> =
            serde_json::from_str(json).map_err(|why| error(&format!("the arguments: {why}")))?;
        left.retain(|_, value| !value.is_null());
        Ok(Arguments {
            left: RefCell::new(left),
            known: RefCell::default(),
        })
    }

    /// The value of an argument, if it is given.
    fn optional<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, PyErr> {
        self.known.borrow_mut().push(name);
        let Some(value) = self.left.borrow_mut().remove(name) else {
            return Ok(None);
        };
        let read = serde_json::from_value(value);
        read.map(Some)
            .map_err(|why| error(&of_wrong_form(name, &why.to_string())))
    }

    fn or_default<T: DeserializeOwned + Default>(&self, name: &'static str) -> Result<T, PyErr> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// One value or several.
    fn several<T: DeserializeOwned>(&self, name: &'static str) -> Result<Vec<T>, PyErr> {
        let is_list = self.left.borrow().get(name).is_some_and(Value::is_array);
        if is_list {
            return self.or_default(name);
        }
        Ok(self.optional(name)?.into_iter().collect())
    }

    /// The size of a request: text like "4k", or a number of bytes.
    fn size(&self, name: &'static str) -> Result<Option<Size>, PyErr> {
        let number = self.left.borrow().get(name).and_then(Value::as_u64);
        if let Some(bytes) = number {
            let text = Value::String(bytes.to_string());
            self.left.borrow_mut().insert(name.to_owned(), text);
        }
        self.optional(name)
    }

    /// Refuses arguments that nobody has taken.
    fn none_left(&self) -> Result<(), PyErr> {
        let left = self.left.borrow();
        let Some(name) = left.keys().next() else {
            return Ok(());
        };
        let known = self.known.borrow();
        Err(error(&format!(
            "there is no argument {name}; nearest: {}",
            lab::schema::nearest::nearest(name, known.iter().copied())
        )))
    }
}

/// A sentence about an argument of the wrong form, in place of the reader's, which names types of Rust: `invalid type: string
/// "x", expected u32`.
fn of_wrong_form(name: &str, why: &str) -> String {
    let (found, expected) = match why.split_once(", expected ") {
        Some((found, expected)) => (found, expected.replace('`', "")),
        None => return format!("{name}: {why}"),
    };
    let expected = match expected.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "True or False",
        other => other,
    };
    let found = found.replace('`', "");
    let kinds = [
        "invalid type: ",
        "invalid value: ",
        "unknown variant ",
        "string ",
        "integer ",
        "floating point ",
        "boolean ",
    ];
    let found = kinds.iter().fold(found.as_str(), |text, kind| {
        text.strip_prefix(kind).unwrap_or(text)
    });
    format!("{name} must be {expected}, is {found}")
}

/// A value that has to be given.
fn needed<T>(value: Option<T>, name: &str) -> Result<T, PyErr> {
    value.ok_or_else(|| error(&format!("{name} is missing")))
}

/// The planner's question.
///
/// # Errors
/// An argument is missing, unknown, or has the wrong form.
pub fn question(of: &Arguments) -> Result<Question, PyErr> {
    let drive = of.optional::<String>("drive")?;
    let platform = of.optional::<String>("platform")?;
    let count = of.optional("count")?;
    let question = Question {
        from_sheet: of.or_default("from_sheet")?,
        levels: of.several::<Level>("level")?,
        host: of.optional("host")?,
        stack: of.optional("stack")?,
        chunk_kib: of.optional("chunk_kib")?,
        engine_cores: of.optional("engine_cores")?,
        export: of.optional("export")?,
        completion: of.optional("completion")?,
        load: load(of)?,
        state: of.optional("state")?,
        degraded: of.or_default("degraded")?,
        rebuilding: of.or_default("rebuilding")?,
        rebuild_rates_mb_s: of.several("rebuild_mb_s")?,
        compare: of.optional("compare")?,
        as_vroc: of.optional("as_vroc")?,
        size: SizeQuestion {
            spares: of.or_default("spares")?,
            prices: of.optional("prices")?,
            annual_failure_percent: of.optional("annual_failure_percent")?,
        },
        provenance: of.or_default("provenance")?,
        ..Question::new(String::new(), String::new())
    };
    of.none_left()?;
    if !question.rebuild_rates_mb_s.is_empty() && !question.rebuilding {
        return Err(error(
            "rebuild_mb_s is the limit of a rebuild: give rebuilding=True too",
        ));
    }
    if question.degraded && question.rebuilding {
        return Err(error(
            "degraded and rebuilding exclude each other: give one of them",
        ));
    }
    Ok(Question {
        drive: needed(drive, "drive")?,
        platform: needed(platform, "platform")?,
        count: count.unwrap_or(question.count),
        ..question
    })
}

fn load(of: &Arguments) -> Result<LoadQuestion, PyErr> {
    let load = LoadQuestion {
        workload: of.optional("workload")?,
        op: of.optional("op")?,
        bs: of.size("bs")?,
        threads: of.optional("threads")?,
        qd: of.optional("qd")?,
        read_pct: of.optional("read_pct")?,
        demand: of.optional("demand_iops")?,
    };
    let says_more = load.op.is_some()
        || load.bs.is_some()
        || load.threads.is_some()
        || load.qd.is_some()
        || load.read_pct.is_some()
        || load.demand.is_some();
    if load.workload.is_some() && says_more {
        return Err(error(
            "workload is a file with whole loads: leave out op, bs, threads, qd, read_pct and demand_iops",
        ));
    }
    Ok(load)
}

/// The explanation of a request.
///
/// # Errors
/// There is no such array, or the request does not fit it.
pub fn explained(of: &Arguments) -> Result<Explanation, PyErr> {
    let asked = Asked {
        is_write: needed(of.optional("is_write")?, "is_write")?,
        offset_bytes: needed(of.optional("offset_bytes")?, "offset_bytes")?,
        length_bytes: needed(of.optional("length_bytes")?, "length_bytes")?,
    };
    let failed: Vec<u8> = of.or_default("failed")?;
    let mut array = match of.optional::<u64>("level")? {
        Some(level) => described(of, level)?,
        None => {
            let volume: String = needed(of.optional("volume")?, "volume")?;
            let drives: Vec<String> = of.or_default("drives")?;
            Array::on_drives(&volume, &drives).map_err(refused)?
        }
    };
    of.none_left()?;
    for slot in failed {
        array.fail(slot).map_err(refused)?;
    }
    let request = format!("length_bytes {}", asked.length_bytes);
    report::explain(&array, asked).map_err(|why| error(&why.in_words(&request, &array)))
}

/// An array that exists nowhere.
fn described(of: &Arguments, level: u64) -> Result<Array, PyErr> {
    let level = ArrayLevel::from_number(level)
        .ok_or_else(|| error(&format!("level must be 0, 1, 5 or 10, is {level}")))?;
    let members: u32 = needed(of.optional("members")?, "members")?;
    let chunk_kib: Option<u32> = of.optional("chunk_kib")?;
    let chunk_bytes = chunk_kib
        .map(|kib| {
            kib.checked_mul(1024)
                .ok_or_else(|| error(&format!("chunk_kib must be at most 1024, is {kib}")))
        })
        .transpose()?;
    Array::described(level, members, chunk_bytes).map_err(refused)
}

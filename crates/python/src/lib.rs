//! The compiled half of the Python package `fullstripe`: plans, predictions, explanations, and what drives hold.
//!
//! Python's half (python/fullstripe) has the functions that users call, with their types and docstrings. This half takes
//! arguments as JSON and returns what the command line prints with `--json`, so that both always say the same.
//! [`arguments`] turns named arguments into the planner's question, [`refusals`] turns errors into exceptions that name
//! arguments, and [`waiting`] computes on a thread of its own, without Python's lock, so that other threads of Python run
//! and Ctrl-C is heard.

mod arguments;
mod refusals;
mod waiting;

use arguments::{Arguments, explained, question};
use planner::plan::one_point::OnePoint;
use planner::plan::plan as plan_all;
use planner::points;
use planner::work::Work;
use pyo3::prelude::*;
use refusals::{error, refused};
use serde::Serialize;
use std::path::{Path, PathBuf};
use waiting::{Progress, Silent, apart};

/// Answers are not kept on disk: they are kept by the digest of the running program, which here is Python itself. A sweep has a
/// store of its own.
fn work(jobs: Option<usize>) -> Work {
    Work {
        jobs,
        remember: false,
    }
}

fn to_json(report: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(report)?)
}

/// Computes a plan. `arguments` is JSON; `progress` is called with the work done and all work.
#[pyfunction]
fn plan(
    py: Python<'_>,
    arguments: &str,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let question = question(&Arguments::read(arguments)?)?;
    let progress = Progress::to(progress);
    apart(py, move || {
        to_json(&plan_all(&question, work(jobs), &progress)?)
    })
}

/// The key of a point of a sweep, or why no array is like that: one of both.
#[pyfunction]
fn point_key(arguments: &str) -> PyResult<(Option<String>, Option<String>)> {
    let question = question(&Arguments::read(arguments)?)?;
    Ok(match OnePoint::of(&question).map_err(refused)? {
        OnePoint::Possible(prepared) => (Some(prepared.key()), None),
        OnePoint::LeftOut(reason) => (None, Some(reason)),
    })
}

/// Computes a point of a sweep on one thread: its key and its report.
#[pyfunction]
fn point(py: Python<'_>, arguments: &str) -> PyResult<(String, String)> {
    let question = question(&Arguments::read(arguments)?)?;
    let prepared = match OnePoint::of(&question).map_err(refused)? {
        OnePoint::Possible(prepared) => prepared,
        OnePoint::LeftOut(reason) => return Err(error(&reason)),
    };
    let key = prepared.key();
    let report = apart(py, move || {
        to_json(&prepared.run_one(work(Some(1)), &Silent)?)
    })?;
    Ok((key, report))
}

/// Predicts the points of a file.
#[pyfunction]
fn predict(
    py: Python<'_>,
    file: PathBuf,
    deep: bool,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let text = std::fs::read_to_string(&file)
        .map_err(|why| error(&format!("cannot read {}: {why}", file.display())))?;
    predict_text(py, file, text, deep, jobs, progress)
}

/// Predicts points that are given as JSON in the form of a file of points. Paths in them are relative to the current folder.
#[pyfunction]
fn predict_points(
    py: Python<'_>,
    points: &str,
    deep: bool,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let points: toml::Value =
        serde_json::from_str(points).map_err(|why| error(&format!("the points: {why}")))?;
    let text = toml::to_string(&points).map_err(|why| error(&format!("the points: {why}")))?;
    predict_text(py, Path::new("points").into(), text, deep, jobs, progress)
}

fn predict_text(
    py: Python<'_>,
    file: PathBuf,
    text: String,
    deep: bool,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let progress = Progress::to(progress);
    apart(py, move || {
        let results = points::predict(&file, &text, deep, work(jobs), &progress)?;
        Ok(results.to_json())
    })
}

/// Explains a request. `arguments` is JSON.
#[pyfunction]
#[pyo3(name = "explain")]
fn explain_request(arguments: &str) -> PyResult<String> {
    let explanation = explained(&Arguments::read(arguments)?)?;
    to_json(&explanation).map_err(refused)
}

/// Examines drives.
#[pyfunction]
fn examine(py: Python<'_>, drives: Vec<String>) -> PyResult<String> {
    apart(py, move || to_json(&container::examine::examine(&drives)))
}

/// The compiled half of the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<refusals::Error>())?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(point_key, module)?)?;
    module.add_function(wrap_pyfunction!(point, module)?)?;
    module.add_function(wrap_pyfunction!(predict, module)?)?;
    module.add_function(wrap_pyfunction!(predict_points, module)?)?;
    module.add_function(wrap_pyfunction!(explain_request, module)?)?;
    module.add_function(wrap_pyfunction!(examine, module)?)?;
    Ok(())
}

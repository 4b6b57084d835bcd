//! Work that takes long: on a thread of its own, without Python's lock.
//!
//! Python hears Ctrl-C only between its own steps, so the calling thread looks for signals while it waits. What was
//! interrupted cannot be stopped in the middle: it ends by itself in the background, and its result is dropped.

use crate::refusals::{error, refused};
use planner::work::Watch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often a waiting thread looks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Computes `work` on another thread while this one waits for it.
///
/// # Errors
/// Those of `work`; an interrupt by the user; a check within the program that failed.
pub fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    let thread = thread::Builder::new()
        .name("fullstripe".to_owned())
        .spawn(move || {
            // Nobody waits any more if the user has interrupted.
            let _ = sender.send(work());
        })
        .map_err(|why| error(&format!("no thread can be started: {why}")))?;
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(LOOK)) {
            Ok(result) => return result.map_err(refused),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(broken(py, thread)),
        }
    }
}

/// The exception for a thread that ended without a result: a check within the program has failed.
fn broken(py: Python<'_>, thread: thread::JoinHandle<()>) -> PyErr {
    let why = py.detach(|| thread.join()).err();
    let sentence = why.and_then(|why| {
        let text = why.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| why.downcast_ref::<String>().cloned())
    });
    PyRuntimeError::new_err(format!(
        "a check within fullstripe failed, please report it: {}",
        sentence.unwrap_or_default()
    ))
}

/// Watches nothing.
pub struct Silent;

impl Watch for Silent {
    fn begin(&self, _all: u64) {}
    fn done(&self, _done: u64) {}
    fn end(&self) {}
    fn note(&self, sentence: &str) {
        unreachable!("only answers that are kept on disk cause notes: {sentence}");
    }
}

/// Tells a function of Python how much is done.
pub struct Progress {
    function: Option<Py<PyAny>>,
    all: AtomicU64,
}

impl Progress {
    /// Tells `function`, called with the work done and all work.
    pub fn to(function: Option<Py<PyAny>>) -> Progress {
        Progress {
            function,
            all: AtomicU64::new(0),
        }
    }
}

impl Watch for Progress {
    fn begin(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
    }

    fn done(&self, done: u64) {
        let Some(function) = &self.function else {
            return;
        };
        let all = self.all.load(Ordering::Relaxed);
        Python::attach(|py| {
            if let Err(why) = function.call1(py, (done, all)) {
                why.write_unraisable(py, None);
            }
        });
    }

    fn end(&self) {}

    fn note(&self, sentence: &str) {
        Silent.note(sentence);
    }
}

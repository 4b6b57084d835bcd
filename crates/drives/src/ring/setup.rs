//! Creates a ring on any supported kernel, and reports which features it has.

use super::EINVAL;
use super::register::{FILES_MAX, register_memory};
use super::restrictions::{Begin, OF_A_SHARD, restricted};
use crate::arena::Arena;
use io_uring::{Builder, IoUring};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Entries that can wait for one submission; more are submitted in several calls.
    pub submission_entries: u32,
    /// Completions that the kernel can deliver before it has to use its slower overflow list.
    pub completion_entries: u32,
    /// The best mode to try; an older kernel may only know simpler ones.
    pub best_mode: RingMode,
}

impl Default for RingOptions {
    fn default() -> RingOptions {
        RingOptions {
            submission_entries: 1024,
            completion_entries: 16_384,
            best_mode: RingMode::Deferred,
        }
    }
}

/// What the kernel granted.
#[derive(Clone, Copy, Debug)]
pub struct RingReport {
    /// How completions reach the thread.
    pub mode: RingMode,
    /// Whether entries need no separate array of indices (kernel 6.6).
    pub no_sqarray: bool,
    /// Whether members are addressed by the ring's own file table.
    pub registered_files: bool,
    /// Whether payload memory is registered; `Err` holds the errno, usually `ENOMEM` for a
    /// `RLIMIT_MEMLOCK` that is too small. Plain addresses are used then.
    pub registered_memory: Result<(), i32>,
    /// Whether the kernel refuses what the ring is not meant to do; `Err` holds the errno with which it did not agree to
    /// that, usually `EPERM` of a container's filter of system calls.
    pub restricted: Result<(), i32>,
}

/// Ways of handling completions, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RingMode {
    /// Single issuer; completion work is deferred until the thread asks for it (kernel 6.1).
    Deferred,
    /// Completion work is done whenever the thread enters the kernel, without interrupting it (kernel 5.19).
    Cooperative,
    /// The kernel interrupts the thread for completion work (kernel 5.11).
    Interrupting,
}

impl RingReport {
    /// The flags of `io_uring_setup(2)` that the kernel has accepted, without their prefix.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let of_mode: &[&str] = match self.mode {
            RingMode::Deferred => &[
                "SINGLE_ISSUER",
                "DEFER_TASKRUN",
                "TASKRUN_FLAG",
                "SUBMIT_ALL",
            ],
            RingMode::Cooperative => &["COOP_TASKRUN", "TASKRUN_FLAG", "SUBMIT_ALL"],
            RingMode::Interrupting => &[],
        };
        let no_sqarray = self.no_sqarray.then_some("NO_SQARRAY");
        of_mode.iter().copied().chain(no_sqarray)
    }
}

impl fmt::Display for RingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            RingMode::Deferred => "deferred completions",
            RingMode::Cooperative => "cooperative completions",
            RingMode::Interrupting => "interrupting completions",
        };
        let files = if self.registered_files {
            "registered files"
        } else {
            "plain files"
        };
        let flags: Vec<&str> = self.flags().collect();
        write!(f, "io_uring with {mode}")?;
        if !flags.is_empty() {
            write!(f, " ({})", flags.join(" "))?;
        }
        write!(f, ", {files}, ")?;
        match self.registered_memory {
            Ok(()) => write!(f, "registered memory, ")?,
            Err(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                write!(
                    f,
                    "plain memory ({error}; raise RLIMIT_MEMLOCK to register it), "
                )?;
            }
        }
        match self.restricted {
            Ok(()) => write!(f, "restricted to what it needs"),
            Err(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                write!(
                    f,
                    "not restricted to what it needs ({error}; allow the system call io_uring_register)"
                )
            }
        }
    }
}

/// Why a ring could not be created.
#[derive(Debug, thiserror::Error)]
#[error("this machine offers no usable io_uring: {reason} (kernel {kernel}); {advice}")]
pub struct RingError {
    reason: String,
    kernel: String,
    advice: String,
}

impl RingError {
    pub(super) fn new(error: &io::Error) -> RingError {
        let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        let advice = match setting.as_deref().map(str::trim) {
            Ok(value @ ("1" | "2")) => format!(
                "kernel.io_uring_disabled is {value}; run as root: sysctl kernel.io_uring_disabled=0"
            ),
            // Kernels before 5.10 cannot create a ring that is disabled at first.
            _ if matches!(error.raw_os_error(), Some(ENOSYS | EINVAL)) => {
                "it needs Linux 5.11 or newer with CONFIG_IO_URING".to_owned()
            }
            _ if error.raw_os_error() == Some(EPERM) => {
                "a container or seccomp profile forbids it; allow the io_uring system calls"
                    .to_owned()
            }
            _ => "free memory or raise RLIMIT_MEMLOCK and try again".to_owned(),
        };
        RingError {
            reason: error.to_string(),
            kernel: kernel_release(),
            advice,
        }
    }

    fn too_old() -> RingError {
        RingError {
            reason: "it cannot wait with a timeout".to_owned(),
            kernel: kernel_release(),
            advice: "use Linux 5.11 or newer".to_owned(),
        }
    }
}

/// Whether the rings of this kernel can watch a descriptor ([`super::Ring::watch`]). Kernels before 5.13 refuse each watch; that
/// version also brought the tags of resources, which it says of itself.
///
/// # Errors
/// No ring can be made.
pub fn can_watch() -> Result<bool, RingError> {
    let ring = IoUring::new(1).map_err(|error| RingError::new(&error))?;
    Ok(ring.params().is_feature_resource_tagging())
}

/// The smallest useful completion queue.
const COMPLETION_ENTRIES_MIN: u32 = 256;

const EPERM: i32 = 1;
const ENOMEM: i32 = 12;
const ENOSYS: i32 = 38;

/// The version of the kernel, like `6.1.0-18-amd64`.
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// How long to wait for memory. The kernel counts the memory of rings against their user's `RLIMIT_MEMLOCK`, and
/// returns it from a work queue of its own some time after their process has ended. So a process that is restarted at
/// once, and is not root, may find nothing left. Where this was seen, one retry was enough.
const MEMORY_WAIT: Duration = Duration::from_secs(3);
const MEMORY_LOOKS_EVERY: Duration = Duration::from_millis(20);

/// Creates a data thread's ring of the best mode that the kernel knows, registers the payload memory and a table for
/// files, and restricts it to what it needs. The thread that calls this is the only one that may use the ring.
pub(super) fn build(
    options: RingOptions,
    payload: &Arena,
) -> Result<(IoUring, RingReport), RingError> {
    let ready = restricted(&OF_A_SHARD, |begin| {
        let (uring, mode, no_sqarray) = build_in_time(options, begin)?;
        let files = uring.submitter().register_files_sparse(FILES_MAX);
        let report = RingReport {
            mode,
            no_sqarray,
            registered_files: files.is_ok(),
            registered_memory: register_memory(&uring, payload),
            restricted: Ok(()),
        };
        Ok((uring, report))
    })?;
    let report = RingReport {
        restricted: ready.restricted,
        ..ready.more
    };
    Ok((ready.uring, report))
}

/// Creates a ring of the best mode, and of a smaller size if `RLIMIT_MEMLOCK` is too low for it.
fn build_in_time(
    options: RingOptions,
    begin: Begin,
) -> Result<(IoUring, RingMode, bool), RingError> {
    let began = Instant::now();
    loop {
        match build_fitting(options, begin) {
            Err(error) if error.raw_os_error() == Some(ENOMEM) && began.elapsed() < MEMORY_WAIT => {
                std::thread::sleep(MEMORY_LOOKS_EVERY);
            }
            Err(error) => return Err(RingError::new(&error)),
            Ok((uring, ..)) if !is_new_enough(&uring) => return Err(RingError::too_old()),
            Ok(built) => return Ok(built),
        }
    }
}

/// Tries ever smaller sizes while memory does not suffice.
fn build_fitting(mut options: RingOptions, begin: Begin) -> io::Result<(IoUring, RingMode, bool)> {
    loop {
        match build_sized(options, begin) {
            Err(error)
                if error.raw_os_error() == Some(ENOMEM)
                    && options.completion_entries > COMPLETION_ENTRIES_MIN =>
            {
                options.completion_entries /= 2;
                let fitting = options.completion_entries / 2;
                options.submission_entries = options.submission_entries.min(fitting);
            }
            other => return other,
        }
    }
}

fn is_new_enough(uring: &IoUring) -> bool {
    uring.params().is_feature_ext_arg() && uring.params().is_feature_nodrop()
}

/// Tries the modes from best to simplest, the best one first without and then with an array of indices.
fn build_sized(options: RingOptions, begin: Begin) -> io::Result<(IoUring, RingMode, bool)> {
    let attempts = [
        (RingMode::Deferred, true),
        (RingMode::Deferred, false),
        (RingMode::Cooperative, false),
        (RingMode::Interrupting, false),
    ];
    let mut last = io::Error::from_raw_os_error(EINVAL);
    for (mode, no_sqarray) in attempts {
        if mode < options.best_mode {
            continue;
        }
        let mut builder = builder(options, mode);
        if no_sqarray {
            builder.setup_no_sqarray();
        }
        if begin == Begin::Disabled {
            builder.setup_r_disabled();
        }
        match builder.build(options.submission_entries) {
            Ok(uring) => return Ok((uring, mode, no_sqarray)),
            Err(error) if error.raw_os_error() == Some(EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn builder(options: RingOptions, mode: RingMode) -> Builder {
    let mut builder = IoUring::builder();
    builder
        .setup_cqsize(options.completion_entries)
        .setup_clamp();
    match mode {
        RingMode::Deferred => {
            builder.setup_single_issuer().setup_defer_taskrun();
            builder.setup_taskrun_flag().setup_submit_all();
        }
        RingMode::Cooperative => {
            builder
                .setup_coop_taskrun()
                .setup_taskrun_flag()
                .setup_submit_all();
        }
        RingMode::Interrupting => {}
    }
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_io_uring_is_told_what_to_do() {
        for (errno, wanted) in [
            (ENOSYS, "5.11 or newer"),
            (EINVAL, "5.11 or newer"),
            (EPERM, "seccomp"),
            (ENOMEM, "RLIMIT_MEMLOCK"),
        ] {
            let message = RingError::new(&io::Error::from_raw_os_error(errno)).to_string();
            assert!(message.contains("no usable io_uring"), "{message}");
            assert!(
                message.contains(&format!("kernel {}", kernel_release())),
                "{message}"
            );
            // Where io_uring is switched off, the advice is about the switch, whatever the errno.
            assert!(
                message.contains(wanted) || message.contains("io_uring_disabled"),
                "{message}"
            );
        }
    }

    #[test]
    fn reports_say_what_is_missing() {
        let report = RingReport {
            mode: RingMode::Cooperative,
            no_sqarray: false,
            registered_files: false,
            registered_memory: Err(ENOMEM),
            restricted: Err(EPERM),
        };
        let text = report.to_string();
        assert!(
            text.contains(
                "cooperative completions (COOP_TASKRUN TASKRUN_FLAG SUBMIT_ALL), plain files, plain memory"
            ),
            "{text}"
        );
        assert!(text.contains("raise RLIMIT_MEMLOCK"), "{text}");
        assert!(
            text.ends_with(
                "not restricted to what it needs (Operation not permitted (os error 1); allow the system call io_uring_register)"
            ),
            "{text}"
        );
    }
}

//! Commands to `/dev/ublk-control`: making, starting, taking over and removing devices.

use super::kernels::crashes;
use super::layout::{
    CONTROL_BYTES, ControlArgument, DeviceInfo, Features, Parameters, control_command,
};
use crate::ring::restrictions::{Begin, OF_UBLK_CONTROL, restricted};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const CONTROL: &str = "/dev/ublk-control";
/// The longest data that a command passes.
const DATA_BYTES: usize = if DeviceInfo::BYTES > Parameters::BYTES {
    DeviceInfo::BYTES
} else {
    Parameters::BYTES
};
/// The kernel allows taking a device over only when it has let go of the process before, soon after its end.
const BUSY_WITHIN: Duration = Duration::from_secs(10);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Why a command of the control device failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The control device is missing.
    #[error(
        "this kernel has no ublk: {CONTROL} is missing; load its module with 'modprobe ublk_drv' (Linux 6.4 or newer)"
    )]
    Missing,
    /// The kernel does not know the commands by the numbers that this program gives them: those of Linux 6.4.
    #[error("this kernel's ublk is older than that of Linux 6.4, which fullstripe needs")]
    Older,
    /// The kernel crashes when a device is made: see [`super::crashes`].
    #[error(
        "Linux {0} crashes when a ublk device is made, which only a reboot mends; boot another kernel, such as 6.18.6 or Ubuntu's 6.17.0-41"
    )]
    Crashes(String),
    /// The control device may not be opened.
    #[error("ublk devices need root: {CONTROL} cannot be opened ({0})")]
    NotAllowed(io::Error),
    /// The control device could not be used.
    #[error("{CONTROL} cannot be used: {0}")]
    Unusable(io::Error),
    /// The kernel refused a command.
    #[error("the kernel does not {what}: {errno}")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// The kernel did not answer.
    #[error("the kernel did not {what} within {} s", within.as_secs())]
    TimedOut {
        /// What it was asked for.
        what: &'static str,
        /// How long it was waited for.
        within: Duration,
    },
}

impl ControlError {
    /// Whether the kernel answered with this error.
    #[must_use]
    pub fn is(&self, wanted: Errno) -> bool {
        matches!(self, ControlError::Refused { errno, .. } if *errno == wanted)
    }
}

/// An open control device. It gives one command at a time and waits for the answer.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: File,
    /// What commands read or write. If the kernel does not answer, it may still use this, and it is never freed.
    data: ManuallyDrop<Box<[u8; DATA_BYTES]>>,
    /// Whether a command was left without an answer.
    waits: bool,
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// [`ControlError`] if the kernel has none or crashes with it, or the process may not use it.
    pub fn open() -> Result<Control, ControlError> {
        let kernel = rustix::system::uname();
        let release = kernel.release().to_string_lossy();
        if crashes(&release) {
            return Err(ControlError::Crashes(release.into_owned()));
        }
        let file = OpenOptions::new().read(true).write(true).open(CONTROL);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ControlError::Missing,
            io::ErrorKind::PermissionDenied => ControlError::NotAllowed(error),
            _ => ControlError::Unusable(error),
        })?;
        Ok(Control {
            ring: restricted_ring().map_err(ControlError::Unusable)?,
            file,
            data: ManuallyDrop::new(Box::new([0; DATA_BYTES])),
            waits: false,
        })
    }

    /// Checks that the kernel knows the commands by their numbers, which are those of Linux 6.4 (`UBLK_F_CMD_IOCTL_ENCODE`).
    /// It is told to make a device without saying which: a kernel that knows what is meant says that this is invalid, and an
    /// older one that there is no such device.
    ///
    /// # Errors
    /// [`ControlError::Older`], or the control device does not answer.
    pub fn knows_the_commands(&mut self) -> Result<(), ControlError> {
        /// The kernel would choose the number of a new device. No device has it.
        const ANY: u32 = u32::MAX;
        let operation = control_command::ADD_DEVICE;
        judge_empty_order(self.command("make a ublk device", operation, of(ANY), false, PROMPT))
    }

    /// Makes a device, which is not started yet. Returns it as the kernel has made it: perhaps with fewer queues.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&mut self, wanted: &DeviceInfo) -> Result<DeviceInfo, ControlError> {
        self.exchange_info("make a ublk device", control_command::ADD_DEVICE, wanted)
    }

    /// A device.
    ///
    /// # Errors
    /// There is none with this number, or the kernel refuses.
    pub fn info(&mut self, number: u32) -> Result<DeviceInfo, ControlError> {
        let asked = DeviceInfo {
            number,
            queues: 0,
            depth: 0,
            state: super::State::Dead,
            request_bytes_max: 0,
            process: 0,
            features: Features::default(),
            mark: 0,
        };
        self.exchange_info(
            "describe the ublk device",
            control_command::GET_DEVICE_INFO,
            &asked,
        )
    }

    fn exchange_info(
        &mut self,
        what: &'static str,
        operation: u32,
        info: &DeviceInfo,
    ) -> Result<DeviceInfo, ControlError> {
        self.data[..DeviceInfo::BYTES].copy_from_slice(&info.encode());
        let argument = ControlArgument {
            device: info.number,
            length: DeviceInfo::BYTES as u16,
            ..ControlArgument::default()
        };
        self.command(what, operation, argument, true, PROMPT)?;
        let answer = self
            .data
            .first_chunk()
            .expect("the data has room for a device");
        Ok(DeviceInfo::decode(answer))
    }

    /// Sets the limits of a device that is not started.
    ///
    /// # Errors
    /// The kernel refuses: a value does not fit the others.
    pub fn set_parameters(&mut self, number: u32, limits: &Parameters) -> Result<(), ControlError> {
        self.data[..Parameters::BYTES].copy_from_slice(&limits.encode());
        let argument = ControlArgument {
            device: number,
            length: Parameters::BYTES as u16,
            ..ControlArgument::default()
        };
        self.command(
            "accept the limits of the ublk device",
            control_command::SET_PARAMETERS,
            argument,
            true,
            PROMPT,
        )
    }

    /// Starts a device: waits until a command has been given for every tag of all queues, then makes the block device and
    /// reads its table of partitions.
    ///
    /// # Errors
    /// The kernel refuses, or not all queues are served within `within`.
    pub fn start(&mut self, number: u32, within: Duration) -> Result<(), ControlError> {
        let argument = of_this_process(number);
        self.command(
            "start the ublk device",
            control_command::START_DEVICE,
            argument,
            false,
            within,
        )
    }

    /// Removes the block device, when all its requests are answered; then the commands of its tags end
    /// ([`super::ALL_TAGS_ABORTED`]).
    ///
    /// # Errors
    /// The kernel refuses, or requests are not answered within `within`.
    pub fn stop(&mut self, number: u32, within: Duration) -> Result<(), ControlError> {
        self.command(
            "stop the ublk device",
            control_command::STOP_DEVICE,
            of(number),
            false,
            within,
        )
    }

    /// Removes a device, when its character device is closed and no operation on it is under way.
    ///
    /// # Errors
    /// The kernel refuses, or the device is in use for longer than `within`.
    pub fn delete(&mut self, number: u32, within: Duration) -> Result<(), ControlError> {
        self.command(
            "remove the ublk device",
            control_command::DELETE_DEVICE,
            of(number),
            false,
            within,
        )
    }

    /// Begins to take over a device whose process has ended. Waits for the kernel to let go of that process.
    ///
    /// # Errors
    /// The kernel refuses: the device is served, or cannot be taken over.
    pub fn start_recovery(&mut self, number: u32) -> Result<(), ControlError> {
        self.while_busy(
            "let the ublk device be taken over",
            control_command::START_RECOVERY,
            of(number),
        )
    }

    /// Completes taking over a device, when a command has been given for every tag. Its waiting requests come.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn end_recovery(&mut self, number: u32) -> Result<(), ControlError> {
        let argument = of_this_process(number);
        self.while_busy(
            "hand the ublk device over",
            control_command::END_RECOVERY,
            argument,
        )
    }

    /// Repeats a command while the kernel says that the device is busy.
    fn while_busy(
        &mut self,
        what: &'static str,
        operation: u32,
        argument: ControlArgument,
    ) -> Result<(), ControlError> {
        let give_up = Instant::now() + BUSY_WITHIN;
        loop {
            match self.command(what, operation, argument, false, BUSY_WITHIN) {
                Err(error) if error.is(Errno::BUSY) && Instant::now() < give_up => {
                    std::thread::sleep(TRY_AGAIN_AFTER);
                }
                other => return other,
            }
        }
    }

    /// Gives a command, with [`Control::data`] if `with_data`, and waits for the answer.
    fn command(
        &mut self,
        what: &'static str,
        operation: u32,
        mut argument: ControlArgument,
        with_data: bool,
        within: Duration,
    ) -> Result<(), ControlError> {
        assert!(
            !self.waits,
            "a command was left without an answer: the control device is not used again"
        );
        if with_data {
            argument.address = self.data.as_mut_ptr() as u64;
        }
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), operation)
            .cmd(argument.encode())
            .build();
        // SAFETY: the only memory that the argument names is `data`, of which it names no more bytes than there are. It
        // lives until the answer, or for ever if there is none.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(
            pushed.is_ok(),
            "the ring has room: no other command is under way"
        );
        self.waits = true;
        let result = self
            .answer(within)?
            .ok_or(ControlError::TimedOut { what, within })?;
        self.waits = false;
        if result < 0 {
            let errno = Errno::from_raw_os_error(-result);
            return Err(ControlError::Refused { what, errno });
        }
        Ok(())
    }

    /// The result of the command under way; `None` if there is none within `within`.
    fn answer(&mut self, within: Duration) -> Result<Option<i32>, ControlError> {
        let give_up = Instant::now() + within;
        loop {
            if let Some(completed) = self.ring.completion().next() {
                return Ok(Some(completed.result()));
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let timespec = Timespec::from(left);
            let arguments = SubmitArgs::new().timespec(&timespec);
            match self.ring.submitter().submit_with_args(1, &arguments) {
                Ok(_) => {}
                // A signal, or the time is over.
                Err(error) if matches!(error.raw_os_error(), Some(4 | 62)) => {}
                Err(error) => return Err(ControlError::Unusable(error)),
            }
        }
    }
}

/// What the answer to an order for a device that says nothing of it tells about the kernel.
fn judge_empty_order(answer: Result<(), ControlError>) -> Result<(), ControlError> {
    match answer {
        Err(error) if error.is(Errno::INVAL) => Ok(()),
        Err(error) if error.is(Errno::NODEV) => Err(ControlError::Older),
        Err(error) => Err(error),
        Ok(()) => panic!("the kernel has made a ublk device of which it was told nothing"),
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if !self.waits {
            // SAFETY: dropped once, here; the kernel has answered every command.
            unsafe { ManuallyDrop::drop(&mut self.data) }
        }
    }
}

/// A ring that can only give commands. What the kernel refuses here it refuses the rings of data threads too, whose report
/// says so.
fn restricted_ring() -> io::Result<IoUring<squeue::Entry128, cqueue::Entry>> {
    let ready = restricted(&OF_UBLK_CONTROL, |begin| {
        let mut builder = IoUring::builder();
        if begin == Begin::Disabled {
            builder.setup_r_disabled();
        }
        io::Result::Ok((builder.build(4)?, ()))
    })?;
    Ok(ready.uring)
}

/// For commands that wait for nothing but the kernel.
const PROMPT: Duration = Duration::from_secs(30);

fn of(number: u32) -> ControlArgument {
    ControlArgument {
        device: number,
        ..ControlArgument::default()
    }
}

/// An argument that names this process as the one that serves the device.
fn of_this_process(number: u32) -> ControlArgument {
    ControlArgument {
        word: u64::from(std::process::id()),
        ..of(number)
    }
}

const _: () = assert!(
    CONTROL_BYTES <= 80,
    "the argument fits into a submission entry"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: Errno) -> ControlError {
        let what = "make a ublk device";
        ControlError::Refused { what, errno }
    }

    #[test]
    fn a_kernel_that_takes_the_order_for_a_mistake_knows_it() {
        assert!(judge_empty_order(Err(refused(Errno::INVAL))).is_ok());
        let older = judge_empty_order(Err(refused(Errno::NODEV)));
        assert!(matches!(older, Err(ControlError::Older)), "{older:?}");
        let other = judge_empty_order(Err(refused(Errno::PERM))).unwrap_err();
        assert!(other.is(Errno::PERM), "{other}");
    }
}

//! Reads what an NVMe drive reports about itself: Identify Controller and the SMART / health log.
//!
//! Both are admin commands. The kernel passes them through on any open file of the controller or of one of its
//! namespaces; they need `CAP_SYS_ADMIN`. Nothing here is on the data path. Field positions are those of the NVM
//! Express Base Specification 2.0, figures 275 (Identify Controller) and 207 (SMART / Health Information), named beside
//! each. What of it is a warning is said in one place, [`judge`].

mod warnings;

pub use warnings::{Limits, Warning, judge};

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use std::ffi::c_void;
use std::os::fd::BorrowedFd;

/// Length of the Identify Controller data.
pub const IDENTIFY_BYTES: usize = 4096;
/// Length of the SMART / health log.
pub const HEALTH_BYTES: usize = 512;

const ADMIN_GET_LOG_PAGE: u8 = 0x02;
const ADMIN_IDENTIFY: u8 = 0x06;
/// CNS 01h: the controller's own data.
const IDENTIFY_CONTROLLER: u32 = 1;
const LOG_HEALTH: u32 = 2;
const ALL_NAMESPACES: u32 = u32::MAX;
/// The kernel's own limit for admin commands: 60 s, unless the parameter `admin_timeout` of its module nvme_core says
/// otherwise. A command that exceeds its time makes Linux reset the controller, which interrupts the I/O of everybody who uses
/// the drive, so a drive that is only slow must not be given less.
const TIMEOUT_MS: u32 = 0;

/// A command to the drive failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvmeError {
    /// The file is no NVMe drive.
    #[error("not an NVMe drive")]
    NotNvme,
    /// The process may not send admin commands.
    #[error("NVMe admin commands need root (CAP_SYS_ADMIN)")]
    NotAllowed,
    /// The drive rejected the command.
    #[error("the drive refused with NVMe status {0:#06x}")]
    Status(u16),
    /// The kernel rejected the command.
    #[error("the NVMe command failed: {0}")]
    System(Errno),
}

/// The fields of Identify Controller that an array needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// SN.
    pub serial: String,
    /// MN.
    pub model: String,
    /// FR.
    pub firmware: String,
    /// VWC bit 0: the drive has a write cache that loses its content in a power failure.
    pub volatile_cache: bool,
    /// ONCS bit 2: Dataset Management, that is, deallocate.
    pub deallocate: bool,
    /// ONCS bit 3: Write Zeroes.
    pub write_zeroes: bool,
    /// TNVMCAP: capacity of all namespaces together; zero when not reported.
    pub capacity_bytes: u128,
    /// WCTEMP in degrees Celsius; `None` when not reported.
    pub warning_celsius: Option<i32>,
    /// CCTEMP in degrees Celsius; `None` when not reported.
    pub critical_celsius: Option<i32>,
}

/// The SMART / health log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Bit 0 spare low, 1 temperature, 2 degraded, 3 read-only, 4 backup failed, 5 memory region.
    pub critical_warning: u8,
    /// Composite temperature in degrees Celsius.
    pub celsius: i32,
    /// Spare capacity left, percent of the original.
    pub available_spare_percent: u8,
    /// The drive warns when the spare capacity is below this.
    pub spare_threshold_percent: u8,
    /// Life used, percent; may exceed 100.
    pub used_percent: u8,
    /// Bytes read by the host (counted in units of 512 000).
    pub read_bytes: u128,
    /// Bytes written by the host (counted in units of 512 000).
    pub written_bytes: u128,
    /// Hours powered on.
    pub power_on_hours: u128,
    /// Power losses without prior notice to the drive.
    pub unsafe_shutdowns: u128,
    /// Errors that the drive could not correct.
    pub media_errors: u128,
}

/// Reads Identify Controller.
///
/// # Errors
///
/// [`NvmeError`].
pub fn identify(fd: BorrowedFd<'_>) -> Result<Controller, NvmeError> {
    let mut data = vec![0u8; IDENTIFY_BYTES];
    admin(fd, ADMIN_IDENTIFY, 0, IDENTIFY_CONTROLLER, &mut data)?;
    Ok(Controller::decode(
        data.as_slice()
            .try_into()
            .expect("the buffer is IDENTIFY_BYTES long"),
    ))
}

/// Reads the SMART / health log.
///
/// # Errors
///
/// [`NvmeError`].
pub fn health(fd: BorrowedFd<'_>) -> Result<Health, NvmeError> {
    let mut data = vec![0u8; HEALTH_BYTES];
    // NUMD: the number of 32-bit words minus one, in the upper half.
    let words = HEALTH_BYTES as u32 / 4 - 1;
    admin(
        fd,
        ADMIN_GET_LOG_PAGE,
        ALL_NAMESPACES,
        words << 16 | LOG_HEALTH,
        &mut data,
    )?;
    Ok(Health::decode(
        data.as_slice()
            .try_into()
            .expect("the buffer is HEALTH_BYTES long"),
    ))
}

impl Controller {
    /// Decodes the data of the command.
    #[must_use]
    pub fn decode(data: &[u8; IDENTIFY_BYTES]) -> Controller {
        let optional_commands = u16::from_le_bytes([data[520], data[521]]);
        let limit = |at: usize| {
            let kelvin = u16::from_le_bytes([data[at], data[at + 1]]);
            (kelvin != 0).then(|| celsius(kelvin))
        };
        Controller {
            serial: text(&data[4..24]),
            model: text(&data[24..64]),
            firmware: text(&data[64..72]),
            volatile_cache: data[525] & 1 != 0,
            deallocate: optional_commands & 1 << 2 != 0,
            write_zeroes: optional_commands & 1 << 3 != 0,
            capacity_bytes: number(&data[280..296]),
            warning_celsius: limit(266),
            critical_celsius: limit(268),
        }
    }
}

impl std::fmt::Display for Health {
    /// `38 °C, 3 % of its life used, 98 % of its spare left`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (celsius, used, spare) = (
            self.celsius,
            self.used_percent,
            self.available_spare_percent,
        );
        write!(
            out,
            "{celsius} °C, {used} % of its life used, {spare} % of its spare left"
        )
    }
}

impl Health {
    /// Decodes the data of the command.
    #[must_use]
    pub fn decode(data: &[u8; HEALTH_BYTES]) -> Health {
        /// Data units are thousands of 512 bytes.
        const UNIT_BYTES: u128 = 512_000;
        Health {
            critical_warning: data[0],
            celsius: celsius(u16::from_le_bytes([data[1], data[2]])),
            available_spare_percent: data[3],
            spare_threshold_percent: data[4],
            used_percent: data[5],
            read_bytes: number(&data[32..48]).saturating_mul(UNIT_BYTES),
            written_bytes: number(&data[48..64]).saturating_mul(UNIT_BYTES),
            power_on_hours: number(&data[128..144]),
            unsafe_shutdowns: number(&data[144..160]),
            media_errors: number(&data[160..176]),
        }
    }
}

/// ASCII, padded with spaces.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_matches([' ', '\0'])
        .to_owned()
}

/// Little-endian, 16 bytes.
fn number(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u128::from(byte))
}

fn celsius(kelvin: u16) -> i32 {
    i32::from(kelvin) - 273
}

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<Command>() == 72);

/// The ioctl, which returns the NVMe status when the drive refuses.
struct AdminCommand<'data> {
    command: Command,
    /// What `command.address` points to.
    _data: &'data mut [u8],
}

// SAFETY: the opcode is NVME_IOCTL_ADMIN_CMD, which takes a `struct nvme_passthru_cmd` and writes to it
// and to the `data_bytes` at `address`, which are borrowed for as long as the command exists.
unsafe impl Ioctl for AdminCommand<'_> {
    type Output = i32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::read_write::<Command>(b'N', 0x41)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.command).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

fn admin(
    fd: BorrowedFd<'_>,
    opcode: u8,
    namespace: u32,
    word_10: u32,
    data: &mut [u8],
) -> Result<(), NvmeError> {
    let command = Command {
        opcode,
        namespace,
        address: data.as_mut_ptr() as u64,
        data_bytes: data.len() as u32,
        words_10_15: [word_10, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..Command::default()
    };
    // SAFETY: see the implementation of `Ioctl`.
    match unsafe {
        rustix::ioctl::ioctl(
            fd,
            AdminCommand {
                command,
                _data: data,
            },
        )
    } {
        Ok(0) => Ok(()),
        Ok(status) => Err(NvmeError::Status(status as u16)),
        Err(Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP) => Err(NvmeError::NotNvme),
        Err(Errno::PERM | Errno::ACCESS) => Err(NvmeError::NotAllowed),
        Err(errno) => Err(NvmeError::System(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn controllers_are_decoded() {
        let mut data = [0u8; IDENTIFY_BYTES];
        data[4..24].copy_from_slice(b"PHLJ0001234A        ");
        data[24..64].copy_from_slice(b"SAMPLE DRIVE 2TB                        ");
        data[64..72].copy_from_slice(b"VDV10131");
        data[266..268].copy_from_slice(&343u16.to_le_bytes());
        data[268..270].copy_from_slice(&353u16.to_le_bytes());
        data[280..288].copy_from_slice(&2_000_398_934_016u64.to_le_bytes());
        data[520] = 0b1100;
        data[525] = 1;
        let wanted = Controller {
            serial: "PHLJ0001234A".to_owned(),
            model: "SAMPLE DRIVE 2TB".to_owned(),
            firmware: "VDV10131".to_owned(),
            volatile_cache: true,
            deallocate: true,
            write_zeroes: true,
            capacity_bytes: 2_000_398_934_016,
            warning_celsius: Some(70),
            critical_celsius: Some(80),
        };
        assert_eq!(Controller::decode(&data), wanted);
        let empty = Controller::decode(&[0; IDENTIFY_BYTES]);
        assert!(!empty.volatile_cache && !empty.deallocate && empty.serial.is_empty());
        assert_eq!(
            (empty.warning_celsius, empty.critical_celsius),
            (None, None)
        );
    }

    #[test]
    fn health_is_decoded() {
        let mut data = [0u8; HEALTH_BYTES];
        data[..6].copy_from_slice(&[0b100, 0x37, 0x01, 98, 10, 3]);
        data[32] = 2;
        data[49] = 1;
        data[128..130].copy_from_slice(&8760u16.to_le_bytes());
        data[144] = 5;
        data[175] = 1;
        let health = Health::decode(&data);
        assert_eq!(health.critical_warning, 4);
        assert_eq!(health.celsius, 0x137 - 273);
        assert_eq!(
            (
                health.available_spare_percent,
                health.spare_threshold_percent
            ),
            (98, 10)
        );
        assert_eq!(health.used_percent, 3);
        assert_eq!(health.read_bytes, 1_024_000);
        assert_eq!(health.written_bytes, 256 * 512_000);
        assert_eq!((health.power_on_hours, health.unsafe_shutdowns), (8760, 5));
        assert_eq!(health.media_errors, 1 << 120);
        let full = Health::decode(&[0xFF; HEALTH_BYTES]);
        assert_eq!(full.read_bytes, u128::MAX, "no overflow on nonsense");
    }

    #[test]
    fn the_request_code_is_that_of_the_kernel() {
        let code = rustix::ioctl::opcode::read_write::<Command>(b'N', 0x41);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(code, 0xC048_4E41);
    }

    #[test]
    fn a_file_is_no_nvme_drive() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(identify(file.as_fd()), Err(NvmeError::NotNvme));
        assert_eq!(health(file.as_fd()), Err(NvmeError::NotNvme));
    }
}

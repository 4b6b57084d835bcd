//! The layouts of what process and kernel tell each other, from `linux/ublk_cmd.h`. All numbers are in the byte order of
//! the machine.

/// The unit of sizes and offsets, whatever the device's logical blocks are.
pub const SECTOR_BYTES: u64 = 512;
/// The most places that a queue can have (`UBLK_MAX_QUEUE_DEPTH`).
pub const DEPTH_MAX: u16 = 4096;
/// How a command completes whose queue has ended (`UBLK_IO_RES_ABORT`, `-ENODEV`).
pub const ALL_TAGS_ABORTED: i32 = -19;

/// `UBLK_U_IO_FETCH_REQ`: waits for the first request of a tag.
pub(crate) const FETCH: u32 = io_command(0x20);
/// `UBLK_U_IO_COMMIT_AND_FETCH_REQ`: answers a tag's request and waits for the next one.
pub(crate) const COMMIT_AND_FETCH: u32 = io_command(0x21);

const READ_WRITE: u32 = 3;
const READ: u32 = 2;

/// The number of a command, made as those of `ioctl(2)` are, from its direction and the length of its argument.
const fn number(direction: u32, argument_bytes: u32, number: u32) -> u32 {
    direction << 30 | argument_bytes << 16 | (b'u' as u32) << 8 | number
}

const fn io_command(code: u32) -> u32 {
    number(READ_WRITE, 16, code)
}

/// Commands to `/dev/ublk-control`.
pub(super) mod control_command {
    use super::{CONTROL_BYTES, READ, READ_WRITE, number};

    const fn changing(code: u32) -> u32 {
        number(READ_WRITE, CONTROL_BYTES as u32, code)
    }

    const fn asking(code: u32) -> u32 {
        number(READ, CONTROL_BYTES as u32, code)
    }

    pub const GET_DEVICE_INFO: u32 = asking(0x02);
    pub const ADD_DEVICE: u32 = changing(0x04);
    pub const DELETE_DEVICE: u32 = changing(0x05);
    pub const START_DEVICE: u32 = changing(0x06);
    pub const STOP_DEVICE: u32 = changing(0x07);
    pub const SET_PARAMETERS: u32 = changing(0x08);
    pub const START_RECOVERY: u32 = changing(0x10);
    pub const END_RECOVERY: u32 = changing(0x11);
}

/// Writes numbers one behind the other into an area of zeros.
struct Writer<const BYTES: usize> {
    bytes: [u8; BYTES],
    at: usize,
}

impl<const BYTES: usize> Writer<BYTES> {
    fn new() -> Self {
        Writer {
            bytes: [0; BYTES],
            at: 0,
        }
    }

    fn put<const LENGTH: usize>(mut self, number: [u8; LENGTH]) -> Self {
        self.bytes[self.at..self.at + LENGTH].copy_from_slice(&number);
        self.at += LENGTH;
        self
    }

    fn u8(self, number: u8) -> Self {
        self.put([number])
    }

    fn u16(self, number: u16) -> Self {
        self.put(number.to_ne_bytes())
    }

    fn u32(self, number: u32) -> Self {
        self.put(number.to_ne_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.put(number.to_ne_bytes())
    }
}

fn bytes_at<const LENGTH: usize>(bytes: &[u8], at: usize) -> [u8; LENGTH] {
    bytes[at..at + LENGTH]
        .try_into()
        .expect("a range of LENGTH bytes")
}

/// The argument of a command of a tag (`struct ublksrv_io_cmd`). `address` is where the kernel copies the data of the
/// tag's next write, and takes that of the read which is answered.
#[inline]
pub(crate) fn tag_command(queue: u16, tag: u16, result: i32, address: u64) -> [u8; 16] {
    Writer::new()
        .u16(queue)
        .u16(tag)
        .u32(result as u32)
        .u64(address)
        .bytes
}

/// The length of [`ControlArgument`].
pub(super) const CONTROL_BYTES: usize = 32;

/// The argument of a command to the control device (`struct ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ControlArgument {
    pub device: u32,
    /// Memory that the kernel reads or writes, and its length.
    pub address: u64,
    pub length: u16,
    /// The first of two words; its meaning depends on the command.
    pub word: u64,
}

impl ControlArgument {
    /// In the form of a 128-byte submission entry: 32 bytes in the place of 80.
    pub fn encode(&self) -> [u8; 80] {
        /// No queue: the command is for the device.
        const NO_QUEUE: u16 = u16::MAX;
        Writer::new()
            .u32(self.device)
            .u16(NO_QUEUE)
            .u16(self.length)
            .u64(self.address)
            .u64(self.word)
            .bytes
    }
}

/// Features of a device, as bits (`UBLK_F_…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// If the serving process ends, the device stays and its requests wait for another process.
    pub const USER_RECOVERY: Features = Features(1 << 3);
    /// The next process also gets the requests which the one before has not answered.
    pub const REISSUE: Features = Features(1 << 4);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// Whether all features of `other` are among these.
    #[must_use]
    pub const fn include(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a device is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Not started, or stopped.
    #[default]
    Dead,
    /// Its requests are served.
    Live,
    /// Its process has ended; its requests wait for another process.
    Quiesced,
    /// A state that this program does not know.
    Other(u16),
}

impl State {
    fn decode(number: u16) -> State {
        match number {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            other => State::Other(other),
        }
    }
}

/// A device as it is asked for, and as the kernel has made it (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, N of `/dev/ublkbN`; [`DeviceInfo::ANY_NUMBER`] lets the kernel choose.
    pub number: u32,
    /// Queues; the kernel makes at most one for each processor.
    pub queues: u16,
    /// Places of each queue.
    pub depth: u16,
    /// What it is doing; ignored when asked for.
    pub state: State,
    /// The longest request with data.
    pub request_bytes_max: u32,
    /// The process that serves it; 0 for none.
    pub process: i32,
    /// What it can do.
    pub features: Features,
    /// A number for the serving program's own use (`ublksrv_flags`), which the kernel keeps.
    pub mark: u64,
}

impl DeviceInfo {
    /// Lets the kernel choose a number.
    pub const ANY_NUMBER: u32 = u32::MAX;
    pub(super) const BYTES: usize = 64;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        Writer::new()
            .u16(self.queues)
            .u16(self.depth)
            .u32(0) // state, padding
            .u32(self.request_bytes_max)
            .u32(self.number)
            .u64(0) // process, padding
            .u64(self.features.0)
            .u64(self.mark)
            .bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> DeviceInfo {
        DeviceInfo {
            queues: u16::from_ne_bytes(bytes_at(bytes, 0)),
            depth: u16::from_ne_bytes(bytes_at(bytes, 2)),
            state: State::decode(u16::from_ne_bytes(bytes_at(bytes, 4))),
            request_bytes_max: u32::from_ne_bytes(bytes_at(bytes, 8)),
            number: u32::from_ne_bytes(bytes_at(bytes, 12)),
            process: i32::from_ne_bytes(bytes_at(bytes, 16)),
            features: Features(u64::from_ne_bytes(bytes_at(bytes, 24))),
            mark: u64::from_ne_bytes(bytes_at(bytes, 32)),
        }
    }
}

/// Properties of the block device, as bits (`UBLK_ATTR_…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Writes are refused by the kernel.
    pub read_only: bool,
    /// Writes that are answered are durable only after a flush.
    pub volatile_cache: bool,
    /// Single writes can be durable when answered. Needs `volatile_cache`.
    pub fua: bool,
}

/// The block device's limits (`struct ublk_params`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Its properties.
    pub attributes: Attributes,
    /// Size in bytes, a multiple of the logical block.
    pub size_bytes: u64,
    /// The smallest unit of a request: a power of two from 512 to the page of the processor.
    pub logical_block_bytes: u32,
    /// The unit which drives write without reading: a power of two.
    pub physical_block_bytes: u32,
    /// Requests of at least this power of two avoid extra work.
    pub io_min_bytes: u32,
    /// Requests of this power of two are the fastest.
    pub io_optimal_bytes: u32,
    /// The longest request with data.
    pub request_bytes_max: u32,
    /// The longest discard; 0 if the device does not discard.
    pub discard_bytes_max: u64,
    /// The longest request to write zeroes.
    pub zeroes_bytes_max: u64,
    /// The unit in which space is returned.
    pub discard_unit_bytes: u32,
}

impl Parameters {
    pub(super) const BYTES: usize = 64;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        const BASIC: u32 = 1 << 0;
        const DISCARD: u32 = 1 << 1;
        let attributes = u32::from(self.attributes.read_only)
            | u32::from(self.attributes.volatile_cache) << 2
            | u32::from(self.attributes.fua) << 3;
        let shift = |bytes: u32| bytes.trailing_zeros() as u8;
        let sectors = |bytes: u64| (bytes / SECTOR_BYTES) as u32;
        Writer::new()
            .u32(Self::BYTES as u32)
            .u32(BASIC | DISCARD)
            .u32(attributes)
            .u8(shift(self.logical_block_bytes))
            .u8(shift(self.physical_block_bytes))
            .u8(shift(self.io_optimal_bytes))
            .u8(shift(self.io_min_bytes))
            .u32(sectors(u64::from(self.request_bytes_max)))
            .u32(0) // boundaries that requests must not cross
            .u64(self.size_bytes / SECTOR_BYTES)
            .u64(0) // boundaries in memory
            .u32(0) // where the first unit of discards begins
            .u32(self.discard_unit_bytes)
            .u32(sectors(self.discard_bytes_max))
            .u32(sectors(self.zeroes_bytes_max))
            .u16(1) // ranges of a discard: the driver knows no more
            .bytes
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make all writes that were answered durable.
    Flush,
    /// Discard.
    Discard,
    /// Write zeroes.
    WriteZeroes,
    /// An operation that this program does not know.
    Other(u8),
}

/// A request, as the kernel describes it (`struct ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What to do, in the lowest 8 bits, and flags.
    pub operation_and_flags: u32,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// First sector of 512 bytes.
    pub first_sector: u64,
}

impl Descriptor {
    pub(super) const BYTES: usize = 24;

    /// What to do.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self.operation_and_flags as u8 {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::Discard,
            5 => Operation::WriteZeroes,
            other => Operation::Other(other),
        }
    }

    /// Whether the change must be durable when it is answered (`UBLK_IO_F_FUA`).
    #[must_use]
    pub fn fua(&self) -> bool {
        self.operation_and_flags & 1 << 13 != 0
    }

    /// Whether zeroed space must stay allocated (`UBLK_IO_F_NOUNMAP`).
    #[must_use]
    pub fn keep_allocated(&self) -> bool {
        self.operation_and_flags & 1 << 15 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers as a C compiler prints them from the kernel's header.
    #[test]
    fn commands_have_the_numbers_of_the_header() {
        assert_eq!(FETCH, 0xc010_7520);
        assert_eq!(COMMIT_AND_FETCH, 0xc010_7521);
        assert_eq!(control_command::GET_DEVICE_INFO, 0x8020_7502);
        assert_eq!(control_command::ADD_DEVICE, 0xc020_7504);
        assert_eq!(control_command::END_RECOVERY, 0xc020_7511);
    }

    #[test]
    fn a_device_reads_back_as_it_was_written() {
        let info = DeviceInfo {
            number: 7,
            queues: 2,
            depth: 64,
            state: State::Dead,
            request_bytes_max: 1 << 19,
            process: 0,
            features: Features::USER_RECOVERY.and(Features::REISSUE),
            mark: 0x0123_4567_89ab_cdef,
        };
        let mut bytes = info.encode();
        assert_eq!(DeviceInfo::decode(&bytes), info);
        // The kernel fills in the state and the process.
        bytes[4] = 2;
        bytes[16] = 99;
        let seen = DeviceInfo::decode(&bytes);
        assert_eq!((seen.state, seen.process), (State::Quiesced, 99));
        assert_eq!(seen.features, Features(0b11000));
    }

    #[test]
    fn parameters_lie_where_the_header_says() {
        let parameters = Parameters {
            attributes: Attributes {
                read_only: false,
                volatile_cache: true,
                fua: true,
            },
            size_bytes: 1 << 30,
            logical_block_bytes: 512,
            physical_block_bytes: 4096,
            io_min_bytes: 1 << 17,
            io_optimal_bytes: 1 << 19,
            request_bytes_max: 1 << 18,
            discard_bytes_max: 1 << 30,
            zeroes_bytes_max: 1 << 29,
            discard_unit_bytes: 4096,
        };
        let bytes = parameters.encode();
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 0)), 64);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 4)), 3);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 8)), 0b1100);
        assert_eq!(bytes[12..16], [9, 12, 19, 17]);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 16)), 512);
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 24)), 1 << 21);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 44)), 4096);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 48)), 1 << 21);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 52)), 1 << 20);
        assert_eq!(u16::from_ne_bytes(bytes_at(&bytes, 56)), 1);
    }

    #[test]
    fn a_request_is_read_from_its_bits() {
        let zeroes = Descriptor {
            operation_and_flags: 5 | 1 << 15 | 1 << 13,
            sectors: 8,
            first_sector: 16,
        };
        assert_eq!(zeroes.operation(), Operation::WriteZeroes);
        assert!(zeroes.fua() && zeroes.keep_allocated());
        let unknown = Descriptor {
            operation_and_flags: 4,
            ..zeroes
        };
        assert_eq!(unknown.operation(), Operation::Other(4));
        assert!(!unknown.fua() && !unknown.keep_allocated());
    }

    #[test]
    fn a_tags_command_has_its_answer_and_its_memory() {
        let bytes = tag_command(1, 2, -5, 0x1000);
        assert_eq!(
            bytes[..4],
            [1u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat()
        );
        assert_eq!(i32::from_ne_bytes(bytes_at(&bytes, 4)), -5);
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 8)), 0x1000);
    }
}

//! The files as the kernel sees them: one folder, in which no file can be created, renamed or resized.

use crate::journal::Operation;
use crate::mounted::Shared;
use crate::state::Waiting;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, WriteFlags,
};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may cache names and attributes: they never change.
const FOREVER: Duration = Duration::from_secs(1 << 20);
const O_DSYNC: i32 = 0o10000;
const O_SYNC: i32 = 0o4_010_000;
const FALLOC_KEEP_SIZE: i32 = 1;
const FALLOC_PUNCH_HOLE: i32 = 2;
const FALLOC_ZERO_RANGE: i32 = 16;

pub(crate) struct Files(pub Arc<Shared>);

struct Written(ReplyWrite, u32);
struct Done(ReplyEmpty);

impl Waiting for Written {
    fn answer(self: Box<Self>, errno: i32) {
        match errno {
            0 => self.0.written(self.1),
            errno => self.0.error(Errno::from_i32(errno)),
        }
    }
}

impl Waiting for Done {
    fn answer(self: Box<Self>, errno: i32) {
        match errno {
            0 => self.0.ok(),
            errno => self.0.error(Errno::from_i32(errno)),
        }
    }
}

/// The number of the file with this inode. The folder has inode 1, file 0 has inode 2.
fn number(inode: INodeNo) -> usize {
    (inode.0 as usize).saturating_sub(2)
}

impl Files {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let is_folder = inode == INodeNo::ROOT;
        let state = self.0.hold();
        let size = match state.files.get(number(inode)) {
            _ if is_folder => 0,
            Some(file) => file.media.size_bytes(),
            None => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if is_folder {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if is_folder { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // With this, the kernel sends the requests of loop devices in parallel.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self
            .0
            .hold()
            .files
            .iter()
            .position(|file| name == file.name.as_str());
        let attributes = found.and_then(|at| self.attributes(INodeNo(at as u64 + 2)));
        match attributes {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode) {
            Some(attributes) if size.is_none_or(|size| size == attributes.size) => {
                reply.attr(&FOREVER, &attributes);
            }
            Some(_) => reply.error(Errno::EPERM),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.hold();
        let Some(file) = state.files.get_mut(number(inode)) else {
            return reply.error(Errno::ENOENT);
        };
        file.open_count += 1;
        // Without a page cache, every write reaches this process, and every read is answered by it.
        let how = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), how);
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if let Some(file) = self.0.hold().files.get_mut(number(inode)) {
            file.open_count = file.open_count.saturating_sub(1);
        }
        self.0.changed.notify_all();
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.0.hold().read(number(inode), offset, u64::from(size));
        self.0.changed.notify_all();
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let dsync = flags.0 & (O_DSYNC | O_SYNC) != 0;
        let waiting = Box::new(Written(reply, data.len() as u32));
        let place = (number(inode), offset);
        self.0.hold().write(place, data, dsync, waiting);
        self.0.changed.notify_all();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.hold().sync(number(inode), Box::new(Done(reply)));
        self.0.changed.notify_all();
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let operation = match mode & !FALLOC_KEEP_SIZE {
            FALLOC_PUNCH_HOLE => Operation::Punch,
            FALLOC_ZERO_RANGE => Operation::ZeroRange,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let waiting = Box::new(Done(reply));
        let (file, mut state) = (number(inode), self.0.hold());
        if operation == Operation::Punch && offset >= state.files[file].media.size_bytes() {
            // As on other file systems, punching a hole beyond the end succeeds and changes nothing. Programs do so to
            // find out whether holes can be punched at all.
            return waiting.answer(0);
        }
        state.zero((file, offset), length, operation, waiting);
        drop(state);
        self.0.changed.notify_all();
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.0.hold();
        for (at, file) in state.files.iter().enumerate().skip(offset as usize) {
            let inode = INodeNo(at as u64 + 2);
            if reply.add(inode, at as u64 + 1, FileType::RegularFile, &file.name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 64, 0, 4096, 255, 4096);
    }
}

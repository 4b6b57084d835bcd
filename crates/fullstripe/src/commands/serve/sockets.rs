//! Sockets that systemd keeps from one server to the next, in the descriptor store of the service: see sd_pid_notify_with_fds(3).
//!
//! A server that ends because the next one follows sends its sockets to systemd, each with a name, and the next one is started
//! with them. systemd closes what it has kept when the service is stopped for good.

use anyhow::{Context, Result, ensure};
use drives::inherited;
use exports::inherited::{Inherited, Named};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::pipe::{PipeFlags, pipe_with};
use sd_notify::NotifyState;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Where systemd hears what a service says.
const SOCKET: &str = "NOTIFY_SOCKET";
/// How long systemd may take to hear all of it. It is at work at once; a busy machine may take a while.
const HEARD_WITHIN: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// Whether systemd has started this process, so that it can keep sockets.
pub(super) fn are_kept() -> bool {
    std::env::var_os(SOCKET).is_some()
}

/// What systemd has kept for this process. To be called before anything is opened.
pub(super) fn inherited() -> Inherited {
    Inherited {
        descriptors: inherited::descriptors(),
        forget: Arc::new(|name| {
            // A copy that stays is closed when the service stops, and the next server finds it outdated.
            let name = format!("FDNAME={name}");
            let remove = ["FDSTOREREMOVE=1", &name].map(NotifyState::Custom);
            let _ = sd_notify::notify(&remove);
        }),
    }
}

/// Gives systemd the sockets, and returns when it has them.
///
/// # Errors
/// systemd does not take them.
pub(super) fn keep(sockets: &[Named]) -> Result<()> {
    let what = "systemd does not keep the sockets, so clients have to connect again";
    give(sockets).context(what)
}

fn give(sockets: &[Named]) -> Result<()> {
    let manager = connected()?;
    for (name, socket) in sockets {
        let text = format!("FDSTORE=1\nFDNAME={name}");
        send(&manager, &text, socket.as_fd())?;
    }
    // systemd closes this descriptor when it has read everything before it.
    let (heard, barrier) = pipe_with(PipeFlags::CLOEXEC)?;
    send(&manager, "BARRIER=1", barrier.as_fd())?;
    drop(barrier);
    let mut polled = [PollFd::new(&heard, PollFlags::empty())];
    let ready = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&HEARD_WITHIN)))?;
    let seconds = HEARD_WITHIN.tv_sec;
    ensure!(ready > 0, "it has not answered within {seconds} s");
    Ok(())
}

fn connected() -> Result<OwnedFd> {
    let place = std::env::var_os(SOCKET).with_context(|| format!("{SOCKET} is not set"))?;
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
        _ => SocketAddrUnix::new(&*place)?,
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

fn send(manager: &OwnedFd, text: &str, descriptor: BorrowedFd<'_>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    let has_room = with.push(SendAncillaryMessage::ScmRights(&descriptors));
    assert!(has_room, "the space is made for one descriptor");
    let text = [IoSlice::new(text.as_bytes())];
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(manager, &text, &mut with, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

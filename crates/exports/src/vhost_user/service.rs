//! vhost-user as an export: a socket for each volume, and a thread that serves the front end which is connected there.

use super::port::{Stop, VhostUserPort};
use super::session::{Session, Shards};
use crate::export::{
    Bind, Export, MakeExportPort, Messages, Offer, Place, Say, Share, Surroundings,
};
use crate::links::is_file_name;
use crate::ports::AnyPort;
use crate::unix_socket::ClaimedSocket;
use anyhow::{Context, Result, bail, ensure};
use drives::ring::{can_watch, kernel_release};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost::vhost_user::{BackendReqHandler, Error};

const KIND: &str = "vhost-user";
/// After an error that does not concern one front end, such as too many open files, the next is accepted later.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The socket of a volume.
struct Socket {
    claimed: ClaimedSocket,
    listener: UnixListener,
    offer: Arc<Mutex<Offer>>,
    /// The front end that is connected.
    connection: Arc<Mutex<Option<UnixStream>>>,
}

/// Lets virtual machines use volumes. See the module's documentation.
pub struct VhostUserExport {
    folder: PathBuf,
    sockets: Vec<Socket>,
    threads: Vec<JoinHandle<()>>,
    is_stopping: Arc<AtomicBool>,
    surroundings: Surroundings,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VhostUserExport {
    /// Sockets for all volumes, each `NAME.sock` in `folder`.
    #[must_use]
    pub fn bind(folder: PathBuf) -> Bind {
        Bind {
            kind: KIND,
            is_needed: true,
            make: Box::new(move |surroundings| {
                refuse_old(can_watch()?, &kernel_release())?;
                if !folder.is_dir() {
                    bail!(
                        "{} is no folder; make it, or name another with --vhost-user",
                        folder.display()
                    );
                }
                Ok(Box::new(VhostUserExport {
                    folder,
                    sockets: Vec::new(),
                    threads: Vec::new(),
                    is_stopping: Arc::default(),
                    surroundings: surroundings.clone(),
                }))
            }),
        }
    }

    fn socket(&self, offer: &Offer) -> Result<Socket> {
        let name = &offer.name;
        if !is_file_name(name) {
            bail!(
                "a volume named \"{name}\" cannot have a socket: its name cannot be that of a file"
            );
        }
        let path = self.folder.join(format!("{name}.sock"));
        let (claimed, listener) = ClaimedSocket::claim(&path, "--vhost-user")?;
        Ok(Socket {
            claimed,
            listener,
            offer: Arc::new(Mutex::new(offer.clone())),
            connection: Arc::default(),
        })
    }
}

/// The data threads learn by a watch that a guest has sent something, which old kernels refuse. Without this check, the server
/// would start, and every front end that connects would be disconnected.
fn refuse_old(can_watch: bool, release: &str) -> Result<()> {
    ensure!(
        can_watch,
        "--vhost-user needs Linux 5.13 or newer, and this is {release}; use a newer kernel, or reach the volumes by NBD or as block \
         devices"
    );
    Ok(())
}

/// Disconnects all front ends, and wakes the threads that wait for one.
fn close(sockets: &[(UnixListener, Arc<Mutex<Option<UnixStream>>>)]) {
    for (listener, connection) in sockets {
        // It does not matter if the other end has closed already.
        let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        if let Some(connection) = &*lock(connection) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Export for VhostUserExport {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn addresses(&self, volume: &str) -> Vec<String> {
        let mut sockets = self.sockets.iter();
        let socket = sockets.find(|socket| lock(&socket.offer).name == volume);
        let address = |socket: &Socket| format!("vhost-user:{}", socket.claimed.path().display());
        socket.map(address).into_iter().collect()
    }

    fn prepare(&mut self, offers: &[Offer], _: Share) -> Result<()> {
        let sockets = offers.iter().map(|offer| self.socket(offer));
        self.sockets = sockets.collect::<Result<_>>()?;
        Ok(())
    }

    fn ports(&self) -> MakeExportPort {
        let say = self.surroundings.say.clone();
        Arc::new(move |place: Place| {
            Ok(AnyPort::VhostUser(VhostUserPort::new(
                place.pool,
                say.clone(),
            )))
        })
    }

    fn open(&mut self, messages: &Messages, _: &[String]) -> Result<()> {
        let messages = Arc::new(messages.clone());
        for socket in &self.sockets {
            let server = Server {
                listener: socket.listener.try_clone()?,
                offer: socket.offer.clone(),
                connection: socket.connection.clone(),
                messages: messages.clone(),
                say: self.surroundings.say.clone(),
                is_stopping: self.is_stopping.clone(),
            };
            let thread = std::thread::Builder::new().name(KIND.to_owned());
            let thread = thread.spawn(move || server.run());
            self.threads
                .push(thread.context("the system starts no more threads")?);
        }
        Ok(())
    }

    fn renew(&mut self, offers: &[Offer], _: &Messages) {
        for socket in &self.sockets {
            let mut known = lock(&socket.offer);
            if let Some(offer) = offers.iter().find(|offer| offer.name == known.name) {
                known.clone_from(offer);
            }
        }
    }

    /// Front ends are disconnected when all that their queues have taken is answered. Those that connect again find the next
    /// server.
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        self.is_stopping.store(true, Ordering::SeqCst);
        let sockets = self.sockets.drain(..);
        let sockets: Vec<_> = sockets
            .map(|socket| (socket.listener, socket.connection))
            .collect();
        let left = AtomicUsize::new(usize::from(messages.shards()));
        let ended = ended.clone();
        let ended: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                close(&sockets);
            }
            ended();
        });
        messages.to_all(|| {
            Box::new(Stop {
                ended: ended.clone(),
            })
        });
    }
}

impl Drop for VhostUserExport {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        let sockets = self.sockets.drain(..);
        let sockets: Vec<_> = sockets
            .map(|socket| (socket.listener, socket.connection))
            .collect();
        close(&sockets);
        for thread in self.threads.drain(..) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What a volume's thread has.
struct Server {
    listener: UnixListener,
    offer: Arc<Mutex<Offer>>,
    connection: Arc<Mutex<Option<UnixStream>>>,
    messages: Arc<Messages>,
    say: Say,
    is_stopping: Arc<AtomicBool>,
}

impl Server {
    fn has_stopped(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Serves one front end after another. The next one waits until all requests of the last are answered, so no request
    /// is carried out twice at a time.
    fn run(self) {
        while !self.has_stopped() {
            match self.listener.accept() {
                Ok((stream, _)) => self.serve(stream),
                Err(_) if self.has_stopped() => return,
                Err(error) => {
                    (self.say)(&format_args!(
                        "vhost-user front ends cannot connect: {error}"
                    ));
                    std::thread::sleep(ACCEPT_AGAIN_AFTER);
                }
            }
        }
    }

    fn serve(&self, stream: UnixStream) {
        match stream.try_clone() {
            Ok(ours) => *lock(&self.connection) = Some(ours),
            Err(error) => {
                return (self.say)(&format_args!(
                    "a vhost-user front end was disconnected: {error}"
                ));
            }
        }
        let messages = self.messages.clone();
        let shards = Shards {
            count: messages.shards(),
            send: Box::new(move |shard, message| messages.to(shard, message)),
        };
        let session = Session::new(
            lock(&self.offer).clone(),
            shards,
            self.say.clone(),
            self.is_stopping.clone(),
        );
        let session = Arc::new(Mutex::new(session));
        let mut handler = BackendReqHandler::from_stream(stream, session.clone());
        let error = loop {
            if self.has_stopped() {
                break None;
            }
            if let Err(error) = handler.handle_request() {
                break Some(error);
            }
        };
        let mut session = lock(&session);
        if let Some(error) = error.filter(|error| !is_end(error) && !self.has_stopped()) {
            session.say(&error);
        }
        // The connection is closed afterwards, so that the front end finds all answers in its memory.
        // While the server ends, its ports do this.
        let _ = session.end_all();
        *lock(&self.connection) = None;
    }
}

/// Whether the front end has closed the connection.
fn is_end(error: &Error) -> bool {
    matches!(
        error,
        Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_watches_nothing_is_refused_in_one_sentence() {
        refuse_old(true, "6.1.0").unwrap();
        let error = refuse_old(false, "5.11.0-27").unwrap_err().to_string();
        assert_eq!(
            error,
            "--vhost-user needs Linux 5.13 or newer, and this is 5.11.0-27; use a newer kernel, or reach the volumes by NBD or as \
             block devices"
        );
    }

    /// The tests of ports watch descriptors on this kernel, so it must not be refused.
    #[test]
    fn this_kernel_is_not_refused() {
        refuse_old(can_watch().unwrap(), &kernel_release()).unwrap();
    }
}

//! One HTTP exchange at a time with the serving process, through its Unix socket.
//!
//! Every exchange uses a connection of its own: a connection to a local socket is cheap, and nothing can be
//! left over from an earlier answer. Every call blocks until the answer has arrived.

use crate::api::schema::ErrorBody;
use crate::api::socket_path::SocketPath;
use anyhow::{Context, Result};
use container::serving;
use exports::killed::why_not_ended;
use exports::unix_socket::owner;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

/// Longest wait for the answer to an order. Orders are answered within 30 s; opening a drive or reading from drives may
/// take additional time.
const ORDER_WITHIN: Duration = Duration::from_secs(90);
/// Longest wait for the answer to an order during which the kernel waits for drives: it may wait for 120 s when it makes a
/// block device.
const DEVICE_WITHIN: Duration = Duration::from_secs(200);
/// Longest wait for information that the serving process has at hand, such as its status: a script that monitors the
/// array must learn soon that the process hangs.
const LOOK_WITHIN: Duration = Duration::from_secs(8);
/// How long to retry while the socket's queue of connections is full.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Why there is no answer, or the error that was answered.
#[derive(Debug)]
pub enum ClientError {
    /// No process listens on this socket.
    Nobody(PathBuf),
    /// The system refuses the connection.
    Closed(PathBuf, std::io::Error),
    /// The connection broke, or no answer came.
    Lost(PathBuf, String),
    /// The serving process refused the request.
    Answered {
        /// HTTP status code.
        code: u16,
        /// Why.
        body: ErrorBody,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Nobody(path) => write!(
                out,
                "no array is being served at {}; {}",
                path.display(),
                serving::elsewhere(&serving::serving(Path::new("/proc")))
            ),
            ClientError::Closed(path, error) => {
                write!(
                    out,
                    "cannot connect to the serving process at {}: {error}",
                    path.display()
                )?;
                match error.kind() {
                    ErrorKind::PermissionDenied => {
                        write!(out, "; {}", serving::owner_in_words(path))
                    }
                    _ => Ok(()),
                }
            }
            ClientError::Lost(path, what) => {
                write!(out, "the serving process at {} {what}", path.display())
            }
            ClientError::Answered { code: 500, body } => {
                write!(out, "the serving process failed at this: {}", body.error)
            }
            ClientError::Answered { body, .. } => out.write_str(&body.error),
        }
    }
}

impl std::error::Error for ClientError {}

/// A client of the serving process.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    path: PathBuf,
}

impl Client {
    /// A client of the process that serves at `socket`, or at the default path ([`SocketPath`]).
    ///
    /// # Errors
    /// No process serves there, or the socket's folder could belong to somebody else.
    pub fn connect(socket: Option<&Path>) -> Result<Client> {
        let socket = SocketPath::find(socket)?;
        socket.check_folder()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start an HTTP client")?;
        let client = Client {
            runtime,
            path: socket.path,
        };
        client.runtime.block_on(client.open())?;
        Ok(client)
    }

    /// Gets `path`, which the serving process answers from what it has at hand, and parses the answer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.exchange(Method::GET, path, Bytes::new(), LOOK_WITHIN)
    }

    /// As [`Client::get`], for an answer for which the serving process has to read from drives.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_read<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.exchange(Method::GET, path, Bytes::new(), ORDER_WITHIN)
    }

    /// Gives an order with a body.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        self.exchange(method, path, serde_json::to_vec(body)?.into(), ORDER_WITHIN)
    }

    /// As [`Client::send`], for an order that makes or removes a block device.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn send_about_device<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = serde_json::to_vec(body)?.into();
        self.exchange(Method::POST, path, body, DEVICE_WITHIN)
    }

    /// Gives an order that needs no body.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn order<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T> {
        self.exchange(method, path, Bytes::new(), ORDER_WITHIN)
    }

    /// The answer to a query, as text.
    ///
    /// # Errors
    /// See [`ClientError`].
    #[cfg(test)]
    pub fn text(&self, path: &str) -> Result<String> {
        let bytes = self.bytes(Method::GET, path, Bytes::new(), LOOK_WITHIN)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Listens to the server-sent events at `path` until the server ends or `each`, which gets
    /// every event's kind and data, returns false.
    ///
    /// # Errors
    /// See [`ClientError`], and those of `each`.
    pub fn listen(
        &self,
        path: &str,
        mut each: impl FnMut(&str, &str) -> Result<bool>,
    ) -> Result<()> {
        self.runtime.block_on(async {
            let mut response = self.request(Method::GET, path, Bytes::new()).await?;
            let mut lines = EventLines::default();
            while let Some(Ok(frame)) = response.frame().await {
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                for (kind, data) in lines.take(&data) {
                    if !each(&kind, &data)? {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        within: Duration,
    ) -> Result<T> {
        let bytes = self.bytes(method, path, body, within)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = format!("gave an answer that this version does not understand: {error}");
            ClientError::Lost(self.path.clone(), what).into()
        })
    }

    fn bytes(&self, method: Method, path: &str, body: Bytes, within: Duration) -> Result<Bytes> {
        let answer = async {
            let response = self.request(method, path, body).await?;
            let collected = response.into_body().collect().await;
            collected
                .map(|body| body.to_bytes())
                .map_err(|error| self.lost(&error))
        };
        let answer = self
            .runtime
            .block_on(async { timeout(within, answer).await });
        let late = |_| {
            let seconds = within.as_secs();
            let why = self.why_silent();
            let what = format!("has not answered within {seconds} s: {why}");
            ClientError::Lost(self.path.clone(), what)
        };
        Ok(answer.map_err(late)??)
    }

    fn why_silent(&self) -> String {
        let killed = owner(&self.path).and_then(why_not_ended);
        killed.unwrap_or_else(|| "it is stopped, or the machine is overloaded".to_owned())
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = self.open().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.lost(&error))?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.lost(&error))?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| self.lost(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| self.lost(&error))?;
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_else(|_| ErrorBody {
            error: format!("the serving process answered with HTTP status {code}"),
            protects_data: false,
        });
        Err(ClientError::Answered { code, body })
    }

    async fn open(&self) -> Result<UnixStream, ClientError> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        loop {
            match UnixStream::connect(&self.path).await {
                Ok(stream) => return Ok(stream),
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline =>
                {
                    sleep(CONNECT_AGAIN_AFTER).await;
                }
                Err(error) => {
                    return Err(match error.kind() {
                        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                            ClientError::Nobody(self.path.clone())
                        }
                        _ => ClientError::Closed(self.path.clone(), error),
                    });
                }
            }
        }
    }

    fn lost(&self, error: &dyn fmt::Display) -> ClientError {
        ClientError::Lost(self.path.clone(), format!("broke off: {error}"))
    }
}

/// Splits a stream of server-sent events into events.
#[derive(Debug, Default)]
struct EventLines {
    rest: Vec<u8>,
    kind: String,
    data: String,
}

impl EventLines {
    /// The events that `bytes` complete: kind and data.
    fn take(&mut self, bytes: &[u8]) -> Vec<(String, String)> {
        self.rest.extend_from_slice(bytes);
        let mut complete = Vec::new();
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            if line.is_empty() {
                let event = (
                    std::mem::take(&mut self.kind),
                    std::mem::take(&mut self.data),
                );
                if !event.1.is_empty() {
                    complete.push(event);
                }
            } else if let Some(kind) = line.strip_prefix("event: ") {
                kind.clone_into(&mut self.kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                self.data.push_str(data);
            }
        }
        complete
    }
}

/// `name` encoded as one part of a path: all characters but letters, digits and `-._~` become `%XX`.
#[must_use]
pub fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_any_pieces() {
        let stream = b": listening\n\nid: 7\nevent: job-ended\ndata: {\"a\":1}\n\n:\n\ndata: x\n\n";
        for size in [1, 2, 7, stream.len()] {
            let mut lines = EventLines::default();
            let events: Vec<_> = stream
                .chunks(size)
                .flat_map(|piece| lines.take(piece))
                .collect();
            let wanted = [("job-ended", "{\"a\":1}"), ("", "x")];
            let events: Vec<_> = events
                .iter()
                .map(|(k, d)| (k.as_str(), d.as_str()))
                .collect();
            assert_eq!(events, wanted, "{size}");
        }
    }

    #[test]
    fn paths_are_one_part_of_a_path() {
        assert_eq!(encode("/dev/nvme0n1"), "%2Fdev%2Fnvme0n1");
        assert_eq!(encode("a b?ä"), "a%20b%3F%C3%A4");
    }

    #[test]
    fn nobody_there_is_one_sentence_with_a_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        let missing = Client::connect(Some(&path)).unwrap_err().to_string();
        // The rest of the message depends on which other processes serve on this machine.
        let wanted = format!("no array is being served at {}; ", path.display());
        assert!(missing.starts_with(&wanted), "{missing}");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let left_behind = Client::connect(Some(&path)).unwrap_err().to_string();
        assert!(left_behind.starts_with(&wanted), "{left_behind}");
    }
}

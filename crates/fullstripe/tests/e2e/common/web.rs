//! A web server on this machine that keeps the bodies of requests, and can refuse them.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The server. Its thread ends with the process.
pub struct WebServer {
    /// Its address, without a path.
    pub url: String,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    refuses: AtomicBool,
    accepted: Mutex<Vec<Value>>,
    refused: Mutex<Vec<Value>>,
}

impl WebServer {
    /// Starts one on a port of its own.
    pub fn start() -> WebServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this machine");
        let address = listener.local_addr().expect("it has an address");
        let kept = Arc::new(Kept::default());
        let server = WebServer {
            url: format!("http://{address}"),
            kept: kept.clone(),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that was killed in the middle of a request is no failure of the test.
                let _ = kept.answer(stream);
            }
        });
        server
    }

    /// Answers every request with the status 500, or no longer does so.
    pub fn refuse(&self, refuses: bool) {
        self.kept.refuses.store(refuses, Ordering::SeqCst);
    }

    /// The bodies of the requests that were answered with 200.
    pub fn accepted(&self) -> Vec<Value> {
        self.kept.accepted.lock().expect("no holder panics").clone()
    }

    /// The bodies of the requests that were answered with 500.
    pub fn refused(&self) -> Vec<Value> {
        self.kept.refused.lock().expect("no holder panics").clone()
    }
}

impl Kept {
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let refuses = self.refuses.load(Ordering::SeqCst);
        let (code, list) = match refuses {
            true => ("500 Broken", &self.refused),
            false => ("200 OK", &self.accepted),
        };
        list.lock().expect("no holder panics").push(body);
        let answer = format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.get_mut().write_all(answer.as_bytes())
    }
}

//! The ping that shows that the array is served: a service elsewhere raises the alarm when it does not come.
//!
//! It is sent while the data threads work. A machine without power, or a process that hangs, can send no alert, but it sends
//! no ping either.

use super::Say;
use crate::pulse::Pulse;
use crate::runtime::Shared;
use alerts::web;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;

/// Which address is asked for, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ping {
    /// The address. It may contain a secret.
    pub url: String,
    /// The time between two requests.
    pub every: Duration,
}

/// The thread that asks. When this value is dropped, it asks no more.
pub(super) struct PingThread {
    _lives: Arc<()>,
}

impl Ping {
    /// Starts the thread that asks, until the array has ended or the returned value is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(&self, shared: Arc<Shared>, say: Say) -> Result<PingThread> {
        let (ping, mut pulse) = (self.clone(), Pulse::of(shared.clone()));
        let lives = Arc::new(());
        let wanted = Arc::downgrade(&lives);
        let ask = move || match shared.has_quit() || wanted.strong_count() == 0 {
            true => None,
            false => Some(pulse.is_felt()),
        };
        std::thread::Builder::new()
            .name("ping".to_owned())
            .spawn(move || ping.run(ask, &say))
            .context("cannot start the thread of the ping")?;
        Ok(PingThread { _lives: lives })
    }

    /// Asks each time that `is_felt` says yes, until it says `None`. Only changes between success and failure are told.
    fn run(&self, mut is_felt: impl FnMut() -> Option<bool>, say: &Say) {
        let within = self.every.min(web::ANSWER_WITHIN);
        let mut has_failed = false;
        loop {
            std::thread::sleep(self.every);
            match is_felt() {
                None => return,
                Some(false) => say(&"no ping is sent while the data threads do not work"),
                Some(true) => {
                    let result = web::get(&self.url, within);
                    match &result {
                        Err(error) if !has_failed => {
                            say(&format_args!("the ping does not arrive: {error:#}"));
                        }
                        Ok(()) if has_failed => say(&"the ping arrives again"),
                        _ => {}
                    }
                    has_failed = result.is_err();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;

    #[test]
    fn it_asks_only_while_the_array_works_and_tells_changes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/alive", listener.local_addr().unwrap());
        let codes = [200, 500, 500, 200];
        let server = std::thread::spawn(move || {
            for code in codes {
                let (mut stream, _) = listener.accept().unwrap();
                let length = stream.read(&mut [0; 1000]).unwrap();
                assert!(length > 0);
                let answer =
                    format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let say: Say = Arc::new(move |text| heard.lock().unwrap().push(text.to_string()));
        let ping = Ping {
            url,
            every: Duration::from_millis(300),
        };
        let mut answers = [
            Some(true),
            Some(true),
            Some(false),
            Some(true),
            Some(true),
            None,
        ]
        .into_iter();
        ping.run(|| answers.next().flatten(), &say);
        server.join().unwrap();
        let said = said.lock().unwrap();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("HTTP status 500"), "{said:?}");
        assert!(said[1].contains("data threads"), "{said:?}");
        assert_eq!(said[2], "the ping arrives again");
    }
}

//! Events as they happen, in the format of server-sent events.
//!
//! A task per listener reads the log and hands text to the connection through a short queue. A
//! listener that reads slowly delays only its own task; when it falls behind by more than the log
//! keeps, it is sent the number of events it missed.

use super::event_log::EventLog;
use super::schema::{Events, NumberedEvent};
use super::state::App;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Pieces of text between a listener's task and its connection.
const PIECES_MAX: usize = 4;
/// Events in one piece of text.
const EVENTS_PER_PIECE_MAX: usize = 100;
/// A comment is sent to a silent connection this often, so that both sides notice when it is dead.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// A response that continues until the client disconnects or the server stops.
pub fn response(app: &App, since: Option<u64>) -> Response {
    let (pieces, body) = mpsc::channel(PIECES_MAX);
    let since = since.unwrap_or_else(|| *app.events.watch().borrow());
    tokio::spawn(feed(
        app.events.clone(),
        since,
        app.stopping.clone(),
        pieces,
    ));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::new(Pieces(body))).into_response()
}

async fn feed(
    log: EventLog,
    mut since: u64,
    mut stopping: watch::Receiver<bool>,
    pieces: mpsc::Sender<Bytes>,
) {
    let mut newest = log.watch();
    // A comment: the headers are sent at once, and the client knows that the stream has begun.
    let mut piece = Some(Bytes::from_static(b": listening\n\n"));
    loop {
        if let Some(piece) = piece.take()
            && pieces.send(piece).await.is_err()
        {
            return;
        }
        newest.borrow_and_update();
        let events = log.since(since, EVENTS_PER_PIECE_MAX);
        if let Some(last) = events.events.last() {
            since = last.number;
            piece = Some(text(&events).into());
            continue;
        }
        if *stopping.borrow() {
            return;
        }
        tokio::select! {
            _ = newest.changed() => {}
            // The log is read once more: the last event is the end of the array.
            _ = stopping.changed() => {}
            () = pieces.closed() => return,
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => piece = Some(Bytes::from_static(b":\n\n")),
        }
    }
}

fn text(events: &Events) -> String {
    let mut text = String::new();
    if events.forgotten > 0 {
        text += &format!("event: forgotten\ndata: {}\n\n", events.forgotten);
    }
    for event in &events.events {
        text += &one(event);
    }
    text
}

fn one(event: &NumberedEvent) -> String {
    // JSON on one line contains no line breaks, so one data line is enough.
    let json = serde_json::to_string(event).unwrap_or_default();
    format!(
        "id: {}\nevent: {}\ndata: {json}\n\n",
        event.number, event.event.kind
    )
}

/// The body of the response.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

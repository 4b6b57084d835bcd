//! Who may do what at the socket of the API.
//!
//! The kernel says which user is at the other end of a connection: the effective user when it was made (`SO_PEERCRED`),
//! which a client cannot choose. Root and the user that this process runs as may give orders. Everybody else whom the
//! mode of the socket lets in may only look. The mode lets nobody else in, except where this process is root's and the
//! machine has the group [`READERS`]: then the socket is opened to the members of this group, for monitoring without
//! root's rights.
//!
//! Looking costs the array nothing. A request that reads from drives and holds writes back meanwhile, as the
//! explanation of a stripe does, is an order in this sense.

use super::errors::ApiError;
use axum::extract::{ConnectInfo, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use container::serving::user_in_words;
use std::path::Path;
use tokio::net::UnixStream;

/// The system group whose members may look at root's arrays. The Debian package makes it; nothing requires it.
pub const READERS: &str = "fullstripe";
/// Where the groups of this machine are listed. Groups of a directory service are not: a system group is local.
pub(super) const GROUPS: &str = "/etc/group";
const ROOT: u32 = 0;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// The user; `None` if the kernel did not say, who may then only look.
    user: Option<u32>,
    /// The user of this process.
    server: u32,
}

impl Peer {
    pub fn of(stream: &UnixStream) -> Peer {
        Peer {
            user: stream.peer_cred().ok().map(|peer| peer.uid()),
            server: rustix::process::geteuid().as_raw(),
        }
    }

    /// Whether this user may give orders.
    pub fn may_order(self) -> bool {
        self.user == Some(ROOT) || self.user == Some(self.server)
    }

    fn refusal(self, method: &Method, path: &str) -> Option<ApiError> {
        if self.may_order() || is_look(method, path) {
            return None;
        }
        let user = match self.user {
            Some(user) => user_in_words(user),
            None => "an unknown user".to_owned(),
        };
        let sentence = format!(
            "{user} may look at this array but not give it orders; ask as {}",
            user_in_words(self.server)
        );
        Some(ApiError::new(StatusCode::FORBIDDEN, sentence))
    }
}

/// Whether a request only asks for what the process has at hand.
fn is_look(method: &Method, path: &str) -> bool {
    // "/v1/volumes/NAME/stripes/LBA"
    let reads_drives = path.split('/').nth(4) == Some("stripes");
    method.is_safe() && !reads_drives
}

/// Refuses orders of those who may only look.
pub(super) async fn judge(
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    match peer.refusal(request.method(), request.uri().path()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// The number of the group [`READERS`] in the list `groups`, if this machine has it. A list that cannot be read has no
/// groups, as in an initramfs.
pub(super) fn readers(groups: &Path) -> Option<u32> {
    number_of(&std::fs::read_to_string(groups).ok()?, READERS)
}

/// The number of a group in a text of lines `NAME:PASSWORD:NUMBER:MEMBERS`.
fn number_of(groups: &str, name: &str) -> Option<u32> {
    let mut found = groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(user: Option<u32>, server: u32, method: Method, path: &str) -> Option<String> {
        let refusal = Peer { user, server }.refusal(&method, path)?;
        assert_eq!(refusal.code, StatusCode::FORBIDDEN);
        Some(refusal.sentence)
    }

    #[test]
    fn root_and_the_servers_user_order_and_all_others_look() {
        let orders = [
            (Method::POST, "/v1/stop"),
            (Method::POST, "/v1/hand-over"),
            (Method::DELETE, "/v1/hand-over"),
            (Method::PUT, "/v1/rate"),
            (Method::DELETE, "/v1/volumes/v/job"),
            (Method::POST, "/v1/volumes/v/scrub"),
            (Method::PATCH, "/v1/status"),
            (Method::GET, "/v1/volumes/v/stripes/0"),
        ];
        for (method, path) in orders {
            for (user, server) in [(Some(0), 0), (Some(0), 7), (Some(7), 7)] {
                assert_eq!(said(user, server, method.clone(), path), None, "{path}");
            }
            let refused = |user, server| said(user, server, method.clone(), path).unwrap();
            assert_eq!(
                refused(Some(7), 0),
                "user 7 may look at this array but not give it orders; ask as root"
            );
            assert!(refused(Some(8), 7).ends_with("ask as user 7"));
            assert!(refused(None, 0).starts_with("an unknown user may look"));
        }
        for path in [
            "/v1/status",
            "/v1/events/stream",
            "/metrics",
            "/v1/volumes/stripes/scrub",
        ] {
            assert_eq!(said(Some(7), 0, Method::GET, path), None);
            assert_eq!(said(None, 0, Method::HEAD, path), None);
        }
    }

    #[test]
    fn the_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nfullstriper:x:5:\nbroken\nfullstripe:x:998:anna,ben\n";
        assert_eq!(number_of(groups, READERS), Some(998));
        assert_eq!(number_of("fullstripe:x:many:\n", READERS), None);
        assert_eq!(number_of("x:fullstripe:7:\n", READERS), None);
        assert_eq!(readers(Path::new("/nonexistent/group")), None);
    }
}

//! Commands in sentences, as a reader has to type them.
//!
//! Sentences of events, alerts and the status name commands for this server: `` `fullstripe add-spare DRIVE` ``. Where they are
//! written, nobody knows how the server is reached. If it is not at the user's default place, the command as it stands would be
//! sent to another server of this machine, and a drive would join the wrong array. So `--socket PATH` is added to every such
//! command, in one place, when a sentence leaves the server.

use crate::api::socket_path::SocketPath;
use std::path::Path;
use words::quoted_for_shell;

/// The commands that are sent to a server.
pub const TO_SERVER: [&str; 15] = [
    "add-spare",
    "attach",
    "cancel",
    "detach",
    "events",
    "fail",
    "pause",
    "rate",
    "rebuild",
    "remove",
    "replace",
    "resume",
    "scrub",
    "status",
    "stop",
];

/// How commands reach a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// The socket, quoted for a shell; `None` if commands find it by default.
    socket: Option<String>,
}

impl Commands {
    /// For the server at `socket`. It is found by default if it is where clients of the same user, with the same environment,
    /// look for it.
    #[must_use]
    pub fn for_server_at(socket: &SocketPath) -> Commands {
        let is_default = socket.path == SocketPath::choose(None).path;
        Commands {
            socket: (!is_default).then(|| typed(&socket.path)),
        }
    }

    /// `text` with the socket in each command for a server. Commands stand between backticks.
    #[must_use]
    pub fn in_text(&self, text: &str) -> String {
        let Some(socket) = &self.socket else {
            return text.to_owned();
        };
        let parts: Vec<&str> = text.split('`').collect();
        let with_socket = |(at, part): (usize, &&str)| {
            let is_between = at % 2 == 1 && at + 1 < parts.len();
            match is_between && is_to_server(part) {
                true => format!("{part} --socket {socket}"),
                false => (*part).to_owned(),
            }
        };
        let parts: Vec<String> = parts.iter().enumerate().map(with_socket).collect();
        parts.join("`")
    }
}

/// The whole path, so that the command can be typed in any folder.
fn typed(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    quoted_for_shell(&whole.to_string_lossy())
}

fn is_to_server(command: &str) -> bool {
    let mut words = command.split(' ');
    let is_ours = words.next() == Some("fullstripe");
    is_ours
        && words.next().is_some_and(|name| TO_SERVER.contains(&name))
        && !words.any(|word| word == "--socket")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Commands {
        Commands::for_server_at(&SocketPath {
            path: path.into(),
            is_default: false,
        })
    }

    #[test]
    fn each_command_for_the_server_names_a_socket_of_its_own() {
        for (text, wanted) in [
            (
                "no spare is there: `fullstripe add-spare DRIVE` adds one",
                "no spare is there: `fullstripe add-spare DRIVE --socket /run/b` adds one",
            ),
            (
                "`fullstripe remove d1`, and `fullstripe add-spare DRIVE` adds another",
                "`fullstripe remove d1 --socket /run/b`, and `fullstripe add-spare DRIVE --socket /run/b` adds another",
            ),
            // Not for a server, named already, no command, and no end.
            ("`fullstripe list` shows it", "`fullstripe list` shows it"),
            (
                "`fullstripe stop --socket /a`",
                "`fullstripe stop --socket /a`",
            ),
            ("fullstripe stop `status` x", "fullstripe stop `status` x"),
            ("a `fullstripe stop", "a `fullstripe stop"),
        ] {
            assert_eq!(at("/run/b").in_text(text), wanted);
            // What has been addressed is not addressed again.
            assert_eq!(at("/run/b").in_text(wanted), wanted);
        }
        assert_eq!(
            at("/a b").in_text("`fullstripe stop`"),
            "`fullstripe stop --socket '/a b'`"
        );
    }

    #[test]
    fn the_default_socket_is_not_named() {
        let commands = Commands::for_server_at(&SocketPath::choose(None));
        assert_eq!(commands.in_text("`fullstripe stop`"), "`fullstripe stop`");
    }
}

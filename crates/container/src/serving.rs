//! Finds processes that serve an array, of any user: a socket is accessible to its owner only, and when another user
//! queries the status, the error should say more than that nobody answers.
//!
//! `/proc` shows the name, the user and the command line of every process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process that serves.
#[derive(Debug, PartialEq, Eq)]
pub struct Serving {
    /// Its number.
    pub pid: u32,
    user: u32,
    /// The arguments after `serve` on its command line.
    words: Vec<String>,
    /// The folder to which relative paths on its command line refer.
    folder: PathBuf,
}

impl Serving {
    /// The arguments after `serve` on its command line.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The folder to which relative paths on its command line refer.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of its socket, if its command line names one.
    pub fn socket(&self) -> Option<PathBuf> {
        socket_of(&self.words).map(|path| self.folder.join(path))
    }

    /// Whether its command line names the file or device at `path`.
    pub fn names(&self, path: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().ok();
        let wanted = whole(path);
        let named = self.words.iter().filter_map(|word| {
            let path = word.split(',').next()?;
            whole(&self.folder.join(path))
        });
        wanted.is_some_and(|wanted| named.into_iter().any(|path| path == wanted))
    }
}

/// Every process of this machine that serves, by number.
pub fn serving(proc: &Path) -> Vec<Serving> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut found: Vec<Serving> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // A process that has just ended is left out.
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let words = words_of_serve(&line)?;
            let user = entry.metadata().ok()?.uid();
            let folder = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            Some(Serving {
                pid,
                user,
                words,
                folder,
            })
        })
        .collect();
    found.sort_by_key(|one| one.pid);
    found
}

/// The arguments after `serve`, if `line`, zero-terminated words of a command line, is one of this program.
fn words_of_serve(line: &[u8]) -> Option<Vec<String>> {
    let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let program = words.next()?;
    let is_ours = Path::new(&*program).file_name()? == "fullstripe" && words.next()? == "serve";
    is_ours.then(|| {
        let words = words.filter(|word| !word.is_empty());
        words.map(|word| word.into_owned()).collect()
    })
}

/// Says who serves instead and how to reach it, or how to start serving.
pub fn elsewhere(found: &[Serving]) -> String {
    let Some(first) = found.first() else {
        return "start one with `fullstripe serve`, or name its socket with --socket".to_owned();
    };
    let user = user_in_words(first.user);
    let more = match found.len() {
        1 => String::new(),
        count => format!(", and {} more serve", count - 1),
    };
    let way = match socket_of(&first.words) {
        Some(socket) => format!("give --socket {socket}"),
        None if first.user == rustix::process::getuid().as_raw() => {
            "name its socket with --socket".to_owned()
        }
        None => format!("ask as {user}, or name its socket with --socket"),
    };
    format!(
        "process {} of {user} is `fullstripe serve {}`{more}: {way}",
        first.pid,
        first.words.join(" ")
    )
}

/// A user by number, as a word in a sentence.
pub fn user_in_words(user: u32) -> String {
    match user {
        0 => "root".to_owned(),
        user => format!("user {user}"),
    }
}

/// Says who owns a socket that may not be opened, and what to do.
pub fn owner_in_words(socket: &Path) -> String {
    match fs::metadata(socket) {
        Ok(file) => {
            let owner = user_in_words(file.uid());
            let group = match file.mode() & 0o060 {
                0 => "",
                _ => ", or, to look only, as a member of its group",
            };
            format!("the socket belongs to {owner}: ask as {owner}{group}")
        }
        Err(_) => "its folder belongs to another user: ask as the one who serves".to_owned(),
    }
}

fn socket_of(words: &[String]) -> Option<&str> {
    let joined = words.iter().find_map(|word| word.strip_prefix("--socket="));
    let apart = || {
        let at = words.iter().position(|word| word == "--socket")?;
        words.get(at + 1).map(String::as_str)
    };
    joined.or_else(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: &str, words: &[&str]) {
        fs::create_dir(proc.join(pid)).unwrap();
        let line: String = words.iter().map(|word| format!("{word}\0")).collect();
        fs::write(proc.join(pid).join("cmdline"), line).unwrap();
    }

    #[test]
    fn whoever_serves_is_found_and_how_to_get_there_is_said() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert!(elsewhere(&serving(proc)).starts_with("start one with `fullstripe serve`"));
        process(
            proc,
            "7",
            &["/usr/bin/fullstripe", "serve", "a.img", "b.img"],
        );
        process(proc, "8", &["fullstripe", "status"]);
        process(proc, "9", &["vi", "serve"]);
        process(proc, "self", &["fullstripe", "serve"]);
        fs::create_dir(proc.join("10")).unwrap();
        let name = user_in_words(proc.metadata().unwrap().uid());
        let wanted = format!(
            "process 7 of {name} is `fullstripe serve a.img b.img`: name its socket with --socket"
        );
        assert_eq!(elsewhere(&serving(proc)), wanted);
        process(
            proc,
            "5",
            &["fullstripe", "serve", "--socket", "/s", "c.img"],
        );
        let text = elsewhere(&serving(proc));
        assert!(text.starts_with("process 5 of "), "{text}");
        assert!(
            text.ends_with("c.img`, and 1 more serve: give --socket /s"),
            "{text}"
        );
        assert_eq!(socket_of(&["a".into(), "--socket=/t".into()]), Some("/t"));
        let sockets: Vec<Option<PathBuf>> = serving(proc).iter().map(Serving::socket).collect();
        assert_eq!(sockets, [Some(PathBuf::from("/s")), None]);
    }
}

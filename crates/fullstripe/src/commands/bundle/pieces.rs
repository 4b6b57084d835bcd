//! The pieces of a bundle. Commands of this program are run as other processes, so each file is exactly what such a
//! command prints, and one that hangs can be killed.

use crate::commands::config;
use crate::commands::limited::{call, run};
use container::machine::{Machine, SYSFS_BLOCK, block_devices};
use container::serving::Serving;
use container::state_folder;
use serde_json::Value;
use server::api::socket_path::usual_sockets;
use settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// How long a piece may take. Everything that works answers within a few seconds.
const WITHIN: Duration = Duration::from_secs(20);
/// How many pieces are collected at once.
const AT_ONCE: usize = 8;
/// How many lines of the journal are taken.
const JOURNAL_LINES: &str = "2000";
/// The longest file that is read; the file of an array's events has at most 1 MiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where to look.
pub struct Places {
    pub settings_file: PathBuf,
    /// `None` if the file has a mistake.
    pub settings: Option<Settings>,
    /// The drives that `doctor` is to look at.
    pub drives: Vec<String>,
    pub servers: Vec<Server>,
}

/// A process that serves, or did and left its socket.
pub struct Server {
    socket: PathBuf,
    /// The folder to which the names of its drives refer.
    folder: PathBuf,
}

/// A piece that has been collected, or the reason why it could not be.
pub struct Collected {
    pub name: String,
    pub about: String,
    pub content: Result<Vec<u8>, String>,
}

/// A piece that is to be collected. A file that turns out not to belong into the bundle gives `None`.
struct Piece {
    name: String,
    about: String,
    work: Box<dyn FnOnce() -> Result<Option<Vec<u8>>, String> + Send>,
}

impl Piece {
    fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        work: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Piece {
        Piece {
            name: name.into(),
            about: about.into(),
            work: Box::new(move || work().map(Some)),
        }
    }
}

/// The servers that can be found: at the usual places, and by the command lines of these processes.
pub fn servers(processes: &[Serving]) -> Vec<Server> {
    let usual = usual_sockets().into_iter();
    let usual = usual.map(|socket| (socket, PathBuf::from("/")));
    let named = processes.iter();
    let named = named.filter_map(|one| Some((one.socket()?, one.folder().to_owned())));
    let folders: BTreeMap<PathBuf, PathBuf> = usual.chain(named).collect();
    let servers = folders.into_iter();
    servers
        .map(|(socket, folder)| Server { socket, folder })
        .collect()
}

/// Collects everything. Drives that only a server names are looked at last.
pub fn collect(places: &Places) -> Vec<Collected> {
    let mut pieces = of_program(places);
    pieces.extend(of_system());
    pieces.extend(of_files());
    pieces.extend(
        places
            .servers
            .iter()
            .enumerate()
            .map(|(at, server)| status(at, server)),
    );
    let mut collected = collect_all(pieces);
    let mut drives = drives(places, &collected);
    match block_devices(Path::new(SYSFS_BLOCK)) {
        Ok(devices) => drives.extend(devices),
        Err(error) => collected.push(Collected {
            name: "examine".to_owned(),
            about: "records on the machine's block devices".to_owned(),
            content: Err(format!("{error:#}")),
        }),
    }
    let pieces = drives.iter().enumerate();
    let pieces = pieces.map(|(at, drive)| examine(at, drive)).collect();
    collected.extend(collect_all(pieces));
    collected
}

fn collect_all(pieces: Vec<Piece>) -> Vec<Collected> {
    let count = pieces.len();
    let todo = Mutex::new(pieces.into_iter().enumerate());
    let done: Mutex<BTreeMap<usize, Collected>> = Mutex::default();
    let work = || {
        while let Some((at, piece)) = { todo.lock().expect("no thread panics").next() } {
            // The programs have the same limit, and give the better reason.
            let content = call(piece.work, WITHIN + Duration::from_secs(2)).transpose();
            if let Some(content) = content {
                let collected = Collected {
                    name: piece.name,
                    about: piece.about,
                    content,
                };
                done.lock().expect("no thread panics").insert(at, collected);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(count) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().expect("no thread panics");
    done.into_values().collect()
}

/// What commands of this program print. `doctor` ends with 1 where something prevents serving.
fn of_program(places: &Places) -> Vec<Piece> {
    let words = ["doctor".to_owned(), "--json".to_owned()];
    let words: Vec<String> = words
        .into_iter()
        .chain(places.drives.iter().cloned())
        .collect();
    let about = format!("settings, from {}", places.settings_file.display());
    let settings = places.settings.clone();
    let file = places.settings_file.clone();
    vec![
        Piece::new("doctor.json", "what `fullstripe doctor` finds", move || {
            this_program(&words)
        }),
        Piece::new("version.txt", "version of the program", || {
            this_program(&["--version".to_owned()])
        }),
        Piece::new("settings.json", about, move || {
            // The sentence about a mistake quotes the file, which may contain secrets.
            let settings =
                settings.ok_or("the file cannot be used; `fullstripe config check` says why")?;
            serde_json::to_vec_pretty(&config::data(&settings, &file))
                .map_err(|error| error.to_string())
        }),
    ]
}

/// What programs of the system say.
fn of_system() -> Vec<Piece> {
    let program = |file: &str, about: &str, line: &'static str| {
        Piece::new(file, about, move || system_program(line))
    };
    vec![
        program("system/uname.txt", "the kernel", "uname -a"),
        program(
            "system/lsblk.json",
            "block devices",
            "lsblk --output-all --bytes --json",
        ),
        program(
            "system/units.txt",
            "units of systemd",
            "systemctl --no-pager --all list-units fullstripe* systemd-udevd.service mdmonitor.service mdadm*",
        ),
        program(
            "system/units_in_detail.txt",
            "how the units of arrays have ended",
            "systemctl --no-pager show fullstripe@* --property=Id,ActiveState,SubState,Result,NRestarts,ExecMainStatus,\
             ExecMainStartTimestamp,ExecMainExitTimestamp",
        ),
        Piece::new(
            "system/journal.txt",
            "the end of fullstripe's journal",
            || {
                let line = format!(
                    "journalctl --no-pager --output=short-iso -n {JOURNAL_LINES} -u fullstripe@*"
                );
                system_program(&line)
            },
        ),
        Piece::new("system/udev_rules.txt", "fullstripe's udev rules", || {
            let folders = [
                "/etc/udev/rules.d",
                "/run/udev/rules.d",
                "/usr/lib/udev/rules.d",
                "/lib/udev/rules.d",
            ];
            Ok(listed(&folders, |name| name.contains("fullstripe")).into_bytes())
        }),
        Piece::new(
            "system/modules.txt",
            "the kernel's modules for block devices",
            || Ok(["ublk_drv", "nbd"].map(module).concat().into_bytes()),
        ),
    ]
}

/// Files of the kernel, of the system, and of fullstripe.
fn of_files() -> Vec<Piece> {
    let file =
        |name: &str, about: &str, path: PathBuf| Piece::new(name, about, move || content(&path));
    let mut pieces = vec![
        file(
            "system/cmdline.txt",
            "command line of the kernel",
            "/proc/cmdline".into(),
        ),
        file(
            "system/mdstat.txt",
            "arrays of Linux md",
            "/proc/mdstat".into(),
        ),
        file(
            "system/os_release.txt",
            "distribution",
            "/etc/os-release".into(),
        ),
    ];
    match arrays_with_events() {
        Ok(folders) => pieces.extend(folders.iter().map(|(uuid, folder)| {
            let about = format!("events of the array {uuid}");
            let name = format!("events/{}.jsonl", plain(uuid));
            file(&name, &about, folder.join("events"))
        })),
        Err(reason) => pieces.push(Piece::new("events", "events", || Err(reason))),
    }
    pieces
}

/// The arrays that have a folder of state here, by UUID.
fn arrays_with_events() -> Result<BTreeMap<String, PathBuf>, String> {
    let folder = state_folder::choose().map_err(|error| format!("{error:#}"))?;
    let arrays = folder.join("arrays");
    let entries = match fs::read_dir(&arrays) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read.map_err(|error| format!("cannot read {}: {error}", arrays.display()))?,
    };
    let folders = entries.flatten().map(|entry| entry.path());
    let with_events = folders.filter(|folder| folder.join("events").exists());
    let named = with_events.map(|folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), folder.clone())
    });
    Ok(named.collect())
}

fn status(at: usize, server: &Server) -> Piece {
    let socket = server.socket.display().to_string();
    let about = format!("status of the server at {socket}");
    let words = ["status", "--json", "--socket", &socket].map(str::to_owned);
    Piece::new(format!("status/{at}.json"), about, move || {
        this_program(&words)
    })
}

/// The drives that are named on the command line, and those that servers name.
fn drives(places: &Places, collected: &[Collected]) -> BTreeSet<String> {
    let mut drives: BTreeSet<String> = places.drives.iter().cloned().collect();
    for (at, server) in places.servers.iter().enumerate() {
        let name = format!("status/{at}.json");
        let status = collected.iter().find(|one| one.name == name);
        let bytes = status.and_then(|one| one.content.as_ref().ok());
        let status: Value = bytes
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default();
        let members = status["members"].as_array().into_iter().flatten();
        let names = members.filter_map(|member| member["name"].as_str());
        let paths = names.map(|name| server.folder.join(name));
        drives.extend(
            paths
                .filter(|path| path.exists())
                .map(|path| path.display().to_string()),
        );
    }
    drives
}

/// What `examine` says about a drive, if it is or was a member of an array.
fn examine(at: usize, drive: &str) -> Piece {
    let words = ["examine".to_owned(), "--json".to_owned(), drive.to_owned()];
    let path = drive.split(',').next().unwrap_or(drive);
    Piece {
        name: format!(
            "examine/{at}_{}.json",
            plain(path.trim_start_matches("/dev/"))
        ),
        about: format!("records on {path}"),
        work: Box::new(move || {
            let bytes = this_program(&words)?;
            let found: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            if let Some(reason) = found["unreadable"][0].as_str() {
                return Err(reason.to_owned());
            }
            let drive = &found["drives"][0];
            let has_record = ["record", "damaged", "shadow"]
                .iter()
                .any(|key| !drive[*key].is_null());
            Ok(has_record.then_some(bytes))
        }),
    }
}

/// What this program prints when it is run with these words. It fails only if it prints nothing.
fn this_program(words: &[String]) -> Result<Vec<u8>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(words);
    printed(command)
}

fn system_program(line: &str) -> Result<Vec<u8>, String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let path = Machine::real().program(name);
    let mut command = Command::new(path.ok_or_else(|| format!("{name} is not installed"))?);
    command.args(words).env("LC_ALL", "C");
    printed(command)
}

fn printed(command: Command) -> Result<Vec<u8>, String> {
    let printed = run(command, WITHIN)?;
    if !printed.out.is_empty() || printed.status.success() {
        return Ok(printed.out);
    }
    let error = String::from_utf8_lossy(&printed.err);
    let last = error.lines().last().unwrap_or("it says nothing");
    Err(format!("{last} ({})", printed.status))
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(bytes)
}

/// The paths of the files in `folders` whose names are `wanted`, a line each.
fn listed(folders: &[&str], wanted: impl Fn(&str) -> bool) -> String {
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let files = entries.flatten().flatten();
    let wanted = files.filter(|file| wanted(&file.file_name().to_string_lossy()));
    let lines = wanted.map(|file| format!("{}\n", file.path().display()));
    let lines: BTreeSet<String> = lines.collect();
    lines.into_iter().collect()
}

/// Whether a module is loaded, and which one.
fn module(name: &str) -> String {
    let folder = Path::new("/sys/module").join(name);
    if !folder.exists() {
        return format!("{name}: not loaded\n");
    }
    let value = |key: &str| {
        let text = fs::read_to_string(folder.join(key)).ok()?;
        Some(format!(", {key} {}", text.trim()))
    };
    let values: String = ["version", "srcversion", "refcnt"]
        .iter()
        .filter_map(|key| value(key))
        .collect();
    format!("{name}: loaded{values}\n")
}

/// As a file name: letters, digits, `.` and `-`, at most 40 of them; of a longer text, its end.
fn plain(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    let text: String = text
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    text[text.len().saturating_sub(40)..].to_owned()
}

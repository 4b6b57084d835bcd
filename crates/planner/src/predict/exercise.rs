//! What the fuzzer does with arbitrary bytes in place of a user's file; ordinary tests can call it too. Whatever the
//! bytes are, nothing may panic or run without end: they are refused with a sentence, or describe something that works
//! for a while.
//!
//! The bytes are either the text itself, or changes to a valid file, which get past the parser more often. Each change
//! takes four bytes: two for the place, one for the kind of change, one for the new byte.

use super::built_in::{HOSTS, PLATFORMS};
use super::library::Library;
use lab::schema::configuration::read_configurations;
use lab::schema::document::read;
use lab::schema::suite::Suite;
use models::drive::{Command, Drive, Operation, State};
use models::host::{Completion, HostFile};
use models::library::FAMILIES;
use models::platform::{Buffers, DriveLink, Machine, Platform};
use models::profile::Family;

/// Most changes to a valid file.
const CHANGES_MAX: usize = 16;
/// Commands that a drive described by such a file has to carry out.
const COMMANDS: u64 = 64;
/// A valid file of configurations.
const CONFIGURATION: &str = r#"schema = 1
[setup.s]
drive = "p4510-2tb"
count = 4
level = 5
platform = "s2600wft-6154-x8"
host = "linux-3.10-kpti"
stack = "fullstripe"
chunk_kib = 64
[points]
p = { setup = "s", state = "steady", workload = { op = "randmix", bs = "4k", read_pct = 70, threads = 8, qd = 64, demand_iops = 1000, arrivals = "poisson", skip_seconds = 1, seconds = 2 } }
"#;
/// A valid suite.
const SUITE: &str = include_str!("../../../lab/suites/anandtech-2018.toml");

/// The kind of file that the bytes represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// A family of drives.
    Drive,
    /// A machine.
    Platform,
    /// An operating system.
    Host,
    /// Setups and points.
    Configuration,
    /// A suite.
    Suite,
}

/// The text that the bytes represent.
fn text(right: &str, data: &[u8]) -> Option<String> {
    let (kind, data) = data.split_first()?;
    if kind.is_multiple_of(2) {
        return String::from_utf8(data.to_vec()).ok();
    }
    let mut bytes = right.as_bytes().to_vec();
    for change in data.chunks_exact(4).take(CHANGES_MAX) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        match change[2] % 4 {
            0 => bytes[at] = change[3],
            1 => bytes[at] = b"0123456789.-e\"=[]"[usize::from(change[3]) % 17],
            2 => bytes.insert(at, b"0123456789.-e\"=[]"[usize::from(change[3]) % 17]),
            _ => drop(bytes.remove(at)),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Reads bytes as such a file and uses the result. Returns whether the file was accepted and something came of it.
///
/// # Panics
///
/// If it finds a bug: an error that is not a sentence, or time that runs backwards.
pub fn fuzz_one(file: File, data: &[u8]) -> bool {
    let right = match file {
        File::Drive => FAMILIES[0].1,
        File::Platform => PLATFORMS[usize::from(data.len().is_multiple_of(2))].1,
        File::Host => HOSTS[1].1,
        File::Configuration => CONFIGURATION,
        File::Suite => SUITE,
    };
    let Some(text) = text(right, data) else {
        return false;
    };
    match file {
        File::Drive => a_drive(&text),
        File::Platform => a_platform(&text),
        File::Host => a_host(&text),
        File::Configuration => {
            let catalogue = Library::default().catalogue();
            is_right(read_configurations("f.toml", &text, &catalogue)).is_some()
        }
        File::Suite => {
            let suite = is_right(Suite::read("f.toml", &text));
            suite.is_some_and(|suite| !suite.steps(1).is_empty())
        }
    }
}

/// The parsed value, or `None` for an error, which must be one sentence on one line.
fn is_right<T, E: std::fmt::Display>(read: Result<T, E>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(refusal) => {
            let sentence = refusal.to_string();
            assert!(
                !sentence.ends_with('.') && !sentence.contains('\n'),
                "{sentence:?}"
            );
            None
        }
    }
}

fn a_drive(text: &str) -> bool {
    let Some(family) = is_right(read::<Family>("f.toml", text)) else {
        return false;
    };
    let mut works = false;
    for member in family.members.iter().take(4) {
        let Some(profile) = is_right(family.member(&member.id)) else {
            continue;
        };
        let states = [State::Fresh, State::Filled, State::Steady, State::Worn];
        for (state, seed) in states.into_iter().zip(1..) {
            let mut drive = Drive::new(&profile, state, profile.port, seed, 0);
            for number in 0..COMMANDS {
                let command = Command {
                    operation: [Operation::Read, Operation::Write][(number % 2) as usize],
                    offset_bytes: number << 17,
                    length_bytes: 4096 << (number % 6),
                };
                let now_ns = number * 10_000;
                let done_ns = drive.submit(command, now_ns).done_ns;
                assert!(done_ns >= now_ns, "{done_ns} is before {now_ns}");
            }
        }
        works = true;
    }
    works
}

fn a_platform(text: &str) -> bool {
    let machine = is_right(read::<Machine>("f.toml", text));
    let Some(graph) = machine.and_then(|machine| is_right(machine.graph())) else {
        return false;
    };
    let link = DriveLink {
        lanes: 4,
        generation: 3,
    };
    let links = vec![link; graph.bays.len().min(8)];
    let Some(mut platform) = is_right(Platform::new(&graph, &links, Buffers::Local)) else {
        return false;
    };
    for drive in 0..links.len() {
        let socket = platform.next_socket(drive);
        let there_ns = platform.to_host_ns(drive, socket, 5, 7, 1 << 20, 1);
        assert!(there_ns >= 7, "{there_ns}");
        platform.to_drive_ns(drive, socket, 5, 7, 1 << 20);
    }
    true
}

fn a_host(text: &str) -> bool {
    let file = is_right(read::<HostFile>("f.toml", text));
    let Some(host) = file.and_then(|file| is_right(file.host())) else {
        return false;
    };
    let library = Library::default();
    let graph = library.platform(&"s2600wft-8170".to_owned().into());
    let cores = graph.expect("a test reads it").cores;
    for completion in [
        Completion::Interrupt,
        Completion::Polled,
        Completion::Hybrid,
    ] {
        let costs = host.costs(&cores, 100, completion);
        assert!(costs.direct_request_ns(1) >= costs.client_request_ns);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use repeatable::random::Stream;

    #[test]
    fn any_bytes_are_refused_or_work() {
        for file in [
            File::Drive,
            File::Platform,
            File::Host,
            File::Configuration,
            File::Suite,
        ] {
            let mut stream = Stream::new(1, "files", file as u64);
            let mut work = 0;
            for _ in 0..300 {
                let mut data = vec![1];
                for _ in 0..4 * stream.between(1, 3) {
                    data.push(stream.draw() as u8);
                }
                work += u32::from(fuzz_one(file, &data));
                data[0] = 0;
                assert!(!fuzz_one(file, &data), "text of a few bytes");
            }
            // Some changes hit text that is not read, or give other valid numbers, so these files still work.
            assert!((3..290).contains(&work), "{file:?}: {work}");
        }
    }
}

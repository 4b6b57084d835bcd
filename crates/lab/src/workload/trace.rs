//! Traces: requests that were recorded elsewhere, with the times at which they began.
//!
//! Two forms are read. fio writes its own with `write_iolog` (`fio version 3 iolog`: microseconds since the start, file, action, offset,
//! bytes). The block traces of Microsoft Research Cambridge, and many others since, are lines of seven values: time in units of 100 ns,
//! host, disk, `Read` or `Write`, offset, bytes, and how long it took then, which is ignored. What neither reads nor writes (trims,
//! flushes, openings) is left out and counted.

use super::Kind;
use crate::schema::document::Refusal;
use repeatable::random::mix;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first line of fio's form.
const FIO_HEAD: &str = "fio version 3 iolog";
/// Most disks that a refusal names.
const NAMED_MAX: usize = 5;
/// Longest request: what a thread can hold.
const LENGTH_MAX_BYTES: u64 = 32 << 20;

/// One recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recorded {
    /// When it began, since the first one.
    pub at_ns: u64,
    /// First byte on its disk.
    pub offset_bytes: u64,
    /// Bytes, above 0.
    pub length_bytes: u32,
    /// Read or write.
    pub kind: Kind,
}

/// Recorded requests in the order of their times; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    requests: Arc<[Recorded]>,
    /// Trims and flushes.
    pub left_out: u64,
}

/// What a line says.
enum Entry {
    Request {
        disk: String,
        request: Recorded,
    },
    /// A trim or a flush.
    Other,
    /// A file that is opened or closed.
    Nothing,
}

impl Trace {
    /// Reads a trace. `file` is its name.
    ///
    /// # Errors
    ///
    /// It has neither form, a line is malformed, it is of several disks, or it has no request.
    pub fn parse(file: &str, text: &str) -> Result<Trace, Refusal> {
        let first = text.lines().next().unwrap_or_default();
        if first.starts_with("fio version 2 iolog") {
            let rule =
                "is of fio before 3.31, which kept no times; record it again with a newer fio";
            return Err(Refusal::new(file, "line 1", rule));
        }
        let (entry, skipped): (fn(&str) -> Option<Entry>, usize) = match first == FIO_HEAD {
            true => (of_fio, 1),
            false => (of_msr, 0),
        };
        let (mut requests, mut left_out, mut disks) = (Vec::new(), 0, BTreeSet::new());
        for (number, line) in (1..).zip(text.lines()).skip(skipped) {
            match entry(line) {
                Some(Entry::Request { disk, request }) => {
                    disks.insert(disk);
                    requests.push(request);
                }
                Some(Entry::Other) => left_out += 1,
                Some(Entry::Nothing) => {}
                None => {
                    let rule = format!(
                        "is no entry of a trace: it should be \"{FIO_HEAD}\" with lines of time, file, action, offset and bytes, or lines of \
                         time, host, disk, Read or Write, offset, bytes and duration; requests have at most {} MiB",
                        LENGTH_MAX_BYTES >> 20
                    );
                    return Err(Refusal::new(file, format!("line {number}"), rule));
                }
            }
        }
        if disks.len() > 1 {
            let count = disks.len();
            let names: Vec<String> = disks.into_iter().take(NAMED_MAX).collect();
            let more = if count > NAMED_MAX { ", ..." } else { "" };
            let rule = format!(
                "is of {count} disks ({}{more}), and a target is one; divide it",
                names.join(", ")
            );
            return Err(Refusal::new(file, "", rule));
        }
        // Some recorders write requests in the order of their ends.
        requests.sort_by_key(|request| request.at_ns);
        let Some(start_ns) = requests.first().map(|request| request.at_ns) else {
            return Err(Refusal::new(file, "", "has no reads and no writes"));
        };
        requests
            .iter_mut()
            .for_each(|request| request.at_ns -= start_ns);
        Ok(Trace {
            requests: requests.into(),
            left_out,
        })
    }

    /// The requests.
    #[must_use]
    pub fn requests(&self) -> &Arc<[Recorded]> {
        &self.requests
    }

    /// From the first request to the last.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.requests.last().map_or(0, |last| last.at_ns)
    }

    /// The bytes of all its writes that begin by `until_ns`.
    #[must_use]
    pub fn written_bytes(&self, until_ns: u64) -> u64 {
        let is_one = |one: &&Recorded| one.kind == Kind::Write && one.at_ns <= until_ns;
        let writes = self.requests.iter().filter(is_one);
        writes.map(|one| u64::from(one.length_bytes)).sum()
    }

    /// The longest request.
    #[must_use]
    pub fn longest_bytes(&self) -> u32 {
        let lengths = self.requests.iter().map(|one| one.length_bytes);
        lengths.max().expect("a trace has requests")
    }

    /// What tells it from other traces, the same on every machine.
    #[must_use]
    pub fn digest(&self) -> String {
        let fold = |digest: u64, one: &Recorded| {
            let is_write = u64::from(one.kind == Kind::Write);
            let of_shape = u64::from(one.length_bytes) * 2 + is_write;
            [one.at_ns, one.offset_bytes, of_shape]
                .iter()
                .fold(digest, |digest, value| mix(digest ^ value).wrapping_add(1))
        };
        format!("{:016x}", self.requests.iter().fold(0, fold))
    }
}

/// A request whose bytes exist, at `at_ns`.
fn request(at_ns: u64, kind: Kind, offset: &str, length: &str) -> Option<Recorded> {
    let (offset_bytes, length_bytes): (u64, u64) = (offset.parse().ok()?, length.parse().ok()?);
    offset_bytes.checked_add(length_bytes)?;
    if !(1..=LENGTH_MAX_BYTES).contains(&length_bytes) {
        return None;
    }
    Some(Recorded {
        at_ns,
        offset_bytes,
        length_bytes: length_bytes as u32,
        kind,
    })
}

/// `223 /dev/sda read 249856 4096`.
fn of_fio(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (time, file, action, rest) = match fields[..] {
        [time, file, action, ref rest @ ..] => (time, file, action, rest),
        _ => return None,
    };
    let at_ns = time.parse::<u64>().ok()?.checked_mul(1000)?;
    let kind = match (action, rest) {
        ("read", [_, _]) => Kind::Read,
        ("write", [_, _]) => Kind::Write,
        ("trim" | "sync" | "datasync", [_, _]) => return Some(Entry::Other),
        ("add" | "open" | "close", []) => return Some(Entry::Nothing),
        _ => return None,
    };
    Some(Entry::Request {
        disk: file.to_owned(),
        request: request(at_ns, kind, rest[0], rest[1])?,
    })
}

/// `128166372003061629,usr,0,Read,7014609920,24576,41286`.
fn of_msr(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    let [time, host, disk, kind, offset, length, _] = fields[..] else {
        return None;
    };
    let at_ns = time.parse::<u64>().ok()?.checked_mul(100)?;
    let kind = match kind {
        "Read" | "read" => Kind::Read,
        "Write" | "write" => Kind::Write,
        _ => return None,
    };
    Some(Entry::Request {
        disk: format!("{host} {disk}"),
        request: request(at_ns, kind, offset, length)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, String> {
        Trace::parse("t", text).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn both_forms_are_read_in_the_order_of_their_times() {
        let expected = [(0, Kind::Read, 4096, 512), (10_000, Kind::Write, 0, 8192)];
        let fio = "fio version 3 iolog\n38 /dev/a add\n223 /dev/a open\n239 /dev/a write 0 8192\n229 /dev/a read 4096 512\n250 /dev/a trim 0 4096\n\
                   300 /dev/a close\n";
        let msr = "128166372003061729,usr,0,Write,0,8192,5\n128166372003061629,usr,0,Read,4096,512,41286\n";
        for (text, left_out) in [(fio, 1), (msr, 0)] {
            let trace = parse(text).expect(text);
            let found: Vec<_> = trace
                .requests()
                .iter()
                .map(|one| (one.at_ns, one.kind, one.offset_bytes, one.length_bytes))
                .collect();
            assert_eq!(found, expected, "{text}");
            assert_eq!((trace.left_out, trace.length_ns()), (left_out, 10_000));
            assert_eq!(trace.written_bytes(9_999), 0);
            assert_eq!(
                (trace.written_bytes(10_000), trace.longest_bytes()),
                (8192, 8192)
            );
        }
        assert_eq!(
            parse(fio).expect("it is read").digest(),
            parse(msr).expect("it is read").digest()
        );
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, said) in [
            ("", "t: has no reads and no writes"),
            ("fio version 2 iolog\n", "t: line 1 is of fio before 3.31"),
            (
                "fio version 3 iolog\n1 /dev/a wait 5 5\n",
                "t: line 2 is no entry",
            ),
            (
                "fio version 3 iolog\n1 /dev/a read 5\n",
                "t: line 2 is no entry",
            ),
            (
                "1,usr,0,Read,0,512,1\n2,usr,0,Read,0,0,1\n",
                "t: line 2 is no entry",
            ),
            ("1,usr,0,Read,0,99999999,1\n", "at most 32 MiB"),
            (
                "1,usr,0,Read,18446744073709551615,512,1\n",
                "t: line 1 is no entry",
            ),
            (
                "99999999999999999999,usr,0,Read,0,512,1\n",
                "t: line 1 is no entry",
            ),
            (
                "1,usr,0,Read,0,512,1\n1,usr,1,Read,0,512,1\n",
                "is of 2 disks (usr 0, usr 1)",
            ),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(said), "{refused}");
        }
    }
}

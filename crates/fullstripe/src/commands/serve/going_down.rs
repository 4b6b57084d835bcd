//! What becomes of an array whose block devices are still in use when the machine goes down.
//!
//! At shutdown systemd unmounts file systems before it stops the array, and then nothing uses its devices. But a process that no
//! unit ends can keep a file system mounted. If the server ended now, whoever unmounts it later would wait for ever, and the machine
//! would not go down. So the server goes on until its devices are released. systemd leaves it alone meanwhile
//! (`SendSIGKILL=no` in the unit). The last thing that systemd does is to end all processes but those whose name begins with `@`,
//! as the server's does, and to unmount what is left. Then the array is stopped in order like any other.
//!
//! A server that is stopped for another reason does not wait: its devices stay, and the next server takes them over.

use crate::commands::boot::in_use::in_use;
use crate::commands::limited;
use crate::terminal::print::print_note;
use container::machine::Machine;
use server::Server;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How often the devices are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long systemd may take to say whether the machine goes down.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Returns at once unless the machine goes down and a device of the server is in use; then, when none is any more. `say` is
/// called with what is waited for.
pub(super) fn wait_until_released(server: &Server, say: impl Fn(&str)) {
    let Some(used) = in_use_of(server) else {
        return;
    };
    if !machine_goes_down() {
        return;
    }
    say(&format!(
        "the machine goes down while {used}: the array is served until that is released"
    ));
    // Files that are open for writing would keep the root file system from being made read-only.
    server.keep_no_more();
    while in_use_of(server).is_some() {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Ends the process if it still runs after this time. systemd would not end it.
///
/// # Errors
/// No thread can be started.
pub(super) fn end_within(limit: Duration) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("end".to_owned());
    thread.spawn(move || {
        std::thread::sleep(limit);
        let seconds = limit.as_secs();
        print_note(&format!(
            "fullstripe: stopping has not come to its end within {seconds} s: the process is aborted, and the next start finds the \
             volumes as after a crash"
        ));
        std::process::abort();
    })?;
    Ok(())
}

/// What uses the server's devices, as part of a sentence.
fn in_use_of(server: &Server) -> Option<String> {
    let status = server.status();
    let devices = status.volumes.iter().filter_map(|volume| {
        let device = volume.device.as_ref()?;
        Some((volume.name.as_str(), Path::new(&device.node)))
    });
    in_use(devices)
}

/// Whether systemd shuts the machine down. Not known without systemd, or if it does not answer; then nobody waits for this server.
fn machine_goes_down() -> bool {
    let Some(systemctl) = Machine::real().program("systemctl") else {
        return false;
    };
    let mut asked = Command::new(systemctl);
    asked.arg("is-system-running");
    // The exit code says only that the machine is not up.
    let answer = limited::run(asked, ANSWER_WITHIN);
    answer.is_ok_and(|printed| printed.out.trim_ascii() == b"stopping")
}

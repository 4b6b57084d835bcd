//! A server of root with no more than systemd leaves it: the capabilities of the unit, and its filter of system calls.

use crate::common::{Bed, MIB, is_root, run, tool};

const UNIT: &str = include_str!("../../../../../packaging/systemd/fullstripe@.service");

/// Runs a program under the filter that `SystemCallFilter=` describes, as systemd makes it: `python3 - GROUP... -- PROGRAM...`.
/// Which calls are in a group is systemd's to say, and their numbers are libseccomp's, which systemd uses, too.
const FILTER: &str = r#"
import ctypes, os, subprocess, sys
groups, program = sys.argv[1:sys.argv.index('--')], sys.argv[sys.argv.index('--') + 1:]
def calls(group):
    said = subprocess.run(['systemd-analyze', 'syscall-filter', group], check=True, capture_output=True, text=True).stdout
    for word in (line.strip() for line in said.splitlines()[1:]):
        if word.startswith('@'): yield from calls(word)
        elif word and not word.startswith('#'): yield word
library = ctypes.CDLL('libseccomp.so.2')
library.seccomp_init.restype = ctypes.c_void_p
ALLOW, EPERM, NO_NEW_PRIVILEGES = 0x7fff0000, 0x00050001, 3
context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
assert library.seccomp_attr_set(context, NO_NEW_PRIVILEGES, 0) == 0
refused = 0
for name in {name for group in groups for name in calls(group)}:
    number = library.seccomp_syscall_resolve_name(name.encode())
    # Calls of other architectures have negative numbers.
    if number >= 0:
        assert library.seccomp_rule_add(context, ctypes.c_uint32(EPERM), number, 0) == 0, name
        refused += 1
assert refused > 30, refused
assert library.seccomp_load(context) == 0
os.execvp(program[0], program)
"#;

/// Serves with the capabilities `$1` and behind the command `$2`, and prints what came of it, a line each: the capabilities,
/// whether memory is locked, whether threads get memory without I/O, mode and group of the socket, which user a hook could
/// become, and whether it could mount. In between the array is scrubbed and rebuilt.
const SCRIPT: &str = r#"
set -e
fullstripe() { command=$1; shift; "$program" "$command" "$@" --socket "$PWD/api" >> said 2>&1; }
program=$0
mount --bind "$PWD/groups" /etc/group
chown 65534 d1; chmod 600 d1
setpriv --bounding-set "$1" --inh-caps=-all -- $2 "$0" serve d0 d1 --memory 16m --nbd "unix:$PWD/nbd" --socket "$PWD/api" \
    --on-event 'if [ -e failing ]; then sh hook.sh > hook.new; mv hook.new hook; fi' > served 2>&1 &
until fullstripe status; do kill -0 $!; sleep 0.1; done
sed -n 's/^CapBnd:[[:blank:]]*//p' /proc/$!/status
if grep -q '^VmLck:.* 0 kB' /proc/$!/status; then echo unlocked; else echo locked; fi
marked=unmarked
for one in $(sed -s 's/.*) //' /proc/$!/task/*/stat | cut -d ' ' -f 7); do
    if [ $((one & 0x80000)) != 0 ]; then marked=marked; fi
done
echo $marked
stat --format '%a %g' api
fullstripe scrub data --wait
touch failing
fullstripe fail d1
until [ -e hook ]; do sleep 0.1; done
fullstripe add-spare d2
fullstripe rebuild data --wait
fullstripe status --check
cat hook
fullstripe stop --wait
"#;

const HOOK: &str = r#"
setpriv --reuid 65534 --regid 65534 --clear-groups -- id -u
mkdir -p place; if mount --bind place place 2> refused; then echo mounts; else echo "cannot mount"; fi
"#;

/// The words of all lines of the unit with this key.
fn words_of(key: &str) -> Vec<&'static str> {
    let lines = UNIT.lines().filter_map(|line| line.strip_prefix(key));
    lines.flat_map(str::split_whitespace).collect()
}

/// The capabilities that the unit leaves, as setpriv names them.
fn capabilities() -> Vec<String> {
    let names = words_of("CapabilityBoundingSet=").into_iter();
    names
        .map(|name| name.strip_prefix("CAP_").expect(name).to_lowercase())
        .collect()
}

fn served_with(set: &str, behind: &str) -> Vec<String> {
    let bed = Bed::new(3, 16 * MIB);
    bed.create("data", 1, bed.first(2), &[]);
    for (name, content) in [
        ("groups", "root:x:0:\nfullstripe:x:61001:\n"),
        ("hook.sh", HOOK),
        ("filter.py", FILTER),
    ] {
        std::fs::write(bed.path(name), content).expect("room for a file");
    }
    let mut command = own_mounts();
    command
        .args([
            "sh",
            "-c",
            SCRIPT,
            env!("CARGO_BIN_EXE_fullstripe"),
            set,
            behind,
        ])
        .current_dir(bed.path(""))
        .env("HOME", bed.path(""))
        .env("XDG_STATE_HOME", bed.path(""));
    let said = run(&mut command, 90);
    let served = std::fs::read_to_string(bed.path("served")).unwrap_or_default();
    assert!(said.status.success(), "{said}\n{served}");
    said.out.lines().map(str::to_owned).collect()
}

fn own_mounts() -> std::process::Command {
    let mut command = tool("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    command
}

/// Whether this machine lets a test be root with mounts of its own. If not, says so.
fn may_mount(test: &str) -> bool {
    let may = is_root(test) && run(own_mounts().arg("true"), 10).status.success();
    if !may {
        eprintln!("{test}: left out, this machine allows no mounts that only a test sees");
    }
    may
}

fn only(names: &[String]) -> String {
    let add = |set: String, name: &String| set + ",+" + name;
    names.iter().fold("-all".to_owned(), add)
}

#[test]
fn the_capabilities_of_the_unit_are_enough() {
    if !may_mount("the_capabilities_of_the_unit_are_enough") {
        return;
    }
    let of_unit = capabilities();
    assert_eq!(of_unit.len(), 12, "docs/security.md names their number");
    // In a container, root has not everything either.
    let everything = served_with("+all", "");
    assert_eq!(everything[3..], ["660 61001", "65534", "mounts"]);
    let enough = served_with(&only(&of_unit), "");
    assert_eq!(enough[1..], everything[1..]);
    let number_of = |found: &[String]| {
        let bits = u64::from_str_radix(&found[0], 16).expect("a number");
        bits.count_ones()
    };
    assert!(number_of(&enough) <= 12 && number_of(&enough) < number_of(&everything));
    // It is seen when one is missing.
    let mut less = of_unit;
    less.retain(|name| name != "chown");
    assert_eq!(served_with(&only(&less), "")[3], "600 0");
}

#[test]
fn the_system_calls_that_the_unit_leaves_are_enough() {
    let test = "the_system_calls_that_the_unit_leaves_are_enough";
    if !may_mount(test) {
        return;
    }
    let there = "import ctypes; ctypes.CDLL('libseccomp.so.2')";
    let has = |program: &str, argument: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .args(argument)
            .output()
            .is_ok_and(|said| said.status.success())
    };
    if !has("python3", &["-c", there]) || !has("systemd-analyze", &["syscall-filter", "@mount"]) {
        return eprintln!("{test}: left out, it needs python3, libseccomp2 and systemd");
    }
    let mut groups = words_of("SystemCallFilter=");
    groups[0] = groups[0]
        .strip_prefix('~')
        .expect("a list of what is refused");
    let behind = format!("python3 filter.py {} --", groups.join(" "));
    let found = served_with(&only(&capabilities()), &behind);
    assert_eq!(found[3..], ["660 61001", "65534", "cannot mount"]);
}

//! Tests of reading, showing and editing.

use super::edit::{with_array, without_array};
use super::show::{as_toml, is_default, key_as_toml, value};
use super::*;

mod alerts;
mod properties;

const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";
const OTHER: &str = "00000000:00000001:00000002:00000003";

fn parse(text: &str) -> Result<Settings> {
    Settings::parse(text, "file")
}

fn error(text: &str) -> String {
    format!("{:#}", parse(text).expect_err(text))
}

/// A block of the array `fast` with these further lines.
fn block(lines: &str) -> String {
    format!("[array.fast]\nuuid = \"{UUID}\"\n{lines}\n")
}

#[test]
fn only_the_uuid_is_needed() {
    let settings = parse(&block("").replace("3aaa", "3AAA")).unwrap();
    let wanted = ArraySettings::with_defaults(UUID);
    assert_eq!(settings.array("fast").unwrap(), &wanted);
    assert_eq!(settings.name_of(&UUID.to_uppercase()), Some("fast"));
    assert_eq!(settings.name_of(OTHER), None);
}

#[test]
fn who_may_use_tcp_is_told_by_the_old_name_too() {
    let array = |lines: &str| parse(&block(lines)).unwrap().arrays.remove("fast").unwrap();
    let everybody = array("nbd = ['tcp:localhost']\nlisten = true");
    assert!(everybody.insecure && everybody.tls.is_none());
    let with_tls = array("nbd = ['tcp:localhost']\ntls = '/etc/tls'");
    assert_eq!(with_tls.tls, Some("/etc/tls".into()));
    // Without a TCP address there is nothing to say.
    assert!(!array("listen = false\nnbd = ['unix:/s']").insecure);
}

#[test]
fn names_are_quoted_so_that_their_mistake_is_seen() {
    for (name, quoted) in [
        ("fast ", "\"fast \""),
        ("f\\u0091ast", "\"f\\u0091ast\""),
        ("a\\nb", "\"a\\u000ab\""),
    ] {
        let error = parse(&format!("[array.\"{name}\"]\n"))
            .unwrap_err()
            .to_string();
        let wanted = format!("file:1: {quoted} cannot be the name of an array; ");
        assert!(error.starts_with(&wanted), "{error}");
    }
}

#[test]
fn every_key_is_read() {
    let text = block(
        "attach = 'ublk'\nnbd = ['unix:/run/fast.sock', 'tcp:localhost']\ninsecure = true\n\
         vhost_user = '/run/vms'\nnvmet = 'tcp://10.0.0.5'\nnvmet_hosts = ['nqn.b', 'nqn.a', 'nqn.b']\n\
         spares = ['/dev/sdx', 'ram:8m,serial=S']\nshards = 0x10\nmemory = '1g'\ncompletion = 'hybrid:7'\n\
         rate = '200m'\nscrub_every = '1d 12h'\ndeadline_s = 3_600\nauto_rebuild = false\nsame_bay = 'adopt'\non_event = 'logger \"$FULLSTRIPE_TEXT\"'\n\
         degraded_after_s = 0",
    );
    let wanted = ArraySettings {
        uuid: UUID.to_owned(),
        attach: Attach::Ublk,
        nbd: vec![
            Address::Unix("/run/fast.sock".into()),
            Address::Tcp("localhost:10809".to_owned()),
        ],
        tls: None,
        insecure: true,
        vhost_user: Some("/run/vms".into()),
        nvmet: Some("tcp://10.0.0.5:4420".parse().unwrap()),
        nvmet_hosts: vec!["nqn.a".to_owned(), "nqn.b".to_owned()],
        nvmet_insecure: false,
        spares: vec!["/dev/sdx".to_owned(), "ram:8m,serial=S".to_owned()],
        shards: 16,
        memory_bytes: 1 << 30,
        completion: CompletionMode::Hybrid { poll_ns: 7000 },
        rate_bytes_per_s: Some(200 << 20),
        scrub_every: Some(ScrubPeriod::Seconds(129_600)),
        deadline_s: 3600,
        auto_rebuild: false,
        same_bay: SameBay::Adopt,
        on_event: Some("logger \"$FULLSTRIPE_TEXT\"".to_owned()),
        degraded_after_s: 0,
    };
    assert_eq!(parse(&text).unwrap().array("fast").unwrap(), &wanted);
    // "tls" and "insecure" exclude each other, and so do "nvmet_hosts" and "nvmet_insecure".
    let excluded = ["tls", "nvmet_insecure"];
    let mut given = KEYS.iter().filter(|key| !excluded.contains(key));
    assert!(given.all(|key| !is_default(&wanted, key)));
    let none = parse(&block("rate = '0'")).unwrap();
    assert_eq!(none.arrays["fast"].rate_bytes_per_s, Some(0));
}

#[test]
fn a_mistake_is_told_with_line_key_and_what_to_do() {
    for (lines, wanted) in [
        (
            "shards = 17",
            "file:3: array.fast.shards cannot be 17; give a whole number from 1 to 16",
        ),
        (
            "vhost_user = 'vms'",
            "file:3: array.fast.vhost_user cannot be 'vms'; give a path that begins with '/'",
        ),
        (
            "# more\nshards = '2'",
            "file:4: array.fast.shards cannot be '2'; give a whole number from 1 to 16",
        ),
        (
            "deadline_s = 0",
            "file:3: array.fast.deadline_s cannot be 0; give a whole number from 1 to 3600",
        ),
        (
            "same_bay = true",
            "file:3: array.fast.same_bay cannot be true; give a text in quotation marks",
        ),
        (
            "same_bay = 'take'",
            "file:3: array.fast.same_bay cannot be 'take'; give \"ask\" or \"adopt\"",
        ),
        (
            "degraded_after_s = -1",
            "file:3: array.fast.degraded_after_s cannot be -1; give a whole number from 0 to 3600",
        ),
        (
            "nvmet = 'tcp://server'",
            "file:3: array.fast.nvmet cannot be 'tcp://server'; \"tcp://server\" is no address of NVMe over TCP; write tcp://IP[:PORT] with \
             an IP address of this machine, an IPv6 address in brackets: tcp://10.0.0.5 or tcp://[fd00::5]:4420",
        ),
        (
            "nvmet_hosts = ['host']",
            "file:3: array.fast.nvmet_hosts cannot be 'host'; \"host\" is no NQN of a host; write what `cat /etc/nvme/hostnqn` shows there: \
             \"nqn.\" and at most 219 visible ASCII characters without \"/\"",
        ),
        (
            "shards = 2\nnvmet = 'tcp://10.0.0.5'",
            "file:4: array.fast.nvmet is an address through which whoever can connect could read and write everything; add \
             nvmet_hosts = [\"NQN\"] with the hosts that may, or nvmet_insecure = true",
        ),
        (
            "nvmet = 'tcp://10.0.0.5'\nnvmet_hosts = ['nqn.a']\nnvmet_insecure = true",
            "file:5: array.fast.nvmet_hosts and nvmet_insecure = true contradict each other; keep one of the two",
        ),
        (
            "attach = 'off'\nnvmet = 'tcp://10.0.0.5'\nnvmet_insecure = true",
            "file:5: array.fast.nvmet exports block devices of ublk, and \"attach\" makes none of these; leave one of the two out, or give \
             attach = \"ublk\"",
        ),
        (
            "nvmet_hosts = ['nqn.a']",
            "file:3: array.fast.nvmet is not given, so no host can connect; add nvmet = \"tcp://IP\", or leave the other out",
        ),
        (
            "insecure = 'yes'",
            "file:3: array.fast.insecure cannot be 'yes'; give true or false, without quotation marks",
        ),
        (
            "attach = 'iscsi'",
            "file:3: array.fast.attach cannot be 'iscsi'; give \"auto\", \"ublk\", \"nbd\" or \"off\"",
        ),
        (
            "memory = 128",
            "file:3: array.fast.memory cannot be 128; give a text in quotation marks",
        ),
        (
            "memory = 'much'",
            "file:3: array.fast.memory cannot be 'much'; give a size like \"64m\"",
        ),
        (
            "rate = 'fast'",
            "file:3: array.fast.rate cannot be 'fast'; give bytes per second like \"200m\", or \"0\" for no limit",
        ),
        (
            "scrub_every = '30'",
            "file:3: array.fast.scrub_every cannot be '30'; give a period like \"30d\" or \"36h\", or \"off\"",
        ),
        (
            "scrub_every = '3651d'",
            "file:3: array.fast.scrub_every cannot be '3651d'; give a period like",
        ),
        (
            "completion = 'luck'",
            "file:3: array.fast.completion cannot be 'luck'; give interrupt, polling, hybrid, or \
             hybrid:MICROSECONDS up to a million",
        ),
        (
            "on_event = ' '",
            "file:3: array.fast.on_event cannot be ' '; give a command for sh -c, or leave the key out",
        ),
        (
            "nbd = 'unix:/s'",
            "file:3: array.fast.nbd cannot be 'unix:/s'; it is a list: give addresses like \
             [\"unix:/run/fast.sock\"]",
        ),
        (
            "nbd = [\n  'unix:/s',\n  'iscsi:x']",
            "file:5: array.fast.nbd cannot be 'iscsi:x'; \"iscsi:x\" is no address; write unix:PATH or \
             tcp:HOST[:PORT]",
        ),
        (
            "nbd = [\"x\\ny\"]",
            "file:3: array.fast.nbd cannot be \"x\\ny\"; \"x\\u000ay\" is no address; write unix:PATH or tcp:HOST[:PORT]",
        ),
        (
            "spares = [1]",
            "file:3: array.fast.spares cannot be 1; give drives like [\"/dev/nvme4n1\"]",
        ),
        (
            "spares = ['/dev/x,size=1']",
            "file:3: array.fast.spares cannot be '/dev/x,size=1'; member \"/dev/x,size=1\": unknown key \"size\"; \
             the keys are serial, sector, read-iops, write-iops, bandwidth, latency, model and state",
        ),
        (
            "shards = 2\nnbd = ['unix:/s', 'tcp:localhost']\nmemory = '1g'",
            "file:4: array.fast.nbd has a TCP address, through which whoever can connect could read and write everything; \
             add tls = \"FOLDER\", so that clients need a certificate, or insecure = true",
        ),
        (
            "nbd = ['tcp:localhost']\ntls = 'certificates'",
            "file:4: array.fast.tls cannot be 'certificates'; give a path that begins with '/'",
        ),
        (
            "nbd = ['tcp:localhost']\ntls = '/t'\ninsecure = true",
            "file:3: array.fast.tls and insecure = true contradict each other; keep one of the two",
        ),
        (
            "nbd = ['tcp:h', 'tcp:h:10809']",
            "file:3: array.fast has the address tcp:h:10809 twice; give each address in \"nbd\" once",
        ),
        ("shards", "file:3: this is not TOML ("),
        ("shards = 1\nshards = 1", "file:4: this is not TOML ("),
        (
            "[other]",
            "file:3: \"other\" is no key of this file; each array has a block that begins with [array.NAME], and alerts have \
             one that begins with [alerts]",
        ),
        (
            "[array.b]",
            "file:3: array.b has no uuid; add the line uuid = \"...\"",
        ),
        (
            "[array.b]\nuuid = '3aaa0122-29827cfa-5331ad66-ca767371'",
            "file:4: array.b.uuid cannot be '3aaa0122-29827cfa-5331ad66-ca767371'; give the UUID of the container",
        ),
        (
            "[array.-b]",
            "file:3: \"-b\" cannot be the name of an array; give 1 to 32 letters, digits, '_', '.' and '-', beginning \
             with neither '-' nor '.'",
        ),
    ] {
        let found = error(&block(lines));
        assert!(found.starts_with(wanted), "{found}\n{wanted}");
        assert!(!found.contains('\n'), "{found}");
    }
    assert!(error("array = 1").starts_with("file:1: \"array\" is no table; "));
    assert!(error("array.x = 1").starts_with("file:1: array.x is no table; "));
}

#[test]
fn an_unknown_key_names_the_known_ones_and_the_nearest() {
    let found = error(&block("sahrds = 1"));
    assert_eq!(
        found,
        "file:3: array.fast has no key \"sahrds\"; did you mean \"shards\"? The keys are uuid, attach, nbd, tls, insecure, vhost_user, \
         nvmet, nvmet_hosts, nvmet_insecure, spares, shards, memory, completion, rate, scrub_every, deadline_s, auto_rebuild, same_bay, on_event and degraded_after_s"
    );
    let found = error(&block("colour = 1"));
    assert!(
        found.contains("no key \"colour\"; the keys are uuid, "),
        "{found}"
    );
}

#[test]
fn two_arrays_share_neither_uuid_nor_address() {
    let twice = format!("{}{}", block(""), block("").replace("fast", "slow"));
    assert_eq!(
        error(&twice),
        format!(
            "file:5: array.slow and array.fast have the same uuid {UUID}; keep one of the two blocks"
        )
    );
    let addresses = format!(
        "{}[array.slow]\nuuid = '{OTHER}'\nnbd = ['unix:/s']\n",
        block("nbd = ['unix:/s']")
    );
    assert_eq!(
        error(&addresses),
        "file:6: array.slow and array.fast have the same address unix:/s; give each address in \"nbd\" once"
    );
}

#[test]
fn names_are_those_of_units_and_files() {
    for name in ["a", "A.b-c_9", "_", &"x".repeat(32)] {
        assert_eq!(check_name(name), Ok(()));
        let text = format!("[array.{}]\nuuid = '{UUID}'", key_as_toml(name));
        assert!(parse(&text).unwrap().array(name).is_ok());
    }
    for name in ["", ".a", "-a", "a b", "a/b", "ä", "a\n", &"x".repeat(33)] {
        assert!(check_name(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_missing_array_is_told_with_those_there_are() {
    let error = |settings: &Settings| format!("{:#}", settings.array("x").unwrap_err());
    assert_eq!(
        error(&Settings::default()),
        "the settings have no array \"x\", nor any other; `fullstripe enable x DRIVE...` adds it"
    );
    let text = format!("{}[array.slow]\nuuid = '{OTHER}'\n", block(""));
    assert_eq!(
        error(&parse(&text).unwrap()),
        "the settings have no array \"x\"; name one of these: fast and slow"
    );
}

#[test]
fn a_file_is_read_and_an_absent_one_has_no_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fullstripe.toml");
    assert_eq!(Settings::read(&path).unwrap(), Settings::default());
    std::fs::write(&path, block("")).unwrap();
    assert!(Settings::read(&path).unwrap().array("fast").is_ok());
    let error = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        format!("{:#}", Settings::read(&path).unwrap_err())
    };
    assert!(error(b"# one\n# \xff\n").contains("fullstripe.toml:2: this line is not UTF-8 text"));
    assert!(error(&vec![b'\n'; (1 << 20) + 1]).contains("is longer than 1 MiB"));
    assert!(Settings::read(folder.path()).is_err());
}

#[test]
fn what_is_shown_has_every_key_and_marks_defaults() {
    let settings = parse(&block("shards = 2\nnbd = ['unix:/s']")).unwrap();
    let text = as_toml(&settings);
    let (array, alerts) = text.split_once("\n\n").unwrap();
    let wanted = "[alerts]\nmail = []  # default\n# sendmail is not given: /usr/sbin/sendmail or /usr/lib/sendmail  # default\n\
        # webhook is not given: nothing is sent by it  # default\n# webhook_file is not given: nothing is sent by it  # \
        default\n# exec is not given: no command is run  # default\nminimum = \"warning\"  # default\n# ping is not given: \
        nothing is sent by it  # default\n# ping_file is not given: nothing is sent by it  # default\nping_every_s = 60  # \
        default\n";
    assert_eq!(alerts, wanted);
    assert_eq!(
        array,
        format!(
            "[array.fast]\nuuid = \"{UUID}\"\nattach = \"auto\"  # default\nnbd = [\"unix:/s\"]\n\
             # tls is not given: a TCP address needs \"insecure\"  # default\ninsecure = false  # default\n\
             # vhost_user is not given: there are no sockets for virtual machines  # default\n\
             # nvmet is not given: no volume is exported by NVMe over TCP  # default\n\
             nvmet_hosts = []  # default\nnvmet_insecure = false  # default\n\
             spares = []  # default\nshards = 2\nmemory = \"128m\"  # default\n\
             completion = \"interrupt\"  # default\n\
             # rate is not given: the limit that `fullstripe rate` set last applies  # default\n\
             # scrub_every is not given: what `fullstripe scrub --every` set last applies, or \"30d\"  # default\n\
             deadline_s = 30  # default\nauto_rebuild = true  # default\nsame_bay = \"ask\"  # default\n\
             # on_event is not given: no command is run  # default\ndegraded_after_s = 30  # default"
        )
    );
}

#[test]
fn a_block_is_added_and_removed_and_every_other_byte_stays() {
    let first = with_array("", "file", "fast", UUID).unwrap();
    assert_eq!(first, format!("[array.fast]\nuuid = \"{UUID}\"\n"));
    assert_eq!(without_array(&first, "file", "fast").unwrap(), "");
    for text in [
        "# mine\n",
        "# mine",
        "[array.slow]\r\nuuid = \"UUID\"\r\n",
        "  \n",
    ] {
        let text = text.replace("UUID", OTHER);
        let more = with_array(&text, "file", "a.b", UUID).unwrap();
        assert!(more.starts_with(&text), "{more}");
        let less = without_array(&more, "file", "a.b").unwrap();
        assert_eq!(less.trim_end(), text.trim_end());
    }
    let text = format!(
        "# top\n\n[array.slow] # slow\nuuid = '{OTHER}'\n\n# of fast\n[array.fast] # x\n\n# y\nnbd = [\n'unix:/s', \
         # z\n]  # end\n uuid = '{UUID}' # u\n# shards = 2\n\n# of last\n[array.last]\nuuid = '{}'\n",
        OTHER.replace("3", "4")
    );
    let wanted = text.replace(
        &format!(
            "[array.fast] # x\n\n# y\nnbd = [\n'unix:/s', # z\n]  # end\n uuid = '{UUID}' # u\n# shards = 2\n"
        ),
        "",
    );
    assert_ne!(wanted, text);
    assert_eq!(without_array(&text, "file", "fast").unwrap(), wanted);
    // The comment above the next block stays, even if no blank line separates it.
    let near = format!(
        "{}# of b\n[array.b]\nuuid='{OTHER}'",
        block("").trim_end().to_owned() + "\n"
    );
    assert_eq!(
        without_array(&near, "file", "fast").unwrap(),
        format!("# of b\n[array.b]\nuuid='{OTHER}'")
    );
}

#[test]
fn a_file_of_another_form_is_not_edited() {
    let inline = format!("array = {{ fast = {{ uuid = '{UUID}' }} }}\n");
    let error = format!("{:#}", without_array(&inline, "file", "fast").unwrap_err());
    assert!(error.contains("remove it by hand"), "{error}");
    let error = format!("{:#}", with_array(&inline, "file", "b", OTHER).unwrap_err());
    assert!(error.contains("write each array as a block"), "{error}");
    let dotted = format!("[array]\nfast.uuid = '{UUID}'\n");
    assert!(without_array(&dotted, "file", "fast").is_err());
    let split = format!("{}shards = 1\n[array]\nb.uuid = '{OTHER}'\n", block(""));
    assert!(without_array(&split, "file", "b").is_err());
    assert_eq!(
        parse(&without_array(&split, "file", "fast").unwrap())
            .unwrap()
            .name_of(OTHER),
        Some("b")
    );
    for (name, uuid, wanted) in [
        ("fast", OTHER, "has an array \"fast\" already"),
        ("b", UUID, "already, as array \"fast\""),
        (".b", OTHER, "cannot be the name of an array"),
    ] {
        let error = format!(
            "{:#}",
            with_array(&block(""), "file", name, uuid).unwrap_err()
        );
        assert!(error.contains(wanted), "{error}");
    }
}

use super::*;
use crate::schema::setup::{Level, Reference};

const GOOD: &str = r#"
schema = 1
[setup.r0x4]
drive = "p4510-2tb"
count = 4
level = 0
platform = "mine/platform.toml"
host = "linux-4.13"
stack = "fullstripe"
chunk_kib = 64
[setup.one]
drive = "p4510-2tb"
count = 1
level = "none"
platform = "oakgate"
host = "appliance"
stack = "none"
[points]
rr = { setup = "r0x4", state = "steady", workload = { op = "randread", bs = "4k", threads = 8, qd = 64 } }
"#;

fn with(from: &str, to: &str) -> Result<BTreeMap<String, Configuration>, String> {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    read_configurations("my.toml", &text, &Catalogue::of_claims())
        .map_err(|refusal| refusal.to_string())
}

#[test]
fn a_point_comes_with_its_setup() {
    let points = with("schema", "schema").expect("it is right");
    let configuration = &points["rr"];
    assert_eq!(configuration.setup.level, Level::Raid0);
    assert_eq!(
        configuration.setup.platform,
        Reference::File("mine/platform.toml".into())
    );
    assert_eq!(configuration.setup.drive, Reference::Id("p4510-2tb".into()));
    let json = serde_json::to_string(configuration).expect("it can be written");
    assert!(
        json.contains(r#""level":0,"platform":"mine/platform.toml""#),
        "{json}"
    );
    assert_eq!(
        &serde_json::from_str::<Configuration>(&json).expect("and read"),
        configuration
    );
}

#[test]
fn each_rule_is_one_sentence() {
    for (from, to, expected) in [
        (
            "schema = 1",
            "schema = 3",
            "schema must be 1, is 3: this program reads no other version",
        ),
        (
            "drive = \"p4510-2tb\"\ncount = 4",
            "drive = \"p4510-2t\"\ncount = 4",
            "setup.r0x4.drive does not know \"p4510-2t\"; nearest: \"p4510-2tb\", \"p4510-1tb\" or \"p4510-4tb\"",
        ),
        (
            "count = 4",
            "count = 1",
            "setup.r0x4.count must be from 2 to 64 at this level, is 1",
        ),
        (
            "level = 0",
            "level = 6",
            "setup.r0x4.level must be 0, 1, 5, 10 or \"none\", is integer 6",
        ),
        (
            "level = 0",
            "level = -1",
            "setup.r0x4.level must be 0, 1, 5, 10 or \"none\", is integer -1",
        ),
        (
            "level = 0",
            "level = \"none\"",
            "setup.r0x4.stack must be \"none\" with level = \"none\", and only then",
        ),
        (
            "count = 4\nlevel = 0",
            "count = 5\nlevel = 10",
            "setup.r0x4.count must be even at level 10, is 5",
        ),
        (
            "stack = \"none\"",
            "stack = \"none\"\nengine_cores = 2",
            "setup.one.engine_cores goes with stack = \"fullstripe\" only",
        ),
        (
            "chunk_kib = 64",
            "engine_cores = 17",
            "setup.r0x4.engine_cores must be from 1 to 16, is 17",
        ),
        (
            "chunk_kib = 64",
            "condition = \"degraded\"",
            "setup.r0x4.condition needs a level that survives the loss of a drive: 1, 5 or 10",
        ),
        (
            "chunk_kib = 64",
            "rebuild_mb_s = 100",
            "setup.r0x4.rebuild_mb_s goes with condition = \"rebuilding\" only",
        ),
        (
            "chunk_kib = 64",
            "chunk_kib = 65",
            "setup.r0x4.chunk_kib must be a power of two from 4 to 1024, is 65",
        ),
        (
            "setup = \"r0x4\"",
            "setup = \"r0x5\"",
            "points.rr.setup does not know \"r0x5\"; nearest: \"r0x4\" or \"one\"",
        ),
        (
            "qd = 64",
            "qd = 0",
            "points.rr.workload.qd must be from 1 to 65536, is 0",
        ),
        (
            "rr = {",
            "\"RR\" = {",
            "points.RR must be small letters, digits and _, beginning with a letter",
        ),
        (
            "stack = \"fullstripe\"",
            "stack = \"fullstrip\"",
            "setup.r0x4.stack does not know \"fullstrip\"; nearest: \
          \"fullstripe\", \"md-2018\" or \"none\"",
        ),
    ] {
        assert_eq!(
            with(from, to).expect_err(to),
            format!("my.toml: {expected}")
        );
    }
    let message = with("rr = {", "# {").expect_err("nothing is asked for");
    assert_eq!(message, "my.toml: points has no point; name at least one");
}

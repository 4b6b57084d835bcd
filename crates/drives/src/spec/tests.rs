use super::*;

fn parse(text: &str) -> MemberSpec {
    text.parse().unwrap()
}

fn error(text: &str) -> String {
    text.parse::<MemberSpec>().unwrap_err().to_string()
}

#[test]
fn targets() {
    assert_eq!(
        parse("/dev/nvme0n1").target,
        Target::Path("/dev/nvme0n1".into())
    );
    assert_eq!(
        parse("ram:64m").target,
        Target::Ram {
            size_bytes: 64 << 20
        }
    );
    assert_eq!(
        parse("null:2T").target,
        Target::Null {
            size_bytes: 2 << 40
        }
    );
    assert_eq!(
        parse("ram:1048576").target,
        Target::Ram {
            size_bytes: 1 << 20
        }
    );
    assert_eq!(parse("./ram:1").target, Target::Path("./ram:1".into()));
    assert!(!parse("d0.img").limits.any());
}

#[test]
fn keys() {
    let text = "d0.img,serial=BAY-7,sector=4096,read-iops=640k,write-iops=1m,\
                bandwidth=3200m,latency=80us";
    let spec = parse(text);
    assert_eq!(spec.serial.as_deref(), Some("BAY-7"));
    assert_eq!(spec.sector_bytes, Some(4096));
    assert_eq!(
        spec.limits,
        Limits {
            read_iops: Some(640_000),
            write_iops: Some(1_000_000),
            bandwidth_bytes_per_second: Some(3200 << 20),
            latency: Nanos(80_000),
        }
    );
    assert!(spec.limits.any());
    assert_eq!(parse("a,latency=1500").limits.latency, Nanos(1500));
    assert_eq!(parse("a,latency=2ms").limits.latency, Nanos(2_000_000));
}

/// As drives report them, with padding and all.
#[test]
fn a_serial_is_stored_as_that_of_a_drive_would_be() {
    for (reported, stored) in [
        ("BAY-7", "BAY-7"),
        ("PHN1234:56789ABCDEF0", "234;56789ABCDEF0"),
        ("  S3 EV NX0J  ", "S3EVNX0J"),
        ("a:b", "a;b"),
        ("caf\u{e9}\u{1}", "caf"),
    ] {
        let spec = parse(&format!("d0.img,serial={reported}"));
        assert_eq!(spec.serial.as_deref(), Some(stored));
        assert_eq!(crate::drive::serial_from(reported), stored);
    }
}

#[test]
fn a_member_can_be_as_fast_as_a_drive() {
    let spec = parse("ram:64m,model=p4510-2tb");
    let model = |drive: &str, state| {
        let drive = drive.to_owned();
        Some(Model { drive, state })
    };
    assert_eq!(spec.model, model("p4510-2tb", State::Steady));
    assert!(!spec.limits.any());
    for (word, state) in [
        ("fresh", State::Fresh),
        ("filled", State::Filled),
        ("steady", State::Steady),
        ("worn", State::Worn),
    ] {
        let spec = parse(&format!("d0.img,state={word},model=./mine.toml#a,serial=X"));
        assert_eq!(spec.model, model("./mine.toml#a", state));
    }
}

#[test]
fn every_error_is_a_sentence_that_names_the_key() {
    for (text, wanted) in [
        ("", "names no drive"),
        (",serial=A", "names no drive"),
        ("ram:", "ram: cannot be \"\"; give bytes, or"),
        ("ram:64q", "ram: cannot be \"64q\"; give bytes, or"),
        ("null:0", "null: cannot be \"0\""),
        ("ram:99999999t", "ram: cannot be \"99999999t\""),
        (
            "a,colour=red",
            "unknown key \"colour\"; the keys are serial",
        ),
        ("a,", "unknown key \"\""),
        (
            "a,sector=520",
            "sector= cannot be \"520\"; give 512 or 4096",
        ),
        ("a,sector", "sector= cannot be \"\""),
        (
            "a,read-iops=0",
            "read-iops= cannot be \"0\"; give a count above zero",
        ),
        ("a,write-iops=-5", "write-iops= cannot be \"-5\""),
        (
            "a,bandwidth=fast",
            "bandwidth= cannot be \"fast\"; give bytes",
        ),
        (
            "a,latency=61s",
            "latency= cannot be \"61s\"; give a time like 90us",
        ),
        (
            "a,serial=",
            "serial= cannot be \"\"; give at least one printable",
        ),
        (
            "a,serial=  ",
            "serial= cannot be \"  \"; give at least one printable",
        ),
        ("a,serial=\u{e9}", "serial= cannot be \"\u{e9}\""),
        ("a,serial=a,serial=b", "serial= is given twice"),
        (
            "a,model=p4510-3tb",
            "profiles/drives: \"p4510-3tb\" is no drive with a profile; nearest: \"p4510-1tb\"",
        ),
        (
            "a,model=",
            "model= cannot be \"\"; give a drive like p4510-2tb",
        ),
        (
            "a,model=p4510-2tb,state=new",
            "state= cannot be \"new\"; give fresh, filled",
        ),
        (
            "a,state=fresh",
            "state= is that of a modelled drive; name one with model=",
        ),
        (
            "a,model=p4510-2tb,latency=1us",
            "model= says how fast it is; leave out read-iops",
        ),
    ] {
        let message = error(text);
        assert!(message.contains(wanted), "{text:?} gave {message:?}");
        assert!(
            message.starts_with(&format!("member \"{text}\"")),
            "{message}"
        );
    }
}

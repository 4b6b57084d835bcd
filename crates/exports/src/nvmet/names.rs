//! The names of an export. They come from the volume's UUID, so they are the same after every start and on every machine.

/// What the subsystem says of itself as its model.
pub const MODEL: &str = "fullstripe";
/// Most characters of a serial number (NVMe base specification, Identify Controller).
const SERIAL_LENGTH: usize = 20;
/// Most bytes of an NQN (NVMe base specification, 4.5 "NVMe Qualified Names").
const NQN_BYTES_MAX: usize = 223;

/// A UUID in its usual form, by which hosts know the namespace.
#[must_use]
pub fn uuid(identity: &[u8; 16]) -> String {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let id = identity;
    let parts = [&id[..4], &id[4..6], &id[6..8], &id[8..10], &id[10..]].map(hex);
    parts.join("-")
}

/// The subsystem's NQN. Names of this form need no domain of one's own (NVMe base specification, 4.5).
#[must_use]
pub fn nqn(identity: &[u8; 16]) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid(identity))
}

/// The subsystem's serial number: the beginning of the UUID.
#[must_use]
pub fn serial(identity: &[u8; 16]) -> String {
    let mut digits = uuid(identity).replace('-', "");
    digits.truncate(SERIAL_LENGTH);
    digits
}

/// Checks the NQN of a host, which becomes the name of a folder.
///
/// # Errors
/// It is none: one sentence.
pub fn check_host(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_graphic() && c != '/';
    if name.starts_with("nqn.") && name.len() <= NQN_BYTES_MAX && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no NQN of a host; write what `cat /etc/nvme/hostnqn` shows there: \"nqn.\" and at most {} visible ASCII \
         characters without \"/\"",
        NQN_BYTES_MAX - 4
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_uuid() {
        let identity = std::array::from_fn(|at| at as u8 * 0x11);
        assert_eq!(
            nqn(&identity),
            "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff"
        );
        assert_eq!(serial(&identity), "00112233445566778899");
    }

    #[test]
    fn a_host_has_an_nqn() {
        check_host("nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff").unwrap();
        check_host(&format!("nqn.{}", "x".repeat(219))).unwrap();
        for name in ["", "host", "nqn.a/b", "nqn.a b", "nqn.\u{e9}", "nqn.a\n"] {
            let wrong = check_host(name).unwrap_err();
            assert!(wrong.contains("is no NQN of a host; write "), "{wrong}");
        }
        assert!(check_host(&format!("nqn.{}", "x".repeat(220))).is_err());
    }
}

//! Reads TOML into types, with one sentence if it does not fit: as [`models::document`], with a check of the version.

pub use models::document::{Refusal, read};

/// Fails unless `found` is the version that this program reads.
///
/// # Errors
///
/// When it is another one.
pub fn check_version(file: &str, found: u32) -> Result<(), Refusal> {
    if found == super::SCHEMA {
        return Ok(());
    }
    let rule = format!(
        "must be {}, is {found}: this program reads no other version",
        super::SCHEMA
    );
    Err(Refusal::new(file, "schema", rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::configuration::Form;

    fn refused(text: &str) -> String {
        read::<Form>("plan.toml", text).expect_err(text).to_string()
    }

    #[test]
    fn each_mistake_is_one_sentence_with_file_key_and_rule() {
        let head = "schema = 1\n[setup.a]\ndrive = 'x'\ncount = 1\nlevel = 'none'\nplatform = 'p'\nhost = 'h'\n";
        for (rest, expected) in [
            ("", "plan.toml: setup.a.stack is missing"),
            (
                "stak = 'none'",
                "plan.toml: setup.a.stak is not a key here; nearest: \"stack\", \"host\" or \"count\"",
            ),
            (
                "stack = 5",
                "plan.toml: setup.a.stack must be a string, is integer 5",
            ),
            (
                "stack = 'none'\n[points.b]\nsetup = 'a'\nstate = 'stedy'\nworkload = 1",
                "plan.toml: points.b.state does not know \"stedy\"; nearest: \"steady\", \"fresh\" or \"filled\"",
            ),
            (
                "stack = 'none'\n[points.b]\nsetup = 'a'\nstate = 'worn'\nworkload = { op = 'read', bs = '4q' }",
                "plan.toml: points.b.workload.bs is refused: a size is whole sectors of 512 bytes up to 64m, written \
                 like \"512\", \"4k\" or \"1m\" (k = 1024), not \"4q\"",
            ),
            (
                "stack = 'none'\n[points.b]\nsetup = 'a'\nstate = 'worn'\nworkload = { op = 'read', threads = -1 }",
                "plan.toml: points.b.workload.threads must be a whole number from 0 to 4294967295, is integer -1",
            ),
            (
                "stack = 'none'\n[points]\nb = 7",
                "plan.toml: points.b must be a table, is integer 7",
            ),
        ] {
            assert_eq!(refused(&format!("{head}{rest}")), expected);
        }
        assert!(
            refused("schema = 1\nschema = 2")
                .starts_with("plan.toml: line 2 is not TOML: duplicate key")
        );
        assert!(refused("a = ").starts_with("plan.toml: line 1 is not TOML: "));
        assert_eq!(refused(""), "plan.toml: schema is missing");
    }

    #[test]
    fn another_version_is_refused() {
        assert!(check_version("a.toml", 1).is_ok());
        let message = check_version("a.toml", 2).expect_err("another").to_string();
        assert_eq!(
            message,
            "a.toml: schema must be 1, is 2: this program reads no other version"
        );
    }
}

//! The settings file of the machine: `config` checks and shows it.

use super::rig::Rig;
use std::fs;

const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";

#[test]
fn config_checks_and_shows_a_file() {
    let rig = Rig::new();
    let none = rig.done("config check none.toml");
    assert_eq!(
        none.stdout,
        "none.toml: 0 arrays, no mistake (there is no such file)\n"
    );
    let text = format!("[array.fast]\nuuid = '{UUID}'\nshards = 2\n");
    fs::write(rig.path("a.toml"), text).unwrap();
    let checked = rig.done("config check a.toml");
    assert_eq!(checked.stdout, "a.toml: 1 array, no mistake\n");
    assert_eq!(rig.json("config check a.toml", 0)["arrays"][0], "fast");

    let shown = rig.done("config show a.toml");
    assert!(shown.stdout.contains("\nshards = 2\n"), "{shown:?}");
    assert!(
        shown.stdout.contains("\ndeadline_s = 30  # default\n"),
        "{shown:?}"
    );
    fs::write(rig.path("b.toml"), &shown.stdout).unwrap();
    let again = rig.done("config show b.toml");
    assert_eq!(again.stdout, shown.stdout);
    let json = rig.json("config show a.toml", 0);
    let fast = &json["arrays"]["fast"];
    assert_eq!(fast["uuid"], UUID);
    assert_eq!(fast["shards"], 2);
    assert!(fast["rate"].is_null());
    let defaults = fast["defaults"].as_array().unwrap();
    assert!(defaults.contains(&"rate".into()) && !defaults.contains(&"shards".into()));

    fs::write(rig.path("a.toml"), "[array.fast]\nuid = 1\n").unwrap();
    for command in ["check", "show"] {
        let line = format!("config {command} a.toml");
        let wanted = "a.toml:2: array.fast has no key \"uid\"; did you mean \"uuid\"?";
        rig.refused(&line, 1, wanted, &[]);
    }
}

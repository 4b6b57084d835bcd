//! What `serve --array` says, and what it makes of the settings.

use super::*;

#[test]
fn it_says_what_it_waits_for() {
    let patience = Duration::from_secs(30);
    assert_eq!(
        waits("data", 0, None, patience),
        "array data waits for its drives: none is there"
    );
    assert_eq!(
        waits("data", 1, None, patience),
        "array data waits for its other drives: one is there; when no other has come for 30 s, it starts without them if it can"
    );
    assert_eq!(
        waits("data", 2, Some(None), patience),
        "array data waits for its other drives: 2 are there; no volume can start with these; \
         `fullstripe list` shows what is missing"
    );
    let why = "a and b have the same serial number".to_owned();
    assert_eq!(
        waits("data", 4, Some(Some(why)), patience),
        "array data cannot start: 4 are there, but a and b have the same serial number"
    );
}

#[test]
fn a_spare_that_has_become_a_member_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let [drive, link, other] = ["d0", "link", "d1"].map(|name| folder.path().join(name));
    std::fs::write(&drive, "").unwrap();
    std::fs::write(&other, "").unwrap();
    std::os::unix::fs::symlink(&drive, &link).unwrap();
    let text = |path: &Path| path.display().to_string();
    let spares = [format!("{},sector=512", link.display()), text(&other)];
    assert_eq!(without(&spares, &[text(&drive)]), [text(&other)]);
    assert_eq!(without(&spares, &[]), spares);
}

#[test]
fn an_array_is_one_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("fullstripe.toml");
    let refused = |name| Array::read(&place, name).err().unwrap().to_string();
    assert!(refused("data").contains("no array \"data\""));
    std::fs::write(
        &place,
        "[array.logs]\nuuid = \"3aaa0122:29827cfa:5331ad66:ca767371\"\nattach = \"off\"\n",
    )
    .unwrap();
    assert!(refused("data").contains("name one of these: logs"));
    let array = Array::read(&place, "logs").unwrap();
    assert_eq!(array.settings.attach, Attach::Off);
    assert!(array.mistakes().is_empty());
}

#[test]
fn an_array_is_served_in_spite_of_what_is_wrong_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("fullstripe.toml");
    let said = |alerts: &str| {
        let text = format!(
            "[array.data]\nuuid = \"3aaa0122:29827cfa:5331ad66:ca767371\"\n[array.logs]\nshards = 0\n[alerts]\n{alerts}"
        );
        std::fs::write(&place, text).unwrap();
        let array = Array::read(&place, "data").unwrap();
        assert_eq!(array.settings.shards, 1);
        let ends = array.mistakes().into_iter().map(|mistake| {
            let (_, follows) = mistake.rsplit_once("; ").unwrap();
            follows.to_owned()
        });
        ends.collect::<Vec<_>>()
    };
    let all_the_same = "array data is served all the same";
    assert_eq!(said("mail = ['root']"), [all_the_same]);
    assert_eq!(
        said("mail = ['root']\nminimum = 'all'"),
        [
            all_the_same,
            "this key is not used, the other keys of [alerts] are"
        ]
    );
    assert_eq!(
        said("mail = 'root'"),
        [
            all_the_same,
            "until this is corrected and read anew (systemctl reload), the array sends no alerts"
        ]
    );
    let own = Array::read(&place, "logs").err().unwrap().to_string();
    assert!(own.contains(":4: array.logs.shards cannot be 0"), "{own}");
}

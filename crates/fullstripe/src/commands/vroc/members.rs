//! What a machine shows of drives that are to become an array: model, maker, and the VMD that they are behind.

use catalogue::Catalogue;
use machine::files::Files;
use machine::nvme::{Controller, list};
use machine::pci::vmd_above;
use std::path::Path;
use vroc::{Member, Place};

/// The drives that `paths` name, as the machine below `files` shows them. A path that is no block device of an NVMe drive there has
/// nothing but its name; `None` is a drive in memory.
#[must_use]
pub fn members(files: &Files, paths: &[Option<&Path>]) -> Vec<Member> {
    let controllers = list(files);
    let catalogue = Catalogue::built_in();
    let of_path = |path: &Option<&Path>| {
        let path = path.unwrap_or(Path::new("a drive in memory"));
        // A drive may be named by a link, like those in /dev/disk/by-id.
        let followed = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let device = followed.file_name().unwrap_or_default().to_string_lossy();
        let has_device = |controller: &&Controller| {
            let mut namespaces = controller.namespaces.iter();
            namespaces.any(|name| *name == device)
        };
        let controller = controllers.iter().find(has_device);
        let model = controller.and_then(|controller| controller.attribute(files, "model"));
        let entry = model.as_ref().and_then(|model| catalogue.with_model(model));
        Member {
            name: path.display().to_string(),
            title: entry.map(|entry| entry.family.name.clone()),
            maker: entry.map(|entry| entry.family.maker.clone()),
            purpose: entry.map(|entry| entry.family.purpose),
            place: place(files, controller),
        }
    };
    paths.iter().map(of_path).collect()
}

fn place(files: &Files, controller: Option<&Controller>) -> Place {
    let Some(folder) = controller.and_then(|controller| controller.pci.as_ref()) else {
        return Place::Unseen;
    };
    let vmd = vmd_above(files, folder);
    vmd.map_or(Place::Outside, |address| {
        Place::Behind(format!("VMD {address}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::samples::{self, Reader};
    use std::collections::BTreeSet;

    #[test]
    fn drives_behind_a_vmd_are_told_from_others_and_from_files() {
        let folder = tempfile::tempdir().expect("there is room");
        samples::build(samples::facts("vmd_on"), folder.path(), Reader::Root);
        let files = Files::below(folder.path());
        let here: Vec<String> = list(&files)
            .into_iter()
            .flat_map(|controller| controller.namespaces)
            .map(|name| format!("/dev/{name}"))
            .collect();
        let paths: Vec<Option<&Path>> = here.iter().map(|path| Some(Path::new(path))).collect();
        let found = members(&files, &paths);
        let places: BTreeSet<&Place> = found.iter().map(|member| &member.place).collect();
        assert!(
            places.iter().any(|place| matches!(place, Place::Behind(_))),
            "{found:?}"
        );
        // By a link, as the same drive.
        let target = folder.path().join(here[0].trim_start_matches("/dev/"));
        std::fs::write(&target, "").expect("it is written");
        let link = folder.path().join("by-id");
        std::os::unix::fs::symlink(&target, &link).expect("it is made");
        let linked = members(&files, &[Some(&link)]);
        assert_eq!(linked[0].place, found[0].place);
        assert_eq!(linked[0].title, found[0].title);
        let foreign = members(&files, &[Some(Path::new("/tmp/a.img")), None]);
        for member in &foreign {
            assert_eq!(member.place, Place::Unseen);
            assert_eq!(member.maker, None);
        }
        assert_eq!(foreign[1].name, "a drive in memory");
    }
}

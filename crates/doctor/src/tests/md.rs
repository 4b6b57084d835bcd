//! Machines whose drives Linux md or dmraid use, or may use.

use super::super::drives::ImsmDrive;
use super::machines::MD_BOX;
use super::*;
use ::container::root_drive::Tie;

/// A drive of the container with this number.
fn imsm(name: &str, container: u8, is_of_root: bool) -> ImsmDrive {
    ImsmDrive {
        name: name.to_owned(),
        container: Some(uuid(container)),
        is_of_root,
    }
}

fn uuid(container: u8) -> String {
    format!("00000000:00000000:00000000:{container:08x}")
}

#[test]
fn mdadm_needs_a_hint_to_find_an_array_on_loop_devices() {
    let root = build(&[GOOD_HOST]);
    let named = named(&["/dev/loop0", "/dev/nvme0n1"]);
    let report = examine(&machine(&root), &named, &|_| Ok(member(&["data"], 2)));
    let text = report.to_string();
    let hinted: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("IMSM_DEVNAME_AS_SERIAL=1"))
        .collect();
    assert_eq!(hinted.len(), 1, "{text}");
    assert!(hinted[0].contains("/dev/loop0"), "{text}");
}

#[test]
fn drives_that_linux_md_and_dmraid_hold() {
    let root = build(&[GOOD_HOST, MD_BOX]);
    let report = examine(&machine(&root), &[], &|spec| match spec {
        "/dev/sdc" => Ok(Looked {
            content: Content::Damaged("its checksum is wrong".to_owned()),
            ..empty_drive()
        }),
        "/dev/sdd" => Err(LookError::Other("/dev/sdd: no medium".to_owned())),
        _ => Ok(Looked {
            holders: vec![Holder::new(
                "Linux md array md127 (a container with imsm metadata)",
                "mdadm --stop /dev/md127",
            )],
            ..member(&["data"], 2)
        }),
    });
    assert!(report.can_serve);
    insta::assert_snapshot!(report.to_string());
}

#[test]
fn nobody_is_told_to_stop_the_array_below_the_root_file_system() {
    let root = build(&[
        GOOD_HOST,
        MD_BOX,
        "proc/self/mountinfo = 22 1 9:126 / / rw - ext4 /dev/md126 rw\n\
         sys/devices/md126/slaves/sda/\n\
         sys/devices/md126/slaves/sdb/\n\
         sys/dev/block/9:126 -> ../../devices/md126\n\
         sys/class/block/md126 -> ../../devices/md126",
    ]);
    let look = |_: &str| {
        Ok(Looked {
            holders: vec![Holder::new(
                "Linux md array md126",
                "mdadm --stop /dev/md126",
            )],
            root: Some(Tie::Below),
            ..member(&["root"], 2)
        })
    };
    let lines = |named: &[Named]| -> Vec<String> {
        let report = examine(&machine(&root), named, &look).to_string();
        let about = [
            "  sda: in",
            "  sdb: in",
            "  /dev/sda: in",
            " md12",
            " mdadm: /usr",
        ];
        let lines = report
            .lines()
            .filter(|line| about.iter().any(|one| line.contains(one)));
        lines.map(str::to_owned).collect()
    };
    let of_md = [
        "note     md126: Linux md runs a volume of md127: sda, sdb",
        "ok       md127: Linux md holds the IMSM container that the root file system of this machine lies on: sdb, sda",
        "ok       mdadm: /usr/lib/udev/rules.d/64-md-raid-assembly.rules lets it assemble IMSM arrays, which the root file \
         system of this machine needs (md127); `fullstripe enable` has it leave another array to fullstripe",
    ];
    let found = lines(&[]);
    assert_eq!(
        found[..2],
        ["sda", "sdb"].map(|name| format!(
            "ok       {name}: in use by Linux md array md126; the root file system of this machine lies on it"
        ))
    );
    assert_eq!(found[found.len() - 3..], of_md);
    assert_eq!(
        lines(&named(&["/dev/sda"]))[0],
        "problem  /dev/sda: in use by Linux md array md126; the root file system of this machine lies on it; name other \
         drives: no process can serve this one"
    );
}

#[test]
fn nobody_is_told_to_release_a_spare_of_the_container_below_the_root_file_system() {
    let root = build(&[GOOD_HOST, MD_BOX]);
    let look = |spec: &str| {
        let spare = Looked {
            holders: vec![Holder::new(
                "Linux md array md127",
                "mdadm --stop /dev/md127",
            )],
            root: Some(Tie::InContainer("md127".to_owned())),
            content: Content::Spare,
            ..empty_drive()
        };
        Ok(match spec {
            "/dev/sdc" => spare,
            _ => empty_drive(),
        })
    };
    let line = |named: &[Named]| -> String {
        let report = examine(&machine(&root), named, &look).to_string();
        let mut lines = report.lines().filter(|line| line.contains("sdc: in use"));
        lines.next().unwrap().to_owned()
    };
    const WHY: &str = "in use by Linux md array md127; it is in Linux md's container md127, and so are the drives \
                       that the root file system of this machine lies on";
    assert_eq!(line(&[]), format!("ok       sdc: {WHY}"));
    assert_eq!(
        line(&named(&["/dev/sdc"])),
        format!("problem  /dev/sdc: {WHY}; name other drives: no process can serve this one")
    );
}

#[test]
fn mdadm_is_kept_off_by_its_configuration_the_command_line_or_a_hidden_rule() {
    let automatic = |more: &str| {
        let root = build(&[GOOD_HOST, MD_BOX, more]);
        let drive = imsm("sdx", 1, false);
        let findings = other_programs::check(&Files::below(root.path()), &[drive]);
        let last = findings.last().unwrap().clone();
        assert_eq!(last.about, "mdadm");
        last.level
    };
    assert_eq!(automatic(""), Level::Warning);
    assert_eq!(
        automatic("etc/mdadm/mdadm.conf = AUTO -imsm +all"),
        Level::Ok
    );
    assert_eq!(automatic("etc/mdadm.conf.d/a.conf = AUTO -all"), Level::Ok);
    assert_eq!(automatic("proc/cmdline = quiet noiswmd"), Level::Ok);
    assert_eq!(
        automatic("etc/udev/rules.d/64-md-raid-assembly.rules -> /dev/null"),
        Level::Ok
    );
    assert_eq!(
        automatic("etc/udev/rules.d/10-other.rules -> /dev/null"),
        Level::Warning
    );
}

/// The root's array is md's, and says nothing of those beside it.
#[test]
fn mdadm_is_judged_for_each_array_alone() {
    let below_root = "proc/self/mountinfo = 22 1 9:126 / / rw - ext4 /dev/md126 rw\n\
         sys/devices/md126/slaves/sda/\n\
         sys/devices/md126/slaves/sdb/\n\
         sys/dev/block/9:126 -> ../../devices/md126\n\
         sys/class/block/md126 -> ../../devices/md126";
    let root = ["sda", "sdb"].map(|name| imsm(name, 1, true));
    let data = ["sdc", "sdd"].map(|name| imsm(name, 2, false));
    let lines = |more: &str, drives: &[&[ImsmDrive]]| -> Vec<String> {
        let folder = build(&[GOOD_HOST, MD_BOX, below_root, more]);
        let findings = other_programs::check(&Files::below(folder.path()), &drives.concat());
        let of_mdadm = findings.iter().filter(|one| one.about == "mdadm");
        let lines = of_mdadm.map(ToString::to_string);
        let name = "/usr/lib/udev/rules.d/64-md-raid-assembly.rules";
        lines.map(|line| line.replace(name, "RULE")).collect()
    };
    const OF_ROOT: &str = "ok       mdadm: RULE lets it assemble IMSM arrays, which the root file system of this machine needs \
                           (md127); `fullstripe enable` has it leave another array to fullstripe";
    const BESIDE: &str = "warning  mdadm: RULE lets it assemble the IMSM array of sdc, sdd as soon as its drives appear; \
                          `fullstripe enable` has it leave the array to fullstripe";
    assert_eq!(lines("", &[&root]), [OF_ROOT]);
    assert_eq!(lines("", &[&root, &data]), [OF_ROOT, BESIDE]);
    let left = format!(
        "etc/mdadm.conf = ARRAY <ignore> metadata=imsm UUID={}",
        uuid(2)
    );
    assert_eq!(
        lines(&left, &[&root, &data]),
        [
            "ok       mdadm: its configuration keeps it from the IMSM array of sdc, sdd",
            OF_ROOT
        ]
    );
    // A user who may not look at drives sees md's arrays.
    let both = "proc/mdstat = md125 : inactive sdc[1](S) sdd[0](S)\\n      5034 blocks super external:imsm\\n\\nmd127 : inactive \
                sdb[1](S) sda[0](S)\\n      5034 blocks super external:imsm";
    assert_eq!(lines(both, &[]), [OF_ROOT, BESIDE]);
}

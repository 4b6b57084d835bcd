//! Exports are made and removed in a configfs that is an ordinary folder.

use super::fake::Fake;
use super::names;
use super::target::{Found, Target};
use super::tree::{Calls, System};
use super::{Hosts, Wanted};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001";

struct Rig {
    folder: TempDir,
    fake: Fake,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("config")).unwrap();
        std::fs::write(folder.path().join("ublkb0"), "").unwrap();
        let fake = Fake::new(&folder.path().join("config"));
        Rig { folder, fake }
    }

    fn target(&self) -> Target<'_> {
        let folder = self.folder.path();
        Target::new(&folder.join("config"), &folder.join("notes"), &self.fake)
    }

    fn wanted(&self, volume: u8, address: &str, hosts: &[&str]) -> Wanted {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        Wanted {
            identity: [volume; 16],
            device: self.folder.path().join("ublkb0"),
            address: address.parse().unwrap(),
            hosts: Hosts::chosen(&hosts, hosts.is_empty()).unwrap(),
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("config/nvmet").join(below)
    }

    fn read(&self, below: &str) -> String {
        self.fake.read(&self.path(below)).unwrap()
    }

    /// Every folder, link and note, and the texts of files.
    fn everything(&self) -> Vec<String> {
        fn collect(folder: &Path, found: &mut Vec<String>) {
            for name in System.list(folder).unwrap_or_default() {
                let path = folder.join(name);
                let text = match path.is_file() {
                    true => std::fs::read_to_string(&path).unwrap(),
                    false => String::new(),
                };
                found.push(format!("{} {text}", path.display()));
                if path.is_dir() && !path.is_symlink() {
                    collect(&path, found);
                }
            }
        }
        let mut found = Vec::new();
        collect(self.folder.path(), &mut found);
        found
    }

    fn refused(&self, wanted: &Wanted) -> String {
        format!("{:#}", self.target().make(wanted).unwrap_err())
    }
}

fn nqn(volume: u8) -> String {
    names::nqn(&[volume; 16])
}

#[test]
fn an_export_is_made_found_and_removed() {
    let rig = Rig::new();
    // Somebody has used the folder for notes before, so that it is not what is compared.
    std::fs::create_dir(rig.folder.path().join("notes")).unwrap();
    let before = rig.everything();
    let wanted = rig.wanted(7, "tcp://[::1]", &[HOST]);
    rig.target().make(&wanted).unwrap();
    let subsystem = format!("subsystems/{}", nqn(7));
    for (file, text) in [
        ("attr_allow_any_host", "0"),
        ("attr_serial", "07070707070707070707"),
        ("attr_model", "fullstripe"),
        (
            "namespaces/1/device_uuid",
            "07070707-0707-0707-0707-070707070707",
        ),
        ("namespaces/1/enable", "1"),
    ] {
        assert_eq!(rig.read(&format!("{subsystem}/{file}")), text, "{file}");
    }
    for (file, text) in [
        ("addr_trtype", "tcp"),
        ("addr_adrfam", "ipv6"),
        ("addr_traddr", "::1"),
        ("addr_trsvcid", "4420"),
    ] {
        assert_eq!(rig.read(&format!("ports/1/{file}")), text, "{file}");
    }
    let linked = std::fs::read_link(rig.path(&format!("{subsystem}/allowed_hosts/{HOST}")));
    assert_eq!(linked.unwrap(), rig.path(&format!("hosts/{HOST}")));
    let found = rig.target().find(&nqn(7)).unwrap().unwrap();
    let expected = Found {
        device: wanted.device,
        address: Some(wanted.address),
        hosts: wanted.hosts,
    };
    assert_eq!(found, expected);
    assert!(rig.target().remove(&nqn(7)).unwrap());
    assert_eq!(rig.everything(), before);
    assert!(!rig.target().remove(&nqn(7)).unwrap());
    assert_eq!(rig.target().find(&nqn(7)).unwrap(), None);
}

#[test]
fn volumes_share_a_port_and_hosts_and_the_last_removes_them() {
    let rig = Rig::new();
    for volume in [1, 2] {
        let wanted = rig.wanted(volume, "tcp://10.0.0.5", &[HOST]);
        rig.target().make(&wanted).unwrap();
    }
    rig.target()
        .make(&rig.wanted(3, "tcp://10.0.0.5:4421", &[]))
        .unwrap();
    let ports = || System.list(&rig.path("ports")).unwrap();
    let hosts = || System.list(&rig.path("hosts")).unwrap();
    assert_eq!(ports(), ["1", "2"]);
    assert_eq!(
        rig.read(&format!("subsystems/{}/attr_allow_any_host", nqn(3))),
        "1"
    );
    rig.target().remove(&nqn(1)).unwrap();
    assert_eq!(
        (ports(), hosts()),
        (vec!["1".into(), "2".into()], vec![HOST.to_owned()])
    );
    rig.target().remove(&nqn(2)).unwrap();
    assert_eq!((ports(), hosts()), (vec!["2".to_owned()], vec![]));
    rig.target().remove(&nqn(3)).unwrap();
    assert!(ports().is_empty());
}

#[test]
fn what_others_have_made_stays() {
    let rig = Rig::new();
    let theirs = rig.path("subsystems/nqn.theirs");
    let port = rig.path("ports/1");
    rig.fake.make_folder(&theirs).unwrap();
    rig.fake.make_folder(&port).unwrap();
    rig.fake
        .make_folder(&rig.path(&format!("hosts/{HOST}")))
        .unwrap();
    for (file, text) in [
        ("addr_trtype", "tcp"),
        ("addr_traddr", "0:0::1"),
        ("addr_trsvcid", "4420"),
    ] {
        rig.fake.write(&port.join(file), text).unwrap();
    }
    rig.fake
        .link(&theirs, &port.join("subsystems/nqn.theirs"))
        .unwrap();
    std::fs::create_dir(rig.folder.path().join("notes")).unwrap();
    let before = rig.everything();
    let refused = rig.refused(&rig.wanted(1, "tcp://[::1]", &[HOST]));
    assert_eq!(
        refused,
        "port 1 of the NVMe target has the address tcp://[::1]:4420 already, and fullstripe did not make it; give another address or \
         port number"
    );
    assert_eq!(rig.everything(), before);
    rig.target()
        .make(&rig.wanted(1, "tcp://[::1]:4421", &[HOST]))
        .unwrap();
    // Their port may offer our subsystem, too.
    let ours = rig.path(&format!("subsystems/{}", nqn(1)));
    rig.fake
        .link(&ours, &port.join("subsystems").join(nqn(1)))
        .unwrap();
    rig.target().remove(&nqn(1)).unwrap();
    assert_eq!(rig.everything(), before);
}

#[test]
fn a_subsystem_of_our_name_that_somebody_else_has_made_is_left_alone() {
    let rig = Rig::new();
    let wanted = rig.wanted(1, "tcp://10.0.0.5", &[]);
    rig.target().make(&wanted).unwrap();
    let note = rig
        .folder
        .path()
        .join("notes")
        .join(format!("subsystem.{}", nqn(1)));
    // The number of a folder that is gone by now.
    std::fs::write(&note, "1").unwrap();
    assert_eq!(rig.target().find(&nqn(1)).unwrap(), None);
    let refused = rig.refused(&wanted);
    assert!(
        refused.contains("fullstripe did not make it; whoever did has to remove "),
        "{refused}"
    );
    assert!(!rig.target().remove(&nqn(1)).unwrap());
    assert!(rig.path(&format!("subsystems/{}", nqn(1))).is_dir());
    assert!(!note.exists(), "what is not ours is not noted");
}

#[test]
fn a_leftover_is_replaced() {
    let rig = Rig::new();
    let wanted = rig.wanted(1, "tcp://10.0.0.5", &[]);
    rig.target().make(&wanted).unwrap();
    let namespace = rig.path(&format!("subsystems/{}/namespaces/1", nqn(1)));
    rig.fake.write(&namespace.join("enable"), "0").unwrap();
    let found = rig.target().find(&nqn(1)).unwrap().unwrap();
    assert_eq!(found.address, None, "it is not enabled");
    rig.fake.remove_folder(&namespace).unwrap();
    let found = rig.target().find(&nqn(1)).unwrap().unwrap();
    assert_eq!(found.address, None, "it has no namespace");
    let wanted = rig.wanted(1, "tcp://10.0.0.6", &[HOST]);
    rig.target().make(&wanted).unwrap();
    let found = rig.target().find(&nqn(1)).unwrap().unwrap();
    assert_eq!(
        (found.address, found.hosts),
        (Some(wanted.address), wanted.hosts)
    );
    assert_eq!(System.list(&rig.path("ports")).unwrap(), ["1"]);
}

#[test]
fn what_the_kernel_refuses_leaves_nothing() {
    let rig = Rig::new();
    std::fs::create_dir(rig.folder.path().join("notes")).unwrap();
    let before = rig.everything();
    let wanted = rig.wanted(1, "tcp://10.0.0.5:80", &[HOST]);
    for (errno, words) in [
        (
            Errno::ADDRINUSE,
            "something else listens at tcp://10.0.0.5:80 already; give another port",
        ),
        (
            Errno::ADDRNOTAVAIL,
            "this machine does not have the address 10.0.0.5; `ip address` shows those that it has",
        ),
        (
            Errno::ACCESS,
            "ports below 1024, like that of tcp://10.0.0.5:80, are for root",
        ),
        (Errno::INVAL, "run `modprobe nvmet-tcp` first"),
        (
            Errno::NOMEM,
            "the NVMe target does not listen at tcp://10.0.0.5:80: ",
        ),
    ] {
        rig.fake.listening.set(Some(errno));
        let refused = rig.refused(&wanted);
        assert!(refused.contains(words), "{refused}");
        assert_eq!(rig.everything(), before);
    }
    rig.fake.listening.set(None);
    let gone = Wanted {
        device: "/dev/nothing/there".into(),
        ..wanted.clone()
    };
    let refused = rig.refused(&gone);
    assert!(
        refused.starts_with("the NVMe target does not take /dev/nothing/there: "),
        "{refused}"
    );
    assert_eq!(rig.everything(), before);
    rig.fake.refusal.set(Some(Errno::ACCESS));
    let refused = rig.refused(&wanted);
    assert!(refused.starts_with("no permission to change "), "{refused}");
    assert!(refused.ends_with("/nvmet; run serve as root"), "{refused}");
}

#[test]
fn a_machine_without_the_target_is_told_what_to_load() {
    let rig = Rig::new();
    let wanted = rig.wanted(1, "tcp://10.0.0.5", &[]);
    let refused = |configfs: &Path| {
        let target = Target::new(configfs, rig.folder.path(), &rig.fake);
        assert!(!target.remove(&nqn(1)).unwrap());
        assert_eq!(target.find(&nqn(1)).unwrap(), None);
        format!("{:#}", target.make(&wanted).unwrap_err())
    };
    let empty = rig.folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let not_mounted = refused(&empty);
    assert!(
        not_mounted.starts_with("configfs is not mounted; run `mount -t configfs none "),
        "{not_mounted}"
    );
    let not_loaded =
        "the kernel's NVMe target is not loaded; run `modprobe nvmet-tcp` first".to_owned();
    assert_eq!(refused(&rig.folder.path().join("none")), not_loaded);
    // Something is mounted there, and it has no target.
    assert_eq!(refused(Path::new("/proc")), not_loaded);
}

#[test]
fn two_changes_take_turns() {
    let rig = Rig::new();
    let ports = std::fs::File::open(rig.path("ports")).unwrap();
    rustix::fs::flock(&ports, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            has_ended.store(true, Ordering::Release);
            drop(ports);
        });
        let wanted = rig.wanted(1, "tcp://10.0.0.5", &[]);
        rig.target().make(&wanted).unwrap();
        assert!(has_ended.load(Ordering::Acquire), "it did not wait");
    });
}

#[test]
fn who_may_connect_has_to_be_said() {
    let chosen = |named: &[&str], any| {
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        Hosts::chosen(&named, any).map_err(|error| error.to_string())
    };
    assert_eq!(chosen(&[], true), Ok(Hosts::Any));
    assert_eq!(
        chosen(&["nqn.b", "nqn.a", "nqn.b"], false),
        Ok(Hosts::Named(vec!["nqn.a".to_owned(), "nqn.b".to_owned()]))
    );
    let open = chosen(&[], false).unwrap_err();
    assert!(
        open.contains("--nvmet-host NQN") && open.contains("--insecure"),
        "{open}"
    );
    assert!(chosen(&["nqn.a"], true).unwrap_err().contains("contradict"));
    assert!(
        chosen(&["a"], false)
            .unwrap_err()
            .contains("is no NQN of a host")
    );
}

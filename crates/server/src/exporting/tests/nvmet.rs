//! Volumes are exported by an NVMe target that only notes its orders.

use super::*;
use crate::nvmet::{FoundExport, NvmeTarget, NvmetStatus, Order};
use crate::status::VolumeStatus;

const UUID: [u8; 16] = [7; 16];

/// What the target was ordered, and how it answers.
#[derive(Default)]
struct Told {
    orders: Vec<Order>,
    /// Why it makes nothing.
    refusal: Option<&'static str>,
    /// What an earlier server has left.
    left: Option<FoundExport>,
    /// It removes nothing.
    is_stuck: bool,
}

#[derive(Clone, Default)]
struct Target(Arc<Mutex<Told>>);

impl NvmeTarget for Target {
    fn may_have(&self, _: &[u8; 16]) -> bool {
        self.0.lock().unwrap().left.is_some()
    }

    fn ask(&self, order: &Order) -> Result<Option<FoundExport>> {
        let mut told = self.0.lock().unwrap();
        match (order, told.refusal) {
            (Order::Find(_), _) => return Ok(told.left.clone()),
            (Order::Make(_), Some(why)) => bail!(why),
            (Order::Remove(_), _) if told.is_stuck => bail!("it is stuck"),
            _ => told.orders.push(order.clone()),
        }
        Ok(None)
    }
}

impl Target {
    /// The orders since the last call, by their kind.
    fn orders(&self) -> Vec<&'static str> {
        let orders = std::mem::take(&mut self.0.lock().unwrap().orders);
        let kind = |order: &Order| match order {
            Order::Check(_) => "check",
            Order::Make(_) => "make",
            Order::Remove(UUID) => "remove",
            other => panic!("{other:?}"),
        };
        orders.iter().map(kind).collect()
    }

    fn refuse(&self, why: Option<&'static str>) {
        self.0.lock().unwrap().refusal = why;
    }
}

/// What is said while nobody waits for an answer.
type Said = Arc<Mutex<Vec<String>>>;

struct Rig {
    served: Served,
    exports: Exports,
    target: Target,
    said: Said,
    /// The device.
    node: tempfile::NamedTempFile,
    /// Volumes whose device stays after the end.
    kept: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    /// The volume's device is `attached` already, as one that was taken over.
    fn new(attached: bool) -> Rig {
        let node = tempfile::NamedTempFile::new().unwrap();
        let served = Served::new(Level::Raid1, 2);
        let mut names = Names {
            node: node.path().to_owned(),
            ..Names::default()
        };
        if attached {
            names.attached.push(names.device("v"));
        }
        let kept = names.kept.clone();
        let bind = bind(true, Box::new(move |_| Ok(Box::new(names))));
        let exports = prepared(&served, bind);
        let (target, said) = (Target::default(), Said::default());
        let heard = said.clone();
        let say = move |sentence: &dyn Display| heard.lock().unwrap().push(sentence.to_string());
        exports.all().nvmet = Nvmet::new(Box::new(target.clone()), Arc::new(say));
        Rig {
            served,
            exports,
            target,
            said,
            node,
            kept,
        }
    }

    fn open(self) -> Rig {
        self.exports.open(&self.served.shared, &Deaf).unwrap();
        self
    }

    fn attach(&self, request: &NvmetRequest) -> Result<DeviceStatus> {
        let shared = &self.served.shared;
        let attached = self.exports.attach(shared, "v", None, Some(request));
        attached.map(|(_, device)| device)
    }

    fn volume(&self) -> VolumeStatus {
        self.served.shared.status().volumes[0].clone()
    }

    fn export(&self) -> Option<NvmetStatus> {
        self.volume().device?.nvmet
    }

    fn stop(&self, hands_over: bool) {
        let within = Duration::from_secs(60);
        let stopped = self.exports.stop(&self.served.shared, within, hands_over);
        stopped.unwrap();
    }

    fn look_again(&self) -> Vec<String> {
        self.exports.all().try_exports_again(&self.served.shared);
        std::mem::take(&mut self.said.lock().unwrap())
    }
}

fn request() -> NvmetRequest {
    NvmetRequest {
        address: "tcp://10.0.0.5".to_owned(),
        hosts: vec!["nqn.a".to_owned()],
        any_host: false,
    }
}

fn status() -> NvmetStatus {
    let wanted = request().wanted(UUID, Path::new("")).unwrap();
    NvmetStatus::of(&wanted)
}

#[test]
fn an_export_is_made_with_the_device_and_goes_with_it() {
    let rig = Rig::new(false).open();
    let device = rig.attach(&request()).unwrap();
    assert_eq!(device.nvmet, Some(status()));
    assert_eq!(rig.target.orders(), ["check", "make"]);
    assert_eq!(rig.export(), Some(status()));
    let shown = rig.served.shared.status().exports.clone();
    let line = format!("tcp://10.0.0.5:4420 {}", status().nqn);
    assert_eq!(shown, ["/dev/fullstripe/v".to_owned(), line]);
    assert_eq!(
        refused(rig.attach(&request())),
        "volume v is exported at tcp://10.0.0.5:4420 already"
    );
    assert!(rig.target.orders().is_empty());
    rig.exports.detach(&rig.served.shared, "v").unwrap();
    assert_eq!(rig.target.orders(), ["remove"]);
    assert_eq!(rig.volume().device, None);
}

#[test]
fn an_export_ends_and_its_device_stays() {
    let rig = Rig::new(true).open();
    let end = || rig.exports.end_export(&rig.served.shared, "v");
    assert_eq!(refused(end()), "volume v is not exported by NVMe over TCP");
    rig.attach(&request()).unwrap();
    rig.target.0.lock().unwrap().is_stuck = true;
    assert_eq!(
        refused(end()),
        "volume v is still exported by the kernel's NVMe target: it is stuck"
    );
    assert_eq!(rig.export(), Some(status()));
    rig.target.0.lock().unwrap().is_stuck = false;
    end().unwrap();
    assert_eq!(rig.target.orders(), ["check", "make", "remove"]);
    assert_eq!(rig.export(), None);
    assert!(rig.volume().device.is_some());
    // One that was made although its answer was late is not known.
    rig.target.0.lock().unwrap().left = Some(FoundExport {
        device: rig.node.path().to_owned(),
        status: None,
    });
    end().unwrap();
    assert_eq!(rig.target.orders(), ["remove"]);
    // Another address is possible now.
    rig.attach(&request()).unwrap();
}

#[test]
fn what_cannot_be_exported_is_as_it_was_before() {
    let rig = Rig::new(false).open();
    let nobody = NvmetRequest {
        hosts: Vec::new(),
        ..request()
    };
    let said = refused(rig.attach(&nobody));
    assert!(
        said.starts_with("volume v cannot be exported by NVMe over TCP: whoever can connect"),
        "{said}"
    );
    let by_nbd = rig.exports.attach(
        &rig.served.shared,
        "v",
        Some(DeviceKind::Nbd),
        Some(&request()),
    );
    let said = refused(by_nbd);
    assert!(said.contains("its device has to be one of ublk"), "{said}");
    rig.target.refuse(Some("no such address"));
    let expected = "volume v cannot be exported by NVMe over TCP: no such address";
    assert_eq!(refused(rig.attach(&request())), expected);
    assert_eq!(rig.volume().device, None, "the device was made for it");
    rig.exports
        .attach(&rig.served.shared, "v", None, None)
        .unwrap();
    assert_eq!(refused(rig.attach(&request())), expected);
    assert_eq!(rig.export(), None);
    assert!(rig.volume().device.is_some());
    rig.target.refuse(None);
    rig.attach(&request()).unwrap();
    assert_eq!(rig.export(), Some(status()));
}

#[test]
fn an_export_is_taken_over_with_its_device() {
    let rig = Rig::new(true);
    rig.target.0.lock().unwrap().left = Some(FoundExport {
        device: rig.node.path().to_owned(),
        status: Some(status()),
    });
    let rig = rig.open();
    assert_eq!(rig.export(), Some(status()));
    assert!(rig.target.orders().is_empty());
    // It is as the settings want it.
    let errors = rig.exports.export_all(&rig.served.shared, request());
    assert!(errors.is_empty() && rig.target.orders().is_empty());
    let other = NvmetRequest {
        address: "tcp://10.0.0.6".to_owned(),
        ..request()
    };
    let errors = rig.exports.export_all(&rig.served.shared, other);
    assert!(errors.is_empty());
    assert_eq!(rig.target.orders(), ["remove", "check", "make"]);
    assert_eq!(rig.export().unwrap().address, "tcp://10.0.0.6:4420");
}

#[test]
fn an_export_without_its_device_is_removed() {
    let lost = |status| FoundExport {
        device: "/dev/ublkb9".into(),
        status,
    };
    for (attached, left) in [
        (false, lost(Some(status()))),
        (true, lost(Some(status()))),
        (true, lost(None)),
    ] {
        let rig = Rig::new(attached);
        rig.target.0.lock().unwrap().left = Some(left);
        let rig = rig.open();
        assert_eq!(rig.target.orders(), ["remove"]);
        assert_eq!(rig.export(), None);
        let said = rig.said.lock().unwrap().join("\n");
        assert!(said.contains("is removed: its device is gone"), "{said}");
    }
}

#[test]
fn exports_end_with_the_server() {
    let rig = Rig::new(false).open();
    rig.attach(&request()).unwrap();
    rig.target.orders();
    rig.stop(false);
    assert_eq!(rig.target.orders(), ["remove"]);
    assert!(rig.kept.lock().unwrap().is_empty());
}

#[test]
fn a_device_stays_as_long_as_its_export() {
    for hands_over in [false, true] {
        let rig = Rig::new(false).open();
        rig.attach(&request()).unwrap();
        rig.target.orders();
        rig.target.0.lock().unwrap().is_stuck = true;
        rig.stop(hands_over);
        assert!(rig.target.orders().is_empty());
        assert_eq!(*rig.kept.lock().unwrap(), ["v"]);
        let said = rig.said.lock().unwrap().join("\n");
        assert_eq!(said.contains("it is stuck"), !hands_over, "{said}");
    }
}

#[test]
fn an_export_that_is_not_known_is_removed_with_its_device() {
    let rig = Rig::new(true).open();
    rig.target.0.lock().unwrap().left = Some(FoundExport {
        device: rig.node.path().to_owned(),
        status: Some(status()),
    });
    rig.exports.detach(&rig.served.shared, "v").unwrap();
    assert_eq!(rig.target.orders(), ["remove"]);
}

#[test]
fn what_an_operator_detaches_is_not_exported_again() {
    let rig = Rig::new(true).open();
    let shared = &rig.served.shared;
    rig.target.refuse(Some("no such address"));
    assert_eq!(rig.exports.export_all(shared, request()).len(), 1);
    rig.exports.detach(shared, "v").unwrap();
    rig.exports.attach(shared, "v", None, None).unwrap();
    rig.target.refuse(None);
    rig.target.orders();
    assert!(rig.look_again().is_empty());
    assert!(rig.target.orders().is_empty());
    assert_eq!(rig.export(), None);
}

#[test]
fn what_cannot_be_exported_at_the_start_is_tried_again() {
    let rig = Rig::new(true).open();
    rig.target.refuse(Some("no such address"));
    let errors = rig.exports.export_all(&rig.served.shared, request());
    let why = "volume v cannot be exported by NVMe over TCP: no such address";
    assert_eq!(format!("{:#}", errors[0]), why);
    assert!(rig.look_again().is_empty(), "it was said already");
    rig.target.refuse(Some("not loaded"));
    assert_eq!(
        rig.look_again(),
        ["volume v cannot be exported by NVMe over TCP: not loaded"]
    );
    rig.target.refuse(None);
    assert_eq!(
        rig.look_again(),
        ["the volumes are exported by NVMe over TCP now"]
    );
    assert!(rig.exports.all().device("v").unwrap().nvmet.is_some());
    assert!(rig.look_again().is_empty());
}

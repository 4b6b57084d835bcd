//! Volumes are attached and detached by an export whose devices are only names.

use super::*;
use crate::events::Told;
use crate::hearer::Audience;
use crate::testing::Served;
use exports::export::{Devices, Export, MakeExport, Share};
use metadata::imsm::Level;
use std::fmt::Display;
use std::path::PathBuf;

mod nvmet;

struct Deaf;

impl Hearer for Deaf {
    fn say(&self, _: &dyn Display) {}
    fn event(&self, _: &Told, _: Audience) {}
}

/// Devices that are only names; one of a volume that is `in_use` stays.
#[derive(Default)]
struct Names {
    attached: Vec<Attached>,
    /// The kernel's name of the device.
    node: PathBuf,
    in_use: bool,
    /// A device is left and cannot be taken over.
    is_stuck: bool,
    /// Volumes whose device is to stay.
    kept: Arc<Mutex<Vec<String>>>,
}

impl Names {
    fn device(&self, volume: &str) -> Attached {
        Attached {
            volume: volume.to_owned(),
            path: Path::new("/dev/fullstripe").join(volume),
            node: self.node.clone(),
        }
    }
}

impl Export for Names {
    fn kind(&self) -> &'static str {
        "ublk"
    }
    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn prepare(&mut self, _: &[Offer], _: Share) -> Result<()> {
        Ok(())
    }
    fn ports(&self) -> MakeExportPort {
        unreachable!("no shard asks for a port")
    }
    fn open(&mut self, _: &Messages, _: &[String]) -> Result<()> {
        Ok(())
    }
    fn renew(&mut self, _: &[Offer], _: &Messages) {}
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        (0..messages.shards()).for_each(|_| ended());
    }
    fn devices(&mut self) -> Option<&mut dyn Devices> {
        Some(self)
    }
}

impl Devices for Names {
    fn take_over(&mut self, _: &Offer, _: &Messages) -> Result<()> {
        ensure!(!self.is_stuck, "it is stuck");
        Ok(())
    }
    fn attach(&mut self, offer: &Offer, _: &Messages) -> Result<Attached> {
        self.attached.push(self.device(&offer.name));
        Ok(self.attached[0].clone())
    }
    fn detach(&mut self, _: &str) -> Result<()> {
        ensure!(!self.in_use, "in use");
        self.attached.clear();
        Ok(())
    }
    fn keep(&mut self, volume: &str) {
        self.kept.lock().unwrap().push(volume.to_owned());
    }
    fn attached(&self) -> Vec<Attached> {
        self.attached.clone()
    }
}

fn bind(is_needed: bool, make: MakeExport) -> Bind {
    Bind {
        kind: "ublk",
        is_needed,
        make,
    }
}

fn bound(bind: Bind) -> Result<Exports> {
    let hearer: Arc<dyn Hearer> = Arc::new(Deaf);
    Exports::bind(vec![bind], Path::new("/run/api.sock"), &hearer)
}

/// Exports of the volume `v` of an array.
fn prepared(served: &Served, bind: Bind) -> Exports {
    let exports = bound(bind).unwrap();
    let started = Started {
        volume: VolumeId(0),
        name: "v".to_owned(),
        uuid: Uuid([7; 16]),
    };
    let record = &served.shared.snapshot().record;
    exports.prepare(record, vec![started], 8 << 20).unwrap();
    exports
}

fn names(in_use: bool) -> Bind {
    bind(
        true,
        Box::new(move |_| {
            Ok(Box::new(Names {
                in_use,
                node: "/dev/ublkb7".into(),
                ..Names::default()
            }))
        }),
    )
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

#[test]
fn an_attached_volume_is_in_the_status_until_it_is_detached() {
    let served = Served::new(Level::Raid1, 2);
    let exports = prepared(&served, names(false));
    let shared = &served.shared;
    exports.open(shared, &Deaf).unwrap();
    assert_eq!(shared.status().volumes[0].device, None);

    let (offer, device) = exports.attach(shared, "v", None, None).unwrap();
    assert_eq!(offer.name, "v");
    assert_eq!(
        (device.kind, &*device.path, &*device.node),
        (DeviceKind::Ublk, "/dev/fullstripe/v", "/dev/ublkb7")
    );
    let status = shared.status();
    assert_eq!(status.volumes[0].device.as_ref(), Some(&device));
    assert_eq!(status.exports, ["/dev/fullstripe/v"]);
    assert_eq!(
        refused(exports.attach(shared, "v", Some(DeviceKind::Ublk), None)),
        "volume v is /dev/fullstripe/v already"
    );

    assert_eq!(exports.detach(shared, "v").unwrap(), device);
    let status = shared.status();
    assert_eq!(status.volumes[0].device, None);
    assert!(status.exports.is_empty());
    assert_eq!(
        refused(exports.detach(shared, "v")),
        "volume v is no block device"
    );
}

#[test]
fn all_volumes_are_attached_that_are_not_yet() {
    let served = Served::new(Level::Raid1, 2);
    let exports = prepared(&served, names(false));
    let shared = &served.shared;
    exports.open(shared, &Deaf).unwrap();
    for _ in 0..2 {
        assert!(exports.attach_all(shared, None).is_empty());
        assert!(shared.status().volumes[0].device.is_some());
    }
    exports.detach(shared, "v").unwrap();
    let errors = exports.attach_all(shared, Some(DeviceKind::Nbd));
    let errors: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains("volume v cannot be attached"),
        "{errors:?}"
    );
}

#[test]
fn a_device_in_use_stays() {
    let served = Served::new(Level::Raid1, 2);
    let exports = prepared(&served, names(true));
    exports.open(&served.shared, &Deaf).unwrap();
    exports.attach(&served.shared, "v", None, None).unwrap();
    assert_eq!(refused(exports.detach(&served.shared, "v")), "in use");
    assert!(served.shared.status().volumes[0].device.is_some());
}

#[test]
fn an_order_waits_for_the_start_and_comes_too_late_after_the_end() {
    let served = Served::new(Level::Raid1, 2);
    let exports = prepared(&served, names(false));
    let shared = &served.shared;
    std::thread::scope(|scope| {
        let attached = scope.spawn(|| exports.attach(shared, "v", None, None));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!attached.is_finished(), "it waits for the start");
        exports.open(shared, &Deaf).unwrap();
        attached.join().unwrap().unwrap();
    });
    exports
        .stop(shared, Duration::from_secs(60), false)
        .unwrap();
    assert!(refused(exports.attach(shared, "v", None, None)).contains("is being stopped"));
    assert!(refused(exports.detach(shared, "v")).contains("is being stopped"));
}

#[test]
fn what_cannot_be_made_is_an_error_only_where_it_is_needed() {
    let cannot = || -> MakeExport { Box::new(|_| bail!("no such module")) };
    assert_eq!(
        refused(bound(bind(true, cannot())).map(|_| ())),
        "no such module"
    );
    let served = Served::new(Level::Raid1, 2);
    let exports = prepared(&served, bind(false, cannot()));
    exports.open(&served.shared, &Deaf).unwrap();
    assert_eq!(
        refused(exports.attach(&served.shared, "v", None, None)),
        "volume v cannot be attached: ublk, when this server started: no such module; nbd: this server does not offer it"
    );
    assert_eq!(
        refused(exports.attach(&served.shared, "w", None, None)),
        "volume w is not started"
    );
}

#[test]
fn an_array_whose_left_device_cannot_be_taken_over_lets_nobody_in() {
    let served = Served::new(Level::Raid1, 2);
    let stuck = Names {
        is_stuck: true,
        ..Names::default()
    };
    let exports = prepared(&served, bind(true, Box::new(|_| Ok(Box::new(stuck)))));
    assert_eq!(
        refused(exports.open(&served.shared, &Deaf)),
        "volume v cannot be attached: it is stuck"
    );
    assert!(exports.all().stage == Stage::Closed);
}

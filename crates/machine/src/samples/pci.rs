//! The PCIe tree and the NVMe drives of a sample.

use super::{Line, Out, Reader};

/// Makes the folders of all devices. The folder of each is in that of the line above it with less indentation.
pub fn build(out: &Out, lines: &[Line]) {
    let mut above: Vec<(String, Option<String>)> = Vec::new();
    let mut drives = 0;
    for line in lines {
        if !matches!(line.what, "host" | "port" | "vmd" | "device" | "nvme") {
            continue;
        }
        above.truncate(line.level);
        let (folder, node) = match above.last() {
            Some((folder, node)) => (folder.clone(), node.clone()),
            None => ("/sys/devices".to_owned(), None),
        };
        let node = line.said("node").map(str::to_owned).or(node);
        let name = line.names[0];
        let folder = match line.what {
            "host" => format!("{folder}/pci{name}"),
            _ => format!("{folder}/{name}"),
        };
        if line.what != "host" {
            device(out, line, &folder, node.as_deref());
        }
        if line.what == "nvme" {
            drive(out, line, &folder, node.as_deref(), drives);
            drives += 1;
        }
        above.push((folder, node));
    }
}

fn device(out: &Out, line: &Line, folder: &str, node: Option<&str>) {
    let address = line.names[0];
    let (vendor, device) = line.names[1].split_once(':').expect("vendor:device");
    out.link(&format!("/sys/bus/pci/devices/{address}"), folder);
    out.text(&format!("{folder}/vendor"), format!("0x{vendor}"));
    out.text(&format!("{folder}/device"), format!("0x{device}"));
    let class = match line.what {
        "port" => "0x060400",
        "nvme" => "0x010802",
        "vmd" => "0x010400",
        _ => line.said("class").expect("a device has a class"),
    };
    out.text(&format!("{folder}/class"), class);
    out.text(&format!("{folder}/numa_node"), node.unwrap_or("-1"));
    for (key, file) in [("now", "current"), ("max", "max")] {
        let Some((speed, lanes)) = line.said(key).and_then(|link| link.split_once('x')) else {
            continue;
        };
        let speed = match speed {
            "0" => "Unknown".to_owned(),
            known => format!("{known} GT/s PCIe"),
        };
        out.text(&format!("{folder}/{file}_link_speed"), speed);
        out.text(&format!("{folder}/{file}_link_width"), lanes);
    }
    out.bytes(
        &format!("{folder}/config"),
        &configuration(line, out.reader),
    );
}

/// The configuration space: a device of PCIe 2.0 or later, if it has a link.
fn configuration(line: &Line, reader: Reader) -> Vec<u8> {
    let mut space = vec![0; 256];
    if line.said("now").is_some() {
        let payload = line.number("payload").unwrap_or(256);
        let retimers = line.number("retimers").unwrap_or(0);
        space[0x34] = 0x40;
        space[0x40..0x44].copy_from_slice(&[0x10, 0, 2, 0]);
        space[0x48] = (payload / 128).ilog2() as u8 * 0x20;
        space[0x72] = [0, 0x40, 0xc0][retimers as usize];
    }
    if reader == Reader::User {
        space.truncate(64);
    }
    space
}

fn drive(out: &Out, line: &Line, pci: &str, node: Option<&str>, number: usize) {
    let folder = format!("{pci}/nvme/nvme{number}");
    let block = format!("{folder}/nvme{number}n1");
    out.text(
        &format!("{folder}/model"),
        line.said("model").expect("a drive has a model"),
    );
    out.text(&format!("{folder}/serial"), format!("SERIAL{number:04}"));
    out.text(&format!("{folder}/firmware_rev"), "1");
    out.text(&format!("{folder}/transport"), "pcie");
    out.text(&format!("{folder}/state"), "live");
    out.text(&format!("{folder}/numa_node"), node.unwrap_or("-1"));
    if let Some(queues) = line.number("queues") {
        out.text(&format!("{folder}/queue_count"), queues);
    }
    out.link(&format!("{folder}/device"), pci);
    out.link(&format!("/sys/class/nvme/nvme{number}"), &folder);
    let gb = line.number("gb").expect("a drive has a size");
    out.text(&format!("{block}/size"), gb * 1_000_000_000 / 512);
    out.link(&format!("/sys/class/block/nvme{number}n1"), &block);
}

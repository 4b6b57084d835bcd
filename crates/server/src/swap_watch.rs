//! Says when swap, or the image of hibernation, lies on a block device of this process.
//!
//! The kernel gets memory by writing to swap. If this process serves the swap, the kernel may wait for this process while this
//! process waits for memory, and then the machine stands still. Nothing can keep the kernel from using a device so; the operator
//! can, and is told once for each swap and volume.

use super::event_kinds::Kind;
use super::events::Told;
use super::exporting::Exports;
use super::remembering::Tell;
use super::runtime::Shared;
use anyhow::Result;
use drives::layers::{Layer, Layers};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Swap is added by hand or at boot, so this is soon enough.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Starts to watch.
///
/// # Errors
/// The system starts no more threads.
pub fn start(exports: Exports, shared: Arc<Shared>, tell: Tell) -> Result<()> {
    let thread = std::thread::Builder::new().name("swap-watch".to_owned());
    thread.spawn(move || {
        let layers = Layers::below("/");
        let mut told = BTreeSet::new();
        while !shared.has_quit() {
            let on_top: Vec<Layer> = layers.swaps().into_iter().chain(layers.image()).collect();
            let found = match on_top.is_empty() {
                true => BTreeSet::new(),
                false => sentences(&exports.nodes(), &on_top),
            };
            for sentence in found.difference(&told) {
                tell(Told::of_process(Kind::SwapOnArray, sentence.clone(), true));
            }
            told = found;
            std::thread::sleep(LOOK_EVERY);
        }
    })?;
    Ok(())
}

/// A sentence for each of these layers that lies on one of the devices. `nodes` has the name of each volume and its device.
fn sentences(nodes: &[(String, String)], layers: &[Layer]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (volume, node) in nodes {
        let name = Path::new(node)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let above = layers.iter().filter(|layer| layer.devices.contains(&*name));
        found.extend(above.map(|layer| {
            format!(
                "{} lies on volume {volume} ({node}): the machine may stand still when memory runs out, or lose what it wrote when it \
                 hibernates; {}",
                layer.what, layer.release
            )
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_above_a_device_of_this_process_is_told() {
        let layer = |what: &str, devices: &[&str]| Layer {
            what: what.to_owned(),
            release: "swapoff it".to_owned(),
            devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        };
        let nodes = [("vol0".to_owned(), "/dev/ublkb0".to_owned())];
        let layers = [
            layer("swap on /dev/dm-0", &["dm-0", "ublkb0"]),
            layer("swap on /dev/sda2", &["sda2", "sda"]),
        ];
        let found: Vec<String> = sentences(&nodes, &layers).into_iter().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("swap on /dev/dm-0 lies on volume vol0 (/dev/ublkb0): "));
        assert!(found[0].ends_with("; swapoff it"));
        assert!(sentences(&[], &layers).is_empty());
    }
}

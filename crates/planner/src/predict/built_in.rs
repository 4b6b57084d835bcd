//! The files that come with the program: platforms, hosts, RAID software and exports.

use lab::schema::document::read;
use models::platform::Machine;

/// Platforms, by file.
pub(super) const PLATFORMS: [(&str, &str); 13] = [
    (
        "profiles/platforms/oakgate.toml",
        include_str!("../../../../profiles/platforms/oakgate.toml"),
    ),
    (
        "profiles/platforms/s2600wft-6154-x16.toml",
        include_str!("../../../../profiles/platforms/s2600wft-6154-x16.toml"),
    ),
    (
        "profiles/platforms/s2600wft-6154-x8.toml",
        include_str!("../../../../profiles/platforms/s2600wft-6154-x8.toml"),
    ),
    (
        "profiles/platforms/s2600wft-8170.toml",
        include_str!("../../../../profiles/platforms/s2600wft-8170.toml"),
    ),
    (
        "profiles/platforms/s2600wft-6154-optane.toml",
        include_str!("../../../../profiles/platforms/s2600wft-6154-optane.toml"),
    ),
    (
        "profiles/platforms/x299-7960x.toml",
        include_str!("../../../../profiles/platforms/x299-7960x.toml"),
    ),
    (
        "profiles/platforms/z270-7700k-pch.toml",
        include_str!("../../../../profiles/platforms/z270-7700k-pch.toml"),
    ),
    (
        "profiles/platforms/z270-7700k-cpu.toml",
        include_str!("../../../../profiles/platforms/z270-7700k-cpu.toml"),
    ),
    (
        "profiles/platforms/epyc-9554p-24.toml",
        include_str!("../../../../profiles/platforms/epyc-9554p-24.toml"),
    ),
    (
        "profiles/platforms/sys221h-8592-24.toml",
        include_str!("../../../../profiles/platforms/sys221h-8592-24.toml"),
    ),
    (
        "profiles/platforms/r7725xd-9575f-24.toml",
        include_str!("../../../../profiles/platforms/r7725xd-9575f-24.toml"),
    ),
    (
        "profiles/platforms/wrx90-7965wx-4.toml",
        include_str!("../../../../profiles/platforms/wrx90-7965wx-4.toml"),
    ),
    (
        "profiles/platforms/z790-14900k-5.toml",
        include_str!("../../../../profiles/platforms/z790-14900k-5.toml"),
    ),
];

/// Hosts, by file.
pub(super) const HOSTS: [(&str, &str); 5] = [
    (
        "profiles/hosts/appliance.toml",
        include_str!("../../../../profiles/hosts/appliance.toml"),
    ),
    (
        "profiles/hosts/linux-3.10-kpti.toml",
        include_str!("../../../../profiles/hosts/linux-3.10-kpti.toml"),
    ),
    (
        "profiles/hosts/linux-4.13.toml",
        include_str!("../../../../profiles/hosts/linux-4.13.toml"),
    ),
    (
        "profiles/hosts/linux-6.12.toml",
        include_str!("../../../../profiles/hosts/linux-6.12.toml"),
    ),
    (
        "profiles/hosts/windows-2017.toml",
        include_str!("../../../../profiles/hosts/windows-2017.toml"),
    ),
];

/// What Linux md does and costs.
pub(super) const MD_2018: (&str, &str) = (
    "profiles/stacks/md-2018.toml",
    include_str!("../../../../profiles/stacks/md-2018.toml"),
);

/// RAID drivers of Windows.
pub(super) const RAID_DRIVERS: [(&str, &str); 2] = [
    (
        "profiles/stacks/vroc-windows-2017.toml",
        include_str!("../../../../profiles/stacks/vroc-windows-2017.toml"),
    ),
    (
        "profiles/stacks/rst-z270.toml",
        include_str!("../../../../profiles/stacks/rst-z270.toml"),
    ),
];

/// Exports.
pub(super) const NBD: (&str, &str) = (
    "profiles/exports/nbd.toml",
    include_str!("../../../../profiles/exports/nbd.toml"),
);
pub(super) const UBLK: (&str, &str) = (
    "profiles/exports/ublk.toml",
    include_str!("../../../../profiles/exports/ublk.toml"),
);

/// The platforms that come with the program.
#[must_use]
pub fn machines() -> Vec<Machine> {
    let read_one =
        |(file, text): &(&str, &str)| read(file, text).expect("a test reads every platform");
    PLATFORMS.iter().map(read_one).collect()
}

//! The rules between the numbers of a drive: what no drive can have together.

use super::check::{Profile, RATED_BYTES, whole};
use super::{Family, Member};
use crate::port::raw_bytes_per_s;
use crate::tables::FigureError;
use alloc::format;
use alloc::string::{String, ToString};

/// Above this, the two ratings of writes cannot belong to one drive.
const AMPLIFICATION_MAX_PER_MILLE: u64 = 100_000;
/// Largest map unit: above any of a drive that is known (64 KiB).
const MAP_UNIT_MAX_BYTES: u64 = 1 << 20;
/// Most of the medium's time that a refresh may take, and for how long.
const REFRESH_MAX_PER_MILLE: u64 = 900;
const REFRESH_MAX_PER_MILLE_HOURS: u64 = 1_000_000;
/// The drain keeps amounts in 64 bits, 20 of them binary places.
const POOL_MAX_BYTES: u64 = 1_000_000_000_000;
/// The same limit leaves room for this together with the pool.
const BURST_MAX_BYTES: u64 = 10_000_000_000_000;

/// Checks the numbers of a drive of this family together.
///
/// # Errors
/// The first rule that they break.
///
/// # Panics
/// The drive is of another family.
pub(super) fn check(family: &Family, profile: &Profile) -> Result<(), FigureError> {
    let mut members = family.members.iter();
    let member = members.find(|member| member.id == profile.id);
    let member = member.expect("the profile was made from a member of the family");
    let found = link_rule(family, member)
        .or_else(|| latency_rule(profile))
        .or_else(|| map_rule(profile))
        .or_else(|| burst_rule(profile))
        .or_else(|| refresh_rule(profile))
        .or_else(|| flash_rule(member, profile));
    match found {
        None => Ok(()),
        Some((key, rule)) => Err(FigureError {
            name: member.id.clone(),
            key: key.to_string(),
            rule,
        }),
    }
}

/// The key of a broken rule, and the rule.
type Broken = Option<(&'static str, String)>;

fn link_rule(family: &Family, member: &Member) -> Broken {
    let ratings = &member.ratings;
    let (lanes, generation) = (family.link.lanes.value, family.link.generation.value);
    if !(3.0..=6.0).contains(&generation) || lanes > 64.0 {
        let rule = "has to have at most 64 lanes, of generation 3 to 6";
        return Some(("link", rule.to_string()));
    }
    let link_mb_s = raw_bytes_per_s(lanes as u64, generation as u64) / 1_000_000;
    for (key, mb_s) in [
        ("ratings.read_kiops", ratings.read_kiops.value * 4.096),
        ("ratings.read_mb_s", ratings.read_mb_s.value),
        ("ratings.write_mb_s", ratings.write_mb_s.value),
        ("ratings.burst_write_mb_s", ratings.burst_write_mb_s.value),
    ] {
        if mb_s > link_mb_s as f64 {
            let asked = whole(mb_s, 1.0);
            let rule = format!("needs {asked} MB/s, but the link has {link_mb_s} MB/s");
            return Some((key, rule));
        }
    }
    None
}

/// A medium that refreshes itself still serves its host.
fn refresh_rule(profile: &Profile) -> Broken {
    let (hours, share) = (profile.refresh_per_mille_hours, profile.refresh_per_mille);
    if share > REFRESH_MAX_PER_MILLE {
        let rule = "has to be at most 0.9: the host is served meanwhile";
        return Some(("media.refresh_share", rule.to_string()));
    }
    if hours > REFRESH_MAX_PER_MILLE_HOURS {
        let rule = "has to be at most 1000 hours";
        return Some(("media.refresh_hours", rule.to_string()));
    }
    if share > 0 && !profile.is_in_place() {
        let rule = "goes with buffer_kib = 0 only: the refresh of a medium behind a buffer is not modelled";
        return Some(("media.refresh_share", rule.to_string()));
    }
    let rule = "and refresh_share go together: both are 0, or none";
    ((hours == 0) != (share == 0)).then(|| ("media.refresh_hours", rule.to_string()))
}

fn latency_rule(profile: &Profile) -> Broken {
    for (key, whole_ns, staged_ns) in [
        (
            "latency.read_us",
            profile.read_latency_ns,
            profile.staged_read_ns(),
        ),
        (
            "latency.write_us",
            profile.write_latency_ns,
            profile.staged_write_ns(),
        ),
    ] {
        if whole_ns < staged_ns {
            let floor_us = staged_ns.div_ceil(1000);
            let rule = format!("is below its floor: the stages alone take {floor_us} us");
            return Some((key, rule));
        }
    }
    None
}

fn map_rule(profile: &Profile) -> Broken {
    let map_unit_bytes = profile.map_unit_bytes;
    let (key, rule) = if !(RATED_BYTES..=MAP_UNIT_MAX_BYTES).contains(&map_unit_bytes)
        || !map_unit_bytes.is_power_of_two()
    {
        (
            "media.map_unit_kib",
            "has to be a power of two from 4 to 1024",
        )
    } else if profile.is_in_place() && map_unit_bytes != RATED_BYTES {
        (
            "media.map_unit_kib",
            "has to be 4 without a buffer (controller.buffer_kib), when map units are programmed in place",
        )
    } else if !profile.stripe_bytes.is_multiple_of(map_unit_bytes) {
        (
            "media.stripe_kib",
            "has to be a multiple of media.map_unit_kib",
        )
    } else if !(1000..=100_000).contains(&profile.partial_write_per_mille) {
        ("media.partial_write_factor", "has to be from 1 to 100")
    } else {
        return None;
    };
    Some((key, rule.to_string()))
}

fn burst_rule(profile: &Profile) -> Broken {
    let (bytes, bytes_per_s) = (profile.burst_bytes, profile.burst_bytes_per_s);
    let (key, rule) = if (bytes == 0) != (bytes_per_s == 0) {
        (
            "ratings.burst_gb",
            "and ratings.burst_write_mb_s have to be 0 both, or neither",
        )
    } else if bytes == 0 {
        return None;
    } else if profile.is_in_place() {
        (
            "ratings.burst_gb",
            "has to be 0 without a buffer (controller.buffer_kib): the medium has no faster mode",
        )
    } else if bytes > profile.capacity_bytes {
        ("ratings.burst_gb", "has to be at most the capacity")
    } else if bytes > BURST_MAX_BYTES {
        ("ratings.burst_gb", "has to be at most 10000")
    } else if bytes_per_s < profile.program_bytes_per_s {
        ("ratings.burst_write_mb_s", "is below ratings.write_mb_s")
    } else {
        return None;
    };
    Some((key, rule.to_string()))
}

fn flash_rule(member: &Member, profile: &Profile) -> Broken {
    let ratings = &member.ratings;
    let per_program = profile.episode_bytes() as f64 * 1e9 / profile.program_ns as f64;
    // Half a percent is allowed, because figures are rounded.
    let (key, rule) = if profile.amplification_per_mille < 1000 {
        (
            "ratings.steady_write_kiops",
            "times media.map_unit_kib is more than ratings.write_mb_s",
        )
    } else if profile.program_bytes_per_s as f64 > per_program * 1.005 {
        (
            "ratings.write_mb_s",
            "is more than all units can program (media.program_kib)",
        )
    } else if profile.is_in_place() && profile.program_bytes != RATED_BYTES {
        (
            "media.program_kib",
            "has to be 4 without a buffer (controller.buffer_kib), when map units are programmed in place",
        )
    } else if ratings.capacity_gb.value < 1.0 {
        ("ratings.capacity_gb", "has to be at least 1")
    } else if ratings.units.value > 65_536.0 {
        ("ratings.units", "has to be at most 65536")
    } else if profile.command_ns == 0 {
        (
            "controller.sector_ns",
            "times 8 is more than ratings.read_kiops leave for a command",
        )
    } else if !profile.is_in_place() && profile.command_max_bytes > profile.buffer_bytes {
        (
            "controller.buffer_kib",
            "has to hold the largest command (limits.command_max_kib), or be 0 for writes that are done when the medium has them",
        )
    } else if profile.amplification_per_mille > AMPLIFICATION_MAX_PER_MILLE {
        (
            "ratings.steady_write_kiops",
            "times media.map_unit_kib is less than a hundredth of ratings.write_mb_s",
        )
    } else if profile.pool_bytes > profile.capacity_bytes.min(POOL_MAX_BYTES) {
        ("ratings.pool_mb", "has to be at most the capacity and 1 TB")
    } else if profile.pool_bytes < profile.episode_bytes() {
        ("ratings.pool_mb", "has to hold one program on every unit")
    } else if ratings.active_w.value < ratings.idle_w.value {
        ("ratings.active_w", "is below ratings.idle_w")
    } else {
        return None;
    };
    Some((key, rule.to_string()))
}

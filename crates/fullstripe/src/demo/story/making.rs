//! From empty files to an array under load.

use super::super::fio::Job;
use super::super::mdadm::{self, Reading};
use super::super::place::{Place, make_file};
use super::super::screen::grouped;
use super::super::server::{SHORTLY, Server, rates, volume};
use super::{Story, mib};
use anyhow::{Context, Result};
use serde_json::Value;

/// Members at first, in the order of their slots.
const MEMBERS: &str = "d0 d1 d2 d3";

impl Story<'_> {
    pub(super) fn make_drives(&mut self, place: &Place) -> Result<()> {
        self.step("Four drives and a spare");
        let size = self.sizes.member_bytes;
        self.show(
            &format!("truncate -s {}m {MEMBERS} d4", size >> 20),
            "any block device would do; here files",
        );
        for name in ["d0", "d1", "d2", "d3", "d4"] {
            make_file(&self.programs.folder.join(name), size)?;
        }
        let where_to = if place.in_memory {
            "in memory"
        } else {
            "on disk"
        };
        self.result(&format!("five empty files of {} {where_to}", mib(size)));
        Ok(())
    }

    pub(super) fn create(&mut self) -> Result<()> {
        self.step("An array of them");
        let line = format!("fullstripe create vol0 --level 5 --chunk 64k {MEMBERS}");
        self.show(&line, "");
        let ended = self.run("create", &format!("{line} --json"))?;
        let created: Value = serde_json::from_str(&ended.stdout)
            .with_context(|| format!("the answer is no JSON\n{}", ended.evidence()))?;
        let size_bytes = created["size_bytes"].as_u64().unwrap_or(0);
        let most = 3 * self.sizes.member_bytes;
        self.claim(
            "three drives' worth is usable",
            size_bytes > most - most / 10 && size_bytes < most,
            || ended.evidence(),
        )?;
        self.claim(
            "parity is valid from birth",
            created["in_sync"] == true,
            || ended.evidence(),
        )?;
        self.result(&format!(
            "RAID 5, {} usable, parity valid from birth",
            mib(size_bytes)
        ));
        Ok(())
    }

    pub(super) fn let_mdadm_read(&mut self) -> Result<()> {
        self.step("Metadata that Linux's own RAID tool reads");
        self.show("fullstripe examine d0", "");
        let ended = self.run("examine", "fullstripe examine d0 --json")?;
        let ours: Value = serde_json::from_str(&ended.stdout)
            .with_context(|| format!("the answer is no JSON\n{}", ended.evidence()))?;
        let record = &ours["drives"][0]["record"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let container = text(&record["container_uuid"]);
        let own = text(&record["volumes"][0]["uuid"]);
        let whole = record["volumes"][0]["dirty"] == false && !own.is_empty();
        self.claim("a record is found, and it is clean", whole, || {
            ended.evidence()
        })?;
        self.result(&format!("IMSM metadata; volume {own}"));
        let read = match mdadm::examine(&self.programs, "d0")? {
            Reading::Done(read) => read,
            Reading::Skipped(why) => {
                self.screen.note(&format!("mdadm is left out: {why}"));
                return Ok(());
            }
        };
        let device = read.line.rsplit(' ').next().unwrap_or_default();
        self.screen.command(
            &format!("mdadm --examine {device}"),
            "the same file, as a read-only loop device",
        );
        let values = |key| mdadm::values(&read.stdout, key);
        for (claim, held) in [
            (
                "mdadm knows the format",
                values("Magic")
                    .first()
                    .is_some_and(|magic| magic.starts_with("Intel Raid ISM")),
            ),
            (
                "mdadm finds the checksum correct",
                values("Checksum")
                    .first()
                    .is_some_and(|sum| sum.ends_with(" correct")),
            ),
            ("mdadm reads both UUIDs", values("UUID") == [container, own]),
            (
                "mdadm reads the volume's name",
                read.stdout.contains("[vol0]:"),
            ),
            (
                "mdadm reads the level",
                values("RAID Level")
                    .first()
                    .is_some_and(|level| level.starts_with('5')),
            ),
            (
                "mdadm reads the number of members",
                values("Members")
                    .first()
                    .is_some_and(|count| count.starts_with('4')),
            ),
        ] {
            self.claim(claim, held, || read.evidence())?;
        }
        self.result(
            "mdadm reads the same: vol0, RAID 5 of 4 members, both UUIDs, checksum correct",
        );
        Ok(())
    }

    pub(super) fn serve(&mut self) -> Result<()> {
        self.step("A block device for everyone");
        let rate = self.sizes.rate_bytes_per_s >> 20;
        let line = format!("fullstripe serve {MEMBERS} --nbd unix:nbd.sock --rate {rate}m");
        self.show(&format!("{line} &"), "");
        self.server = Some(Server::start(&self.programs, "serve-1", &line)?);
        let status = self.server()?.status()?;
        let vol0 = volume(&status)?.clone();
        self.claim("the volume is optimal", vol0.state == "optimal", || {
            format!("its state is {}", vol0.state)
        })?;
        self.result("vol0 is served over NBD, and optimal");
        let uri = "nbd+unix:///vol0?socket=nbd.sock";
        if super::super::programs::find("nbdinfo").is_some() {
            self.show(&format!("nbdinfo --size {uri}"), "");
            let words = ["nbdinfo", "--size", uri];
            let ended = self.programs.run("nbdinfo", &words, SHORTLY)?;
            let size: u64 = ended.stdout.trim().parse().unwrap_or(0);
            let same = ended.status.success() && size == vol0.size_bytes;
            self.claim("a foreign client sees the volume's size", same, || {
                ended.evidence()
            })?;
            self.result(&format!("{} bytes", grouped(size)));
        }
        let sizes = self.sizes;
        for (job, region) in [
            (Job::Fill, sizes.fill),
            (Job::FillCheck, sizes.fill),
            (Job::Load, sizes.load),
            (Job::Crash, sizes.crash),
            (Job::CrashCheck, sizes.crash),
        ] {
            job.write(&self.programs, region, uri)?;
        }
        Ok(())
    }

    pub(super) fn fill(&mut self) -> Result<()> {
        self.step("Data, every block with a checksum");
        let length = self.sizes.fill.length_bytes;
        self.show(
            &Job::Fill.line(),
            "over NBD, random, 4k to 256k, verify=crc32c, iodepth=16",
        );
        let report = self.run_fio(Job::Fill, 2 * length)?;
        let whole = report.write.io_bytes == length && report.read.io_bytes == length;
        self.claim("everything was written and read back", whole, || {
            format!("{report:?}")
        })?;
        self.result(&format!(
            "{} written, {}; read back, {}: right",
            mib(length),
            rates(report.write.iops, report.write.bytes_per_s),
            rates(report.read.iops, report.read.bytes_per_s),
        ));
        Ok(())
    }
}

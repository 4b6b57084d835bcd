//! The text that people see: panels, changes and messages; [`commands`] runs every command.

mod commands;

use super::ClientCommand;
use super::changes::{changes, reached_lines};
use super::orders::{absolute, parse_rate};
use super::panel::{member_state, panel};
use crate::terminal::Paper;
use clap::Subcommand;
use server::commands::TO_SERVER;
use server::health::{Health, health};
use server::status::{Status, VolumeStatus};
use server::testing::samples::{job, member, slot, volume};

/// The server adds its socket to these commands in what it says.
#[test]
fn the_commands_for_a_server_are_known_and_take_a_socket() {
    let all = ClientCommand::augment_subcommands(clap::Command::new("fullstripe"));
    let mut names: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
    names.sort_unstable();
    assert_eq!(names, TO_SERVER);
    for command in all.get_subcommands() {
        let mut options = command.get_arguments().filter_map(clap::Arg::get_long);
        assert!(options.any(|one| one == "socket"), "{}", command.get_name());
    }
}

#[test]
fn a_drive_without_a_file_is_not_just_active() {
    let mut drive = member(0, "active");
    assert_eq!(member_state(&drive, Paper::PLAIN), "active");
    (drive.deleted, drive.bad_block_bytes) = (true, 4096);
    insta::assert_snapshot!(member_state(&drive, Paper::PLAIN), @"active, its file is deleted and gone when serve ends, 4 KiB of bad blocks");
}

fn rebuilding() -> Status {
    let slots = vec![
        slot(Some(0), "in sync"),
        slot(None, "missing"),
        slot(Some(3), "rebuilding"),
    ];
    let volume = VolumeStatus {
        state: "degraded".to_owned(),
        dirty: true,
        job: Some(job("rebuild")),
        ..volume("data", slots)
    };
    let mut status = Status {
        version: 1,
        health: Health::default(),
        container_uuid: "aaaaaaaa:bbbbbbbb:cccccccc:dddddddd".to_owned(),
        generation: 12,
        members: vec![
            member(0, "active"),
            member(1, "removed"),
            member(3, "active"),
            member(4, "spare"),
        ],
        volumes: vec![volume],
        exports: vec!["nbd+unix:///data?socket=/run/fullstripe/nbd.sock".to_owned()],
        rate_bytes_per_s: 256 << 20,
        remembered_rate_bytes_per_s: None,
        shards: 2,
        completion: "interrupt".to_owned(),
        ring: "io_uring with deferred completions".to_owned(),
        pid: 4242,
        counters: [("reads".to_owned(), 7)].into(),
    };
    status.health = health(&status);
    status
}

#[test]
fn a_panel_shows_volumes_drives_and_work() {
    insta::assert_snapshot!(panel(&rebuilding(), Paper::PLAIN), @r"
    data is degraded: slot 1 has no drive, and one slot more is not in sync; its rebuild is at 33 %

    data: RAID 5 of 3, 6 GiB, chunk 64 KiB, degraded, in use
      slot 0  /dev/nvme0n1  in sync
      slot 1  -             missing
      slot 2  /dev/nvme3n1  rebuilding
      rebuild [##########--------------------] 33.3 %, 210 MiB/s, 3m 20s left, 2 stripes could not be processed

    DRIVE         SERIAL   SIZE     PLACE   STATE
    /dev/nvme0n1  SERIAL0  1.8 TiB  data:0  active
    /dev/nvme3n1  SERIAL3  1.8 TiB  data:2  active
    /dev/nvme4n1  SERIAL4  1.8 TiB  -       spare

    nbd+unix:///data?socket=/run/fullstripe/nbd.sock
    container aaaaaaaa:bbbbbbbb:cccccccc:dddddddd, update 12, process 4242, data threads 2 (completion interrupt), background work limited to 256 MiB/s
    ");
}

#[test]
fn a_panel_fits_a_terminal_of_80_columns() {
    let mut status = rebuilding();
    status.members[0].name = "/dev/disk/by-id/nvme-INTEL_SSDPE2KX020T8_PHLJ9115".to_owned();
    status.members[2].name = "/dev/disk/by-id/nvme-INTEL_SSDPE2KX020T8_PHLJ9117".to_owned();
    status.members[3].state = "failed".to_owned();
    status.members[3].cause = Some("it did not answer for 30 s".to_owned());
    let paper = |colours| Paper {
        colours,
        columns: Some(80),
    };
    let text = panel(&status, paper(false));
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    insta::assert_snapshot!(text, @r"
    data is degraded: slot 1 has no drive, and one slot more is not in sync; its
    rebuild is at 33 %

    data: RAID 5 of 3, 6 GiB, chunk 64 KiB, degraded, in use
      slot 0  /dev/disk/by-id/nvme-INTEL_SSDPE2KX020T8_PHLJ9115  in sync
      slot 1  -                                                  missing
      slot 2  /dev/disk/by-id/nvme-INTEL_SSDPE2KX020T8_PHLJ9117  rebuilding
      rebuild [##########--------------------] 33.3 %, 210 MiB/s, 3m 20s left,
        2 stripes could not be processed

    DRIVE                         SERIAL   SIZE     PLACE   STATE
    /dev/disk…E2KX020T8_PHLJ9115  SERIAL0  1.8 TiB  data:0  active
    /dev/disk…E2KX020T8_PHLJ9117  SERIAL3  1.8 TiB  data:2  active
    /dev/nvme4n1                  SERIAL4  1.8 TiB  -       failed: it did not
                                                            answer for 30 s

    nbd+unix:///data?socket=/run/fullstripe/nbd.sock
    container aaaaaaaa:bbbbbbbb:cccccccc:dddddddd, update 12, process 4242, data
      threads 2 (completion interrupt), background work limited to 256 MiB/s
    ");
    let coloured = panel(&status, paper(true));
    for painted in ["\x1b[33mdegraded", "\x1b[32mactive", "\x1b[33mrebuilding"] {
        assert!(coloured.contains(painted), "{painted:?}: {coloured:?}");
    }
    assert_eq!(console::strip_ansi_codes(&coloured), text);
}

#[test]
fn a_panel_says_why_writes_are_stopped() {
    let mut status = rebuilding();
    let volume = &mut status.volumes[0];
    volume.state = "writes stopped".to_owned();
    volume.cause = Some("the metadata cannot express that a member has failed: why".to_owned());
    let text = panel(&status, Paper::PLAIN);
    assert!(
        text.contains("writes stopped, in use\n  cause: the metadata cannot"),
        "{text}"
    );
    // The cause is shown only once.
    status.health = health(&status);
    let text = panel(&status, Paper::PLAIN);
    assert!(
        text.starts_with("data refuses writes: the metadata cannot express"),
        "{text}"
    );
    assert!(!text.contains("cause:"), "{text}");
}

#[test]
fn a_replacement_names_its_slot_and_its_drive() {
    let mut status = rebuilding();
    let job = status.volumes[0].job.as_mut().unwrap();
    (job.kind, job.slot, job.member) = ("replace".to_owned(), Some(0), Some(4));
    let text = panel(&status, Paper::PLAIN);
    assert!(
        text.contains("  replace of slot 0 onto /dev/nvme4n1 [###"),
        "{text}"
    );
}

#[test]
fn changes_are_told_once_and_progress_when_asked_for() {
    let before = rebuilding();
    assert_eq!(changes(None, &before).len(), 9);
    let mut now = before.clone();
    let job = now.volumes[0].job.as_mut().unwrap();
    job.done_bytes += 1 << 20;
    now.counters.insert("reads".to_owned(), 8);
    assert_eq!(changes(Some(&before), &now), Vec::<String>::new());
    now.volumes[0].job.as_mut().unwrap().paused = true;
    let paused = ["volume data rebuild: paused"];
    assert_eq!(changes(Some(&before), &now), paused);
    insta::assert_snapshot!(reached_lines(&before).join("\n"), @"volume data rebuild: 33.3 %, 210 MiB/s, 3m 20s left, 2 stripes could not be processed");
    now.volumes[0].job = None;
    now.volumes[0].slots[2].state = "in sync".to_owned();
    let ended = ["volume data rebuild: ended", "volume data slot 2: in sync"];
    assert_eq!(changes(Some(&before), &now), ended);
}

#[test]
fn rates_and_paths() {
    assert_eq!(parse_rate("200m"), Ok(200 << 20));
    assert_eq!(parse_rate("1g/s"), Ok(1 << 30));
    assert_eq!(parse_rate("unlimited"), Ok(0));
    assert_eq!(parse_rate("0"), Ok(0));
    assert!(parse_rate("fast").unwrap_err().contains("is no rate"));
    let here = std::env::current_dir().unwrap();
    let wanted = format!("{}/d0.img,serial=A", here.display());
    assert_eq!(absolute("d0.img,serial=A").unwrap(), wanted);
    assert_eq!(absolute("/d0.img").unwrap(), "/d0.img");
    assert_eq!(absolute("ram:1m").unwrap(), "ram:1m");
    let modelled = "ram:1m,model=p4510-2tb,state=fresh";
    assert_eq!(absolute(modelled).unwrap(), modelled);
    let here = std::env::current_dir().unwrap().display().to_string();
    assert_eq!(
        absolute("ram:1m,model=my.toml#a,serial=A").unwrap(),
        format!("ram:1m,model={here}/my.toml#a,serial=A")
    );
    assert!(
        absolute("d0,colour=red")
            .unwrap_err()
            .to_string()
            .contains("unknown key \"colour\"")
    );
}

#[test]
fn the_only_volume_needs_no_name() {
    let mut status = Status {
        volumes: vec![volume("data", Vec::new())],
        ..Status::default()
    };
    let meant = |status: &Status, name| {
        let meant = super::volume(status, name);
        meant
            .map(|volume| volume.name.clone())
            .map_err(|error| error.to_string())
    };
    assert_eq!(meant(&status, None), Ok("data".to_owned()));
    assert!(meant(&status, Some("other")).is_err());
    status.volumes.push(volume("fast", Vec::new()));
    assert_eq!(
        meant(&status, None),
        Err("name one of the volumes: data, fast".to_owned())
    );
    assert_eq!(meant(&status, Some("fast")), Ok("fast".to_owned()));
}

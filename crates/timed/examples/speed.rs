//! Measures how fast virtual time runs: commands of modelled drives on a modelled platform per second of user
//! time on one thread, and the array's requests per second of virtual time.
//!
//! usage: cargo run --release -p timed --example speed [MILLISECONDS of virtual time, 400] [ROW, 1 to 10; all]

use anyhow::{Context, Result};
use engine::layout::Level;
use lab::workload::Workload;
use models::drive::{Drive, State};
use models::platform::{Buffers, DriveLink, Machine};
use models::port::Port;
use models::profile::Family;
use timed::array::Array;
use timed::host::Host;
use timed::machine::drives_in_bays;
use timed::prices::Prices;
use timed::run::{Setup, Window, run};
use timed::stacks::Stack;
use timed::stacks::fullstripe::Fullstripe;
use timed::stacks::none::NoRaid;

const MS: u64 = 1_000_000;
const PROFILE: &str = include_str!("../../../profiles/drives/p4510.toml");
const PLATFORM: &str = include_str!("../../../profiles/platforms/s2600wft-8170.toml");
/// Rough costs of the engine's work, so that turns take some time; not for predictions.
const PRICES: [(&str, f64); 4] = [
    ("turns", 400.0),
    ("singles_read", 150.0),
    ("plans_write", 900.0),
    ("plan_steps", 200.0),
];

fn main() -> Result<()> {
    let asked = std::env::args().nth(1);
    let for_ms: u64 = asked.map_or(Ok(400), |text| text.parse())?;
    let row: Option<u32> = std::env::args()
        .nth(2)
        .map(|text| text.parse())
        .transpose()?;
    println!(
        "level  drives  QD    operation   commands/s of user time   requests/s of virtual time"
    );
    let mut number = 0;
    for (level, members, operation) in [
        (None, 1, "randread"),
        (Some(Level::Raid0), 4, "randread"),
        (Some(Level::Raid0), 12, "randread"),
        (Some(Level::Raid5), 4, "randwrite"),
        (Some(Level::Raid5), 12, "randwrite"),
    ] {
        for depth in [512, 4096] {
            number += 1;
            if row.is_some_and(|row| row != number) {
                continue;
            }
            let setup = setup(level, members, operation, depth)?;
            let window = Window {
                from_ns: 0,
                until_ns: for_ms * MS,
            };
            let before_s = user_time_s()?;
            let outcome = run(setup, window)?;
            let took_s = user_time_s()? - before_s;
            println!(
                "{:<5}  {members:>6}  {depth:>4}  {operation:<10}  {:>23.0}  {:>26.0}",
                level.map_or("none".to_owned(), |level| format!("{level:?}")),
                outcome.commands as f64 / took_s,
                outcome.figures.iops()
            );
        }
    }
    Ok(())
}

fn setup(level: Option<Level>, members: u8, operation: &str, depth: u32) -> Result<Setup> {
    let family: Family = toml::from_str(PROFILE).context("profiles/drives/p4510.toml")?;
    let profile = family
        .member("p4510-2tb")
        .map_err(|error| anyhow::anyhow!("profiles/drives/p4510.toml: {error}"))?;
    let drive = |index| Drive::new(&profile, State::Steady, Port::unlimited(), 1, index);
    let machine: Machine = toml::from_str(PLATFORM).context("the platform")?;
    let graph = machine
        .graph()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let link = DriveLink {
        lanes: 4,
        generation: 3,
    };
    let (drives, _) = drives_in_bays(
        (0..u64::from(members)).map(drive).collect(),
        &vec![link; usize::from(members)],
        &graph,
        Buffers::Spread,
    )?;
    let workload = format!(
        "op = \"{operation}\"\nbs = \"4k\"\nthreads = 8\nqd = {}\n",
        depth / 8
    );
    let stack: Box<dyn Stack> = match level {
        None => Box::new(NoRaid::new(profile.capacity_bytes, 8)),
        Some(level) => {
            let array = Array {
                level,
                members,
                chunk_bytes: 64 << 10,
                component_bytes: 1 << 40,
                logged: false,
                volatile_cache: false,
                missing: None,
                rebuilding: None,
                shards: 1,
            };
            Box::new(Fullstripe::new(&array, &Prices::new(PRICES, 0.1)?)?)
        }
    };
    Ok(Setup {
        stack,
        drives,
        queues: Vec::new(),
        host: Host {
            submit_command_ns: 50,
            answer_command_ns: 50,
            ..Host::default()
        },
        workload: toml::from_str::<Workload>(&workload)?,
        seed: 1,
    })
}

/// User time of this process.
fn user_time_s() -> Result<f64> {
    // The 14th field; the second is a name in brackets and may hold spaces.
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').context("a process's state")?.1;
    let ticks = fields.split_whitespace().nth(11).context("its user time")?;
    /// The same on all machines with Linux.
    const TICKS_PER_S: f64 = 100.0;
    Ok(ticks.parse::<f64>()? / TICKS_PER_S)
}

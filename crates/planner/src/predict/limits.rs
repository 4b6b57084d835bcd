//! What limits a point, found by measurement.
//!
//! Each resource in use is made 10 % faster on its own, and the point is run again with the same seed, for a short
//! while. The resource that raises throughput most **limits** the point. If no single one gains 2 %, and neither do
//! more outstanding requests, a smallest group that gains 2 % together limits it. Otherwise the limit is the **queue
//! depth**: requests wait for something that has no queue, and the part of the latency that gains most when made 10 %
//! shorter is named. An open loop whose demand is met is limited by the demand.
//!
//! What is **behind** a limit is found in the same way, with the first limit made so much faster (or the queue so much
//! deeper) that it no longer limits. Resources that are busy less than 15 % of the time are not tried: being a tenth
//! faster, they would gain less than 2 %.

use super::point::{Point, Start};
use super::resources::{PARTS, Part, Resource, links_of};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use timed::host::Books;
use timed::machine::SharedPlatform;
use timed::run::{RunOutcome, Window};

/// The factor by which a resource is made faster to see whether it limits.
const FASTER: f64 = 1.1;
/// The least gain that counts.
const GAIN_MIN: f64 = 0.02;
/// The factor by which a resource is made faster so that it no longer limits.
const OUT_OF_THE_WAY: f64 = 16.0;
/// The same for a queue depth.
const DEEPER: u32 = 8;
/// A server that is busy for less than this share of the time is not tried.
const IN_USE: f64 = 0.15;
/// Commands of a short run. Its first third is not measured.
const COMMANDS: f64 = 40_000.0;
/// Shortest such run where drives collect garbage (about ten periods; in much longer runs the drives get out of step,
/// and chance hides the effect), shortest run elsewhere, and longest run.
const SHORTEST_IN_STEP_NS: f64 = 100e6;
const SHORTEST_NS: f64 = 10e6;
const LONGEST_NS: f64 = 60e9;
/// Share of the demand that must be met for the demand to be the limit.
const MET: f64 = 0.99;

/// How far to look for limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Look for no limit.
    #[default]
    Nothing,
    /// Find the first limit.
    First,
    /// Also find what is behind it.
    Behind,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// Throughput gained when it is a tenth faster, in percent; none for demands and queue depths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_percent: Option<f64>,
}

/// What limits a point, and what would limit it next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// What limits it.
    pub first: Limit,
    /// What limits it once the first limit is out of the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Limit>,
    /// Requests per second in that case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_iops: Option<f64>,
}

/// A point and its results so far.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// The point.
    pub point: &'a Point,
    /// The state in which its drives start.
    pub start: Start,
    /// The seed of short runs.
    pub seed: u64,
    /// Its requests per second.
    pub iops: f64,
    /// Commands to drives per request.
    pub commands_per_request: f64,
    /// Commands that the short runs took.
    pub commands: Cell<u64>,
}

/// What limits: one resource, several together, or only the queue depth.
enum Binds {
    Resources(Vec<Resource>, f64),
    QueueDepth(Resource),
}

impl Found<'_> {
    /// Finds what limits the point.
    ///
    /// # Errors
    ///
    /// As [`Point::run`].
    pub fn limits(&self, depth: Depth) -> Result<Option<Limits>> {
        if depth == Depth::Nothing {
            return Ok(None);
        }
        let demand = self.point.workload().mean_demand();
        if demand.is_some_and(|demand| self.iops >= demand.iops() * MET) {
            let first = Limit {
                name: "demand".to_owned(),
                gain_percent: None,
            };
            return Ok(Some(Limits {
                first,
                behind: None,
                behind_iops: None,
            }));
        }
        let survey = Survey::of(self)?;
        let first = survey.binds(&[])?;
        let mut limits = Limits {
            first: survey.name(&first),
            behind: None,
            behind_iops: None,
        };
        if depth == Depth::Behind {
            let (point, aside) = match &first {
                Binds::Resources(resources, _) => {
                    let freed = all_faster(self.point, resources, OUT_OF_THE_WAY);
                    (freed, resources.as_slice())
                }
                Binds::QueueDepth(_) => (self.point.deeper(DEEPER), [].as_slice()),
            };
            let freed = Found {
                point: &point,
                iops: self.first_look(&point)?,
                ..self.clone()
            };
            let survey = Survey::of(&freed)?;
            limits.behind = Some(survey.name(&survey.binds(aside)?));
            self.commands.set(freed.commands.get());
            limits.behind_iops = Some(survey.iops);
        }
        Ok(Some(limits))
    }

    fn window(&self) -> Window {
        let commands_per_s = self.iops * self.commands_per_request.max(1.0);
        let length_ns = COMMANDS * 1e9 / commands_per_s.max(1e-3);
        let shortest_ns = match self.start {
            Start::AsPut => SHORTEST_NS,
            Start::Spent | Start::SpentInStep => SHORTEST_IN_STEP_NS,
        };
        let length_ns = length_ns.clamp(shortest_ns, LONGEST_NS) as u64;
        Window {
            from_ns: length_ns / 3,
            until_ns: length_ns,
        }
    }

    /// The approximate rate of another point.
    fn first_look(&self, point: &Point) -> Result<f64> {
        let Window { until_ns, .. } = self.window();
        let window = Window {
            from_ns: until_ns / 12,
            until_ns: until_ns / 6,
        };
        let outcome = point.run(self.start, self.seed, window)?;
        self.count(&outcome);
        Ok(self.rate(&outcome, window))
    }

    /// The rate of a short run. Where drives collect garbage it holds few periods, the last one only in part, so its
    /// middle is weighted most.
    fn rate(&self, outcome: &RunOutcome, window: Window) -> f64 {
        let Window { from_ns, until_ns } = window;
        match self.start {
            Start::AsPut => outcome.figures.iops(),
            Start::Spent | Start::SpentInStep => outcome.series.smooth_rate(from_ns, until_ns),
        }
    }

    fn count(&self, outcome: &RunOutcome) {
        self.commands.set(self.commands.get() + outcome.commands);
    }
}

/// A short run of the unchanged point, and the resources that are worth trying.
struct Survey<'a> {
    found: &'a Found<'a>,
    window: Window,
    iops: f64,
    books: Books,
    in_use: Vec<Resource>,
}

impl<'a> Survey<'a> {
    fn of(found: &'a Found<'a>) -> Result<Survey<'a>> {
        let window = found.window();
        let (outcome, platform) = found.point.watch(found.start, found.seed, window)?;
        found.count(&outcome);
        Ok(Survey {
            found,
            window,
            iops: found.rate(&outcome, window),
            books: outcome.books,
            in_use: in_use(found.point, &outcome, platform.as_ref(), window),
        })
    }

    /// What another point gains over this one.
    fn gain(&self, point: &Point) -> Result<f64> {
        let Found { start, seed, .. } = *self.found;
        let outcome = point.run(start, seed, self.window)?;
        self.found.count(&outcome);
        Ok(self.found.rate(&outcome, self.window) / self.iops.max(1e-9) - 1.0)
    }

    /// What the point gains if `resources` are a tenth faster.
    fn gain_of(&self, resources: &[Resource]) -> Result<f64> {
        self.gain(&all_faster(self.found.point, resources, FASTER))
    }

    fn most<'r>(
        &self,
        tried: impl Iterator<Item = &'r Resource>,
    ) -> Result<Option<(Resource, f64)>> {
        let mut most: Option<(Resource, f64)> = None;
        for resource in tried {
            let gain = self.gain_of(std::slice::from_ref(resource))?;
            if most.as_ref().is_none_or(|(_, other)| gain > *other) {
                most = Some((resource.clone(), gain));
            }
        }
        Ok(most)
    }

    /// What limits the point, apart from the resources in `aside`, which are already out of the way.
    fn binds(&self, aside: &[Resource]) -> Result<Binds> {
        let tried = self.in_use.iter().filter(|one| !aside.contains(one));
        let tried: Vec<Resource> = tried.cloned().collect();
        if let Some((resource, gain)) = self.most(tried.iter())?
            && gain >= GAIN_MIN
        {
            return Ok(Binds::Resources(vec![resource], gain));
        }
        if let Some((together, gain)) = self.together(tried)? {
            return Ok(Binds::Resources(together, gain));
        }
        let latencies = [Resource::DriveLatency, Resource::Hops, Resource::Software];
        let waits_for = self.most(latencies.iter())?;
        let waits_for = waits_for.map_or(Resource::DriveLatency, |(waits_for, _)| waits_for);
        Ok(Binds::QueueDepth(waits_for))
    }

    /// Resources that limit only together, as two equally fast ones do: more outstanding requests gain nothing, but
    /// making all of them faster does. A resource is dropped if the others alone still gain enough.
    fn together(&self, mut resources: Vec<Resource>) -> Result<Option<(Vec<Resource>, f64)>> {
        if resources.len() < 2 || self.gain(&self.found.point.deeper(2))? >= GAIN_MIN {
            return Ok(None);
        }
        let mut gain = self.gain_of(&resources)?;
        if gain < GAIN_MIN {
            return Ok(None);
        }
        let mut at = 0;
        while at < resources.len() && resources.len() > 1 {
            let without = [&resources[..at], &resources[at + 1..]].concat();
            let gain_without = self.gain_of(&without)?;
            if gain_without >= GAIN_MIN {
                (resources, gain) = (without, gain_without);
            } else {
                at += 1;
            }
        }
        Ok(Some((resources, gain)))
    }

    fn name(&self, binds: &Binds) -> Limit {
        let (graph, setup) = (
            self.found.point.surroundings().graph(),
            self.found.point.setup(),
        );
        let plain = |resource: &Resource| resource.name(graph, &setup.stack);
        match binds {
            Binds::QueueDepth(waits_for) => Limit {
                name: format!("queue depth, waiting for {}", plain(waits_for)),
                gain_percent: None,
            },
            Binds::Resources(resources, gain) => {
                let names = resources.iter().map(|resource| match resource {
                    Resource::ClientCores if self.found.point.has_stack_cores() => plain(resource),
                    Resource::ClientCores | Resource::StackCores => {
                        format!("{} ({})", plain(resource), self.most_work())
                    }
                    Resource::Drives if resources.len() == 1 => {
                        self.part().as_ref().map_or("drives".to_owned(), plain)
                    }
                    other => plain(other),
                });
                Limit {
                    name: names.collect::<Vec<_>>().join(" and "),
                    gain_percent: Some((gain * 1e4).round() / 100.0),
                }
            }
        }
    }

    /// The part of the drives that gains most on its own, if one gains enough.
    fn part(&self) -> Option<Resource> {
        let reads = self.found.point.workload().read_percent();
        let parts = PARTS.into_iter().filter(|part| match part {
            Part::FlashUnits => reads != Some(0),
            Part::Programs => reads != Some(100),
            Part::Controller | Part::DataPath => true,
            Part::MapUnits => false,
        });
        let parts: Vec<Resource> = parts.map(Resource::PartOfDrives).collect();
        let (part, gain) = self.most(parts.iter()).ok()??;
        if gain < GAIN_MIN / 2.0 {
            return None;
        }
        let map_units = Resource::PartOfDrives(Part::MapUnits);
        let is_for_map_units = part == Resource::PartOfDrives(Part::Programs)
            && self.found.point.has_large_map_units()
            && self.gain_of(std::slice::from_ref(&map_units)).ok()? >= gain / 2.0;
        Some(if is_for_map_units { map_units } else { part })
    }

    /// What takes most of the processor time.
    fn most_work(&self) -> &'static str {
        let Books {
            client_ns,
            kernel_ns,
            raid_ns,
        } = self.books;
        let is_on_stacks_cores = self.found.point.has_stack_cores();
        match client_ns {
            most if !is_on_stacks_cores && most > kernel_ns.max(raid_ns) => "the clients' own work",
            _ if kernel_ns > raid_ns => "mostly kernel",
            _ => "mostly RAID",
        }
    }
}

fn all_faster(point: &Point, resources: &[Resource], times: f64) -> Point {
    let each = resources.iter();
    each.fold(point.clone(), |point, one| point.faster(one, times))
}

/// The resources that are in use.
fn in_use(
    point: &Point,
    outcome: &RunOutcome,
    platform: Option<&SharedPlatform>,
    window: Window,
) -> Vec<Resource> {
    let mut found = vec![Resource::Drives];
    let share = |busy_ns: u64, of_ns: u64| busy_ns as f64 / of_ns.max(1) as f64 >= IN_USE;
    let books = &outcome.books;
    let threads = u64::from(point.workload().threads);
    let window_ns = outcome.figures.window_ns;
    let stack_ns = books.kernel_ns + books.raid_ns;
    let client_ns = if point.has_stack_cores() {
        books.client_ns
    } else {
        books.client_ns + stack_ns
    };
    if share(client_ns, threads * window_ns) {
        found.push(Resource::ClientCores);
    }
    if point.has_stack_cores() && share(stack_ns, window_ns) {
        found.push(Resource::StackCores);
    }
    if share(outcome.stack_lines_busy_ns, window.until_ns) {
        found.push(Resource::StackLines);
    }
    if share(outcome.drive_counters_busy_ns, window.until_ns) {
        found.push(Resource::DriveCounters);
    }
    if share(outcome.drive_queues_busy_ns, window.until_ns) {
        found.push(Resource::DriveQueues);
    }
    let Some((platform, graph)) = platform.zip(point.surroundings().graph()) else {
        found.push(Resource::DriveLinks);
        return found;
    };
    let platform = platform.borrow();
    let uses = platform.uses();
    let is_busy = |at: usize| {
        let busy_ns = uses[at].to_host_busy_ns.max(uses[at].to_drive_busy_ns);
        share(busy_ns, window.until_ns)
    };
    if (graph.links.len()..uses.len()).any(is_busy) {
        found.push(Resource::DriveLinks);
    }
    let links = links_of(graph, uses.len() - graph.links.len());
    let links = links
        .into_iter()
        .filter(|group| group.iter().any(|at| is_busy(*at)));
    found.extend(links.map(Resource::Links));
    if share(platform.crossings_busy_ns(), window.until_ns) {
        found.push(Resource::Crossings);
    }
    if share(platform.memory_busy_ns(), window.until_ns) {
        found.push(Resource::Memory);
    }
    found
}

#[cfg(test)]
mod tests;

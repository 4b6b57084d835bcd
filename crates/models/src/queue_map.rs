//! Which cores share a drive's queues, as Linux assigns them.
//!
//! A drive grants so many queue pairs, and the kernel creates no more of them than there are processors. If there are
//! fewer, it divides them among the sockets and gives each to processors of one socket, as evenly as it can
//! (`lib/group_cpus.c`). One processor of each group handles the interrupts of the queue: the one with the fewest such
//! interrupts (`kernel/irq/matrix.c`), so those of several drives go round. Which processor a thread runs on
//! is the scheduler's choice. Here threads are spread evenly over the groups, the best case: with as many queues
//! as processors that submit, none is shared. Where some are, the processors that handle interrupts are taken to be among those that
//! submit, as on a machine that is busy.

use alloc::vec;
use alloc::vec::Vec;

/// A queue that several processors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedQueue {
    /// Its number among the drive's queues.
    pub queue: usize,
    /// The core whose processor handles its interrupts.
    pub handler: usize,
}

/// The queues of one drive, by the core that submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMap {
    processors: usize,
    /// By core, for the first `processors` cores. `None` if nobody else uses the core's queue.
    shared: Vec<Option<SharedQueue>>,
}

impl QueueMap {
    /// The queues of a drive that grants `queues` of them, for `cores` cores that submit. These are assigned to `sockets` in
    /// turn, and take turns on the machine's `processors` if there are more of them than that. `drives_before` drives have had
    /// their interrupts assigned before; 0 for all drives if a kernel always takes a group's first processor.
    ///
    /// # Panics
    /// A machine without processors or sockets, or a drive without queues.
    #[must_use]
    pub fn new(
        cores: usize,
        processors: usize,
        sockets: usize,
        queues: usize,
        drives_before: usize,
    ) -> QueueMap {
        assert!(
            processors > 0 && sockets > 0 && queues > 0,
            "{processors} processors on {sockets} sockets and {queues} queues"
        );
        let queues = queues.min(processors);
        let processors = processors.min(cores);
        let queue_of: Vec<usize> = (0..processors)
            .map(|processor| queue_of(processor, sockets, queues))
            .collect();
        let mut users = vec![Vec::new(); queues];
        for (processor, queue) in queue_of.iter().enumerate() {
            users[*queue].push(processor);
        }
        let shared = queue_of.into_iter().map(|queue| {
            let users = &users[queue];
            let handler = users[drives_before % users.len()];
            (users.len() > 1).then_some(SharedQueue { queue, handler })
        });
        QueueMap {
            processors,
            shared: shared.collect(),
        }
    }

    /// The queue that a core uses; `None` if it shares it with no other processor.
    ///
    /// # Panics
    /// There is no such core.
    #[inline]
    #[must_use]
    pub fn shared(&self, core: usize) -> Option<SharedQueue> {
        self.shared[core % self.processors]
    }

    /// Whether two cores run on the same processor.
    #[inline]
    #[must_use]
    pub fn is_same(&self, core: usize, other: usize) -> bool {
        core % self.processors == other % self.processors
    }

    /// Most processors that share one queue: 1 if none do.
    #[must_use]
    pub fn most(&self) -> usize {
        let queues = self.shared.iter().flatten().map(|one| one.queue);
        let count = |queue| {
            let users = self.shared.iter().flatten();
            users.filter(|one| one.queue == queue).count()
        };
        queues.map(count).max().unwrap_or(1)
    }
}

/// The queue of a processor. Each socket has queues of its own, if there are enough for that.
fn queue_of(processor: usize, sockets: usize, queues: usize) -> usize {
    let (socket, within) = (processor % sockets, processor / sockets);
    if queues < sockets {
        return socket % queues;
    }
    // The first sockets have one more if they cannot be divided evenly.
    let (each, more) = (queues / sockets, queues % sockets);
    let first = socket * each + socket.min(more);
    first + within % (each + usize::from(socket < more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(map: &QueueMap, cores: usize) -> Vec<Option<usize>> {
        (0..cores)
            .map(|core| map.shared(core).map(|one| one.queue))
            .collect()
    }

    #[test]
    fn nobody_shares_if_there_are_as_many_queues_as_processors_that_submit() {
        for sockets in 1..5 {
            for cores in 1..40 {
                for processors in 1..40 {
                    let enough = cores.min(processors);
                    for queues in enough..enough + 5 {
                        let map = QueueMap::new(cores, processors, sockets, queues, 0);
                        assert!(map.shared.iter().all(Option::is_none), "{map:?}");
                        assert_eq!(map.most(), 1);
                    }
                }
            }
        }
    }

    #[test]
    fn fewer_queues_are_spread_evenly_within_sockets() {
        for sockets in 1..5 {
            for cores in 1..40 {
                let mut before = usize::MAX;
                for count in 1..cores {
                    let map = QueueMap::new(cores, cores, sockets, count, count);
                    assert!(map.most() >= cores.div_ceil(count), "{map:?}");
                    assert!(map.most() <= before, "{map:?}");
                    before = map.most();
                    for (core, one) in map.shared.iter().enumerate() {
                        let Some(one) = one else { continue };
                        assert!(one.queue < count && one.handler < cores);
                        let of_handler = map.shared(one.handler).expect("it is shared");
                        assert_eq!(of_handler, *one);
                        let is_within = one.handler % sockets == core % sockets;
                        assert!(is_within || count < sockets, "{map:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn eight_cores_on_two_sockets_share_three_queues() {
        let map = QueueMap::new(8, 16, 2, 3, 0);
        let [a, b, c] = [0, 1, 2].map(Some);
        assert_eq!(queues(&map, 8), [a, c, b, c, a, c, b, c]);
        assert_eq!(map.shared(7).map(|one| one.handler), Some(1));
        assert_eq!(map.most(), 4);
        // The interrupts of further drives are handled by the others of each group, one after the other.
        let handlers = [1, 2, 4].map(|before| {
            let map = QueueMap::new(8, 16, 2, 3, before);
            map.shared(7).map(|one| one.handler)
        });
        assert_eq!(handlers, [3, 5, 1].map(Some));
        // Of three processors, the third shares with the first.
        let odd = QueueMap::new(3, 16, 2, 2, 0);
        assert_eq!(queues(&odd, 3), [a, None, a]);
    }

    #[test]
    fn threads_that_take_turns_on_a_processor_are_one() {
        let map = QueueMap::new(6, 3, 1, 2, 0);
        let first = Some(SharedQueue {
            queue: 0,
            handler: 0,
        });
        assert_eq!(map.shared(0), first);
        assert_eq!(map.shared(5), first);
        assert_eq!(map.shared(4), None);
        assert!(map.is_same(0, 3) && !map.is_same(0, 2));
        assert_eq!(map.most(), 2);
    }
}

//! The body of a data thread.

use super::{MakePort, RunOptions, SNAPSHOT_EVERY, Shared};
use crate::memory::MemoryShare;
use crate::news::{News, NewsSender};
use anyhow::Result;
use drives::drive::Drive;
use drives::flusher;
use drives::mailbox::Mailbox;
use drives::port::Port;
use drives::ring::{RingOptions, RingReport};
use drives::world::{Encoder, LogEncoder, RingWorld, WorldOptions};
use engine::control::record::Record;
use engine::setup::Setup;
use engine::shard::Engine;
use engine::turn::Shard;
use engine::units::{MemberId, MemberSet, Nanos, ShardId};
use engine::world::World;
use exports::ports::Counted;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

/// What a data thread is started with.
pub(super) struct ShardStart<P> {
    pub id: ShardId,
    pub options: RunOptions,
    pub record: Record,
    pub mailbox: Mailbox,
    pub events: NewsSender,
    pub encoder: Encoder,
    pub log_encoder: LogEncoder,
    pub memory: MemoryShare,
    pub drives: Vec<Option<Arc<Drive>>>,
    pub make_port: MakePort<P>,
}

/// The body of a data thread.
pub(super) fn run_shard<P: Port + Counted>(
    start: ShardStart<P>,
    shared: &Arc<Shared>,
    ready: &Sender<RingReport>,
) -> Result<(usize, MemberSet)> {
    // Before the ring is made: the kernel's worker threads for the ring inherit this setting.
    flusher::join();
    let MemoryShare {
        arena,
        zeros,
        scratch,
        pool,
    } = start.memory;
    let port = (start.make_port)(start.id, pool)?;
    let events = start.events;
    let mut world = RingWorld::new(WorldOptions {
        arena,
        ring: RingOptions::default(),
        completion: start.options.completion,
        mailbox: start.mailbox,
        port,
        log_encoder: start.log_encoder,
        encoder: start.encoder,
        on_event: Box::new(move |event| events.send(News::Engine(event))),
    })?;
    for (at, drive) in start.drives.into_iter().enumerate() {
        if let Some(drive) = drive {
            world.attach(MemberId(at as u8), drive);
        }
    }
    let setup = Setup {
        shard: start.id,
        shards: start.options.shards,
        record: start.record,
        scratch,
        zeros,
        options: start.options.engine,
        claims: shared.claims.clone(),
    };
    let now = world.now();
    let mut shard = Shard::new(Engine::new(setup, now), world);
    let _ = ready.send(shard.world.report());
    let mut published = Nanos(0);
    while !shared.quit.load(Ordering::Relaxed) {
        shard.turn_or_wait(|| shared.quit.load(Ordering::Acquire));
        let now = shard.engine.now();
        if now.since(published) >= SNAPSHOT_EVERY {
            shared.beat(start.id);
            if shared.publish(start.id, &shard.engine, shard.world.port(), now) {
                published = now;
            }
        }
    }
    Ok(shard.engine.left_behind())
}

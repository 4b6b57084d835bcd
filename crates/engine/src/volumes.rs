//! The volumes of the container as one shard sees them, and the controller's view that they follow.

pub(crate) mod equal;
pub(crate) mod job;
pub(crate) mod streams;
pub(crate) mod volume;
pub(crate) mod writes;

use crate::control::record::ContainerView;
use crate::volumes::volume::Volume;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Volumes {
    list: Vec<Volume>,
    /// What the controller said last.
    view: Arc<ContainerView>,
    /// An epoch that waits for writes to drain before it is confirmed.
    unconfirmed: Option<u64>,
}

impl Volumes {
    /// The volumes as the first view has them.
    pub fn new(list: Vec<Volume>, view: Arc<ContainerView>) -> Volumes {
        Volumes {
            list,
            view,
            unconfirmed: None,
        }
    }

    /// The volumes follow what the controller says now, and its epoch is to be confirmed.
    pub fn adopt(&mut self, view: Arc<ContainerView>) {
        self.unconfirmed = Some(view.epoch);
        self.view = view;
    }

    /// What the controller said last.
    #[inline]
    pub fn view(&self) -> &ContainerView {
        &self.view
    }

    /// The epoch that is to be confirmed when work that it forbids has drained, if that has not been done.
    #[inline]
    pub fn unconfirmed(&self) -> Option<u64> {
        self.unconfirmed
    }

    /// The latest epoch has been confirmed.
    pub fn confirm(&mut self) {
        self.unconfirmed = None;
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The volume of this number, if there is one.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&Volume> {
        self.list.get(at)
    }

    pub fn iter(&self) -> core::slice::Iter<'_, Volume> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, Volume> {
        self.list.iter_mut()
    }
}

impl Index<usize> for Volumes {
    type Output = Volume;
    #[inline]
    fn index(&self, at: usize) -> &Volume {
        &self.list[at]
    }
}

impl IndexMut<usize> for Volumes {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Volume {
        &mut self.list[at]
    }
}

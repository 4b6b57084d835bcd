//! The content of a drive: sectors in pages that are allocated when something is written.

use crate::random::mix;
use std::rc::Rc;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a sector; power cuts tear writes between sectors.
pub const SECTOR_BYTES: u64 = 512;

/// A page's content.
pub type Page = [u8; PAGE_BYTES as usize];

/// See the module's prose.
#[derive(Clone)]
pub struct Store {
    /// Shared with copies of the drive until they are written.
    pages: Vec<Option<Rc<Page>>>,
    /// Pages that were never written hold an earlier owner's bytes, which are a function of this key; or zeros,
    /// if there is none.
    left_over: Option<u64>,
}

impl Store {
    /// A drive of `size_bytes`, with zeros or with an earlier owner's bytes.
    #[must_use]
    pub fn new(size_bytes: u64, left_over: Option<u64>) -> Store {
        Store {
            pages: vec![None; size_bytes.div_ceil(PAGE_BYTES) as usize],
            left_over,
        }
    }

    fn fresh(left_over: Option<u64>, page: usize) -> Box<Page> {
        let mut bytes = Box::new([0; PAGE_BYTES as usize]);
        if let Some(key) = left_over {
            for (word, to) in bytes.chunks_exact_mut(8).enumerate() {
                let value = mix(key ^ mix((page << 10 | word) as u64));
                to.copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }

    /// The present content of a page, without copying it; `None` if the page was never written.
    #[must_use]
    pub fn shared(&self, page: usize) -> Option<Rc<Page>> {
        self.pages[page].clone()
    }

    /// The bytes of a page as [`Store::shared`] returned it.
    #[must_use]
    pub fn bytes_of(&self, page: usize, shared: Option<&Rc<Page>>) -> Box<Page> {
        match shared {
            Some(bytes) => Box::new(**bytes),
            None => Store::fresh(self.left_over, page),
        }
    }

    /// A page for writing.
    pub fn page_mut(&mut self, page: usize) -> &mut Page {
        let left_over = self.left_over;
        let bytes = self.pages[page].get_or_insert_with(|| Store::fresh(left_over, page).into());
        Rc::make_mut(bytes)
    }

    /// The written pages, each with its first byte on the drive. Pages with an earlier owner's bytes are not
    /// among them.
    pub fn written(&self) -> impl Iterator<Item = (u64, Box<Page>)> {
        let pages = (0..).step_by(PAGE_BYTES as usize).zip(&self.pages);
        pages.filter_map(|(at, page)| Some((at, Box::new(**page.as_ref()?))))
    }

    /// Reads the content from `offset_bytes` on.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        for (page, within, range) in pieces(offset_bytes, into.len()) {
            let to = &mut into[range.clone()];
            match (&self.pages[page], self.left_over) {
                (Some(bytes), _) => to.copy_from_slice(&bytes[within..within + range.len()]),
                (None, None) => to.fill(0),
                (None, key) => {
                    let bytes = Store::fresh(key, page);
                    to.copy_from_slice(&bytes[within..within + range.len()]);
                }
            }
        }
    }

    /// Whether the content from `offset_bytes` on equals these bytes.
    #[must_use]
    pub fn holds(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        pieces(offset_bytes, bytes.len()).all(|(page, within, range)| {
            let wanted = &bytes[range];
            let held = within..within + wanted.len();
            match (&self.pages[page], self.left_over) {
                (Some(page), _) => page[held] == *wanted,
                (None, None) => [0; PAGE_BYTES as usize][held] == *wanted,
                (None, key) => Store::fresh(key, page)[held] == *wanted,
            }
        })
    }

    /// Replaces the content from `offset_bytes` on.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        for (page, within, range) in pieces(offset_bytes, bytes.len()) {
            let length = range.len();
            if let Ok(whole) = <&Page>::try_from(&bytes[range.clone()]) {
                // A whole page needs none of the old content, and zeros need no memory on a drive without
                // left-over bytes.
                let is_fresh = self.left_over.is_none() && whole == &[0; PAGE_BYTES as usize];
                self.pages[page] = (!is_fresh).then(|| Rc::new(*whole));
                continue;
            }
            self.page_mut(page)[within..within + length].copy_from_slice(&bytes[range]);
        }
    }
}

/// Cuts a range at page borders: page, offset in it, range of the whole.
pub fn pieces(
    offset_bytes: u64,
    length: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < length).then(|| {
            let at = offset_bytes + done as u64;
            let within = (at % PAGE_BYTES) as usize;
            let count = (PAGE_BYTES as usize - within).min(length - done);
            let range = done..done + count;
            done += count;
            ((at / PAGE_BYTES) as usize, within, range)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_rest_is_left_over() {
        for left_over in [None, Some(9)] {
            let mut store = Store::new(5 * PAGE_BYTES, left_over);
            let mut model = vec![0; 5 * PAGE_BYTES as usize];
            store.read(0, &mut model);
            assert_eq!(model.iter().all(|&byte| byte == 0), left_over.is_none());
            store.write(4000, &[7; 5000]);
            model[4000..9000].fill(7);
            store.write(PAGE_BYTES, &[0; 3 * PAGE_BYTES as usize]);
            model[4096..4 * 4096].fill(0);
            let mut got = vec![1; model.len()];
            store.read(0, &mut got);
            assert!(got == model);
            assert!(store.holds(4000, &model[4000..20000]));
            model[4000] ^= 1;
            assert!(!store.holds(3500, &model[3500..4500]));
        }
    }
}

//! Answers over time: what tells whether a run has settled.

/// Parts of a run that are counted apart.
const PARTS: u64 = 400;

/// Answers in equal parts of a run, from its first moment.
#[derive(Clone, Debug)]
pub struct Series {
    part_ns: u64,
    answers: Vec<u64>,
}

impl Series {
    /// Of a run that lasts until then.
    #[must_use]
    pub fn until(until_ns: u64) -> Series {
        Series {
            part_ns: until_ns.div_ceil(PARTS).max(1),
            answers: vec![0; PARTS as usize],
        }
    }

    /// A request is answered. After the end nothing is counted.
    #[inline]
    pub fn answered(&mut self, now_ns: u64) {
        if let Some(answers) = self.answers.get_mut((now_ns / self.part_ns) as usize) {
            *answers += 1;
        }
    }

    /// Length of a part.
    #[must_use]
    pub fn part_ns(&self) -> u64 {
        self.part_ns
    }

    /// Answers of each part.
    #[must_use]
    pub fn answers(&self) -> &[u64] {
        &self.answers
    }
}

//! Answers over time, which show whether a run has reached a steady state.

/// Number of parts of a run that are counted separately.
const PARTS: u64 = 400;

/// Answers in equal parts of a run, from its first moment.
#[derive(Clone, Debug)]
pub struct Series {
    part_ns: u64,
    answers: Vec<u64>,
}

impl Series {
    /// An empty series for a run that ends at this time.
    #[must_use]
    pub fn until(until_ns: u64) -> Series {
        Series {
            part_ns: until_ns.div_ceil(PARTS).max(1),
            answers: vec![0; PARTS as usize],
        }
    }

    /// Counts an answer. Answers after the end are not counted.
    #[inline]
    pub fn answered(&mut self, now_ns: u64) {
        if let Some(answers) = self.answers.get_mut((now_ns / self.part_ns) as usize) {
            *answers += 1;
        }
    }

    /// Answers per second from one moment to another. Answers in the middle have most weight, so a period that is
    /// only partly inside hardly affects the result. 0 if there is no whole part between them.
    #[must_use]
    pub fn smooth_rate(&self, from_ns: u64, until_ns: u64) -> f64 {
        let parts = (from_ns / self.part_ns) as usize..(until_ns / self.part_ns) as usize;
        let answers = self.answers.get(parts).unwrap_or_default();
        let count = answers.len() as f64;
        let [mut weights, mut weighted] = [0.0; 2];
        for (at, answers) in answers.iter().enumerate() {
            // A bell curve whose value and slope are 0 at both ends. A cosine would not be the same on all
            // machines.
            let place = (at as f64 + 0.5) / count;
            let weight = (place * (1.0 - place)).powi(2);
            weights += weight;
            weighted += weight * *answers as f64;
        }
        if weights == 0.0 {
            return 0.0;
        }
        weighted / weights * 1e9 / self.part_ns as f64
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A series with 100 answers in the first part of each period of so many parts.
    fn bursts(period: u64) -> Series {
        let mut series = Series::until(PARTS * 1000);
        for part in (0..PARTS).step_by(period as usize) {
            (0..100).for_each(|_| series.answered(part * 1000));
        }
        series
    }

    #[test]
    fn bursts_come_to_their_rate_wherever_a_period_is_cut() {
        // 100 answers per period of 40 parts of a microsecond each.
        let series = bursts(40);
        for until in 360..=400 {
            let rate = series.smooth_rate(40_000, until * 1000);
            assert!((rate / 2.5e6 - 1.0).abs() < 0.01, "{until}: {rate}");
        }
        let even = bursts(1).smooth_rate(0, PARTS * 1000);
        assert!((even / 1e8 - 1.0).abs() < 1e-9, "{even}");
    }

    #[test]
    fn nothing_is_no_rate() {
        assert_eq!(bursts(1).smooth_rate(5000, 5900), 0.0);
        assert_eq!(bursts(1).smooth_rate(PARTS * 1000, PARTS * 3000), 0.0);
    }
}

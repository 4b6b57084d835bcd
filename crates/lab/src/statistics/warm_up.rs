//! Finds where a run has settled: MSER-5.
//!
//! The rule of White (1997), with the batches of five of White, Cobb and Spratt (2000): cut where
//! the standard error of what remains is smallest. Cutting the transient lowers it, cutting more
//! raises it.

/// Samples of one batch.
const BATCH: usize = 5;
/// Fewest batches to which the rule is applied.
const BATCHES_MIN: usize = 10;

/// Samples to leave out at the beginning of a run; `None` when the run is too short or has not
/// settled.
///
/// A run has not settled if the best cut lies in its second half: what follows the cut is then too short to show
/// whether the run is still changing.
#[must_use]
pub fn mser_5(samples: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = samples
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    if batches.len() < BATCHES_MIN {
        return None;
    }
    // From the end, so that each further cut takes constant time. The last few cuts are not tried, because what remains
    // is too short to have a spread.
    let (mut mean, mut squares, mut best) = (0.0, 0.0, None::<(f64, usize)>);
    for (index, batch) in batches.iter().enumerate().rev() {
        let count = (batches.len() - index) as f64;
        let before = batch - mean;
        mean += before / count;
        squares += before * (batch - mean);
        let error = squares / (count * count);
        if count >= BATCH as f64 && best.is_none_or(|(least, _)| error <= least) {
            best = Some((error, index));
        }
    }
    let (_, cut) = best?;
    (cut <= batches.len() / 2).then_some(cut * BATCH)
}

#[cfg(test)]
mod tests {
    use super::super::queue::SingleServer;
    use super::*;
    use repeatable::random::Stream;

    #[test]
    fn a_run_that_has_settled_from_the_start_keeps_almost_all() {
        for seed in 0..50 {
            let mut stream = Stream::new(seed, "settled", 0);
            let samples: Vec<f64> = (0..5000).map(|_| stream.share()).collect();
            let cut = mser_5(&samples).expect("it has settled");
            assert!(cut <= 1500, "seed {seed}: {cut}");
        }
    }

    #[test]
    fn the_transient_is_cut() {
        let mut stream = Stream::new(1, "step", 0);
        let samples: Vec<f64> = (0..5000)
            .map(|index| stream.share() + if index < 500 { 10.0 } else { 0.0 })
            .collect();
        let cut = mser_5(&samples).expect("it has settled");
        assert!((500..=700).contains(&cut), "{cut}");
    }

    #[test]
    fn a_backlog_is_cut_until_it_has_drained() {
        // Half a unit of work leaves per arrival on average, so the backlog lasts for about 1000
        // arrivals.
        let mut queue = SingleServer::with_backlog(2, 0.5, 500.0);
        let samples: Vec<f64> = (0..20_000).map(|_| queue.next_sojourn()).collect();
        let cut = mser_5(&samples).expect("it has settled");
        assert!((900..=1300).contains(&cut), "{cut}");
    }

    #[test]
    fn a_run_that_never_settles_is_not_cut_but_refused() {
        let samples: Vec<f64> = (0..5000).map(f64::from).collect();
        assert_eq!(mser_5(&samples), None);
        assert_eq!(mser_5(&[1.0; 49]), None);
    }

    #[test]
    fn constant_samples_are_all_kept() {
        assert_eq!(mser_5(&[3.0; 100]), Some(0));
    }
}

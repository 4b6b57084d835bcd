//! The one fitted constant of Linux md: the cycles of one pass of its RAID 5 thread over a stripe head. One core wrote
//! RAID 5 at a published rate (I-06); the constant is the time per page at that rate, less the known costs of commands,
//! copies and parity sums.

use crate::predict::library::Library;
use crate::predict::point::{Point, Start};
use lab::schema::configuration::{Configuration, read_configurations};
use lab::schema::document::Refusal;
use models::fit::LeftOut;
use models::tables::Tables;
use timed::run::Window;

/// The row, its published value, and the constant.
const ROW: (&str, f64) = ("I-06", 1.25e9);
const CONSTANT: &str = "work.stripe_pass_cycles";
/// The value without a fit: the assumed cost (a prior) of attaching a page to a stripe head, with two locks and a cache
/// miss or two.
const OTHERWISE: &str = "work.page_add_cycles";
/// The configuration that I-06 was measured on.
const MEASURED: &str = r#"
schema = 1
[setup.parity]
drive = "p4510-4tb"
count = 12
level = 5
platform = "s2600wft-8170"
host = "linux-3.10-kpti"
stack = "md-2018"
[points]
writes = { setup = "parity", state = "steady", workload = { op = "randwrite", bs = "64k", threads = 32, qd = 128 } }
"#;
/// Steps of the fit; each halves the remaining range.
const STEPS: u32 = 10;
/// The fit looks for a multiple of this.
const GRAIN_CYCLES: f64 = 10.0;

/// The measured window. It begins at a fifth of a second, because requests wait so long behind each other.
const WINDOW: Window = Window {
    from_ns: 200_000_000,
    until_ns: 300_000_000,
};

/// Bytes per second in the long run with `cycles` cycles per pass. The drives are not the limit, so any seed gives the
/// same result.
fn bytes_per_s(library: &mut Library, measured: &Configuration, cycles: f64) -> Option<f64> {
    library.md.figure_mut(CONSTANT)?.value = cycles;
    let point = Point::new(measured, library).ok()?;
    let outcome = point.run(Start::AsPut, 1, WINDOW).ok()?;
    Some(outcome.figures.bytes_per_s())
}

fn measured() -> Result<(Library, Configuration), Refusal> {
    let library = Library::default();
    let catalogue = library.catalogue();
    let mut points = read_configurations("what I-06 was measured on", MEASURED, &catalogue)?;
    let point = points.pop_first();
    Ok((library, point.expect("there is one").1))
}

/// Fits again: the cycles that reproduce the published rate, in multiples of ten. More cycles mean a lower rate.
///
/// # Errors
///
/// Never for the profiles as they are.
pub fn fit() -> Result<f64, Refusal> {
    let (mut library, measured) = measured()?;
    let (mut least, mut most) = (0.0, GRAIN_CYCLES * f64::from(1 << STEPS));
    for _ in 0..STEPS {
        let middle = (least + most) / 2.0;
        match bytes_per_s(&mut library, &measured, middle) {
            Some(found) if found > ROW.1 => least = middle,
            _ => most = middle,
        }
    }
    Ok(least)
}

/// The row left out: predicts it with the value that the constant would have without a fit.
///
/// # Errors
///
/// Never for the profiles as they are.
pub(super) fn left_out(told: &mut dyn FnMut(String)) -> Result<LeftOut, Refusal> {
    let (id, published) = ROW;
    told(format!("{id} left out"));
    let (mut library, measured) = measured()?;
    let otherwise = library.md.figure_mut(OTHERWISE);
    let refitted = otherwise.map(|figure| figure.value);
    let predicted = refitted.and_then(|cycles| bytes_per_s(&mut library, &measured, cycles));
    Ok(LeftOut {
        id,
        published,
        constant: CONSTANT,
        refitted,
        predicted,
        error: predicted.map(|predicted| (predicted / published).ln().abs()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_gives_what_it_was_fitted_to_and_moves_it() {
        let (mut library, measured) = measured().expect("it is sound");
        let fitted = library.md.figure_mut(CONSTANT);
        let fitted = fitted.expect("the constant").value;
        let mut found = |factor: f64| {
            let found = bytes_per_s(&mut library, &measured, fitted * factor);
            found.expect("it runs") / ROW.1
        };
        let [less, as_it_is, more] = [0.8, 1.0, 1.25].map(&mut found);
        assert!(less > 1.02 * as_it_is && as_it_is > 1.02 * more);
        assert!((as_it_is - 1.0).abs() < 0.029, "{as_it_is}");
    }
}

//! The natural logarithm by `+ - * /` alone, for event times and printed numbers.

/// The upper 32 bits of ln 2, so that its product with any exponent is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
/// The rest: ln 2 = high + low, to more than 80 bits.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// The bits of a significand, without the leading one.
const SIGNIFICAND_BITS: u32 = 52;
/// The stored exponent of 1.0.
const EXPONENT_BIAS: i32 = 1023;

/// ln `value`, within two units of the last place; the same bits on every machine.
///
/// With value = m x 2^e and m between sqrt(1/2) and sqrt(2): ln value = e ln 2 + 2 artanh((m - 1) /
/// (m + 1)), and the series of artanh ends after eleven terms, because its argument stays below
/// 0.1716.
///
/// Negative numbers and NaN give NaN, 0 gives minus infinity, infinity gives infinity.
#[must_use]
pub fn natural_logarithm(value: f64) -> f64 {
    if value.is_nan() || value < 0.0 {
        return f64::NAN;
    }
    if value == 0.0 {
        return f64::NEG_INFINITY;
    }
    if value.is_infinite() {
        return f64::INFINITY;
    }
    let (significand, exponent) = split(value);
    let argument = (significand - 1.0) / (significand + 1.0);
    let square = argument * argument;
    let mut series = 0.0;
    for odd in (1..=21).rev().step_by(2) {
        series = series * square + 1.0 / f64::from(odd);
    }
    let exponent = f64::from(exponent);
    exponent * LN_2_HIGH + (2.0 * argument * series + exponent * LN_2_LOW)
}

/// `value` as m x 2^e with m between sqrt(1/2) and sqrt(2). Positive and finite.
fn split(value: f64) -> (f64, i32) {
    // Subnormal numbers have no leading one. Multiplied by 2^54 they have one.
    let (normal, shift) = if value < f64::MIN_POSITIVE {
        (value * 18_014_398_509_481_984.0, 54)
    } else {
        (value, 0)
    };
    let bits = normal.to_bits();
    let stored = ((bits >> SIGNIFICAND_BITS) & 0x7FF) as i32;
    let fraction = bits & ((1 << SIGNIFICAND_BITS) - 1);
    let one = (EXPONENT_BIAS as u64) << SIGNIFICAND_BITS;
    let significand = f64::from_bits(one | fraction);
    let exponent = stored - EXPONENT_BIAS - shift;
    if significand > core::f64::consts::SQRT_2 {
        (significand / 2.0, exponent + 1)
    } else {
        (significand, exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn agrees_with_the_platform_within_its_own_rounding() {
        let mut stream = Stream::new(1, "logarithm", 0);
        for _ in 0..200_000 {
            // Every exponent, subnormal numbers included.
            let value = f64::from_bits(stream.draw() >> 1);
            if !value.is_finite() || value == 0.0 {
                continue;
            }
            let (ours, platform) = (natural_logarithm(value), value.ln());
            let tolerance = 4.0 * f64::EPSILON * platform.abs().max(f64::EPSILON);
            assert!(
                (ours - platform).abs() <= tolerance,
                "ln {value:e}: {ours:e}, the platform has {platform:e}"
            );
        }
    }

    #[test]
    fn is_exact_to_relative_rounding_near_one() {
        for step in 1..2000 {
            let value = 1.0 + f64::from(step) * 1e-9;
            let (ours, platform) = (natural_logarithm(value), value.ln());
            assert!((ours - platform).abs() <= 4.0 * f64::EPSILON * platform);
        }
        assert_eq!(natural_logarithm(1.0), 0.0);
    }

    #[test]
    fn the_bits_are_fixed() {
        // Kept predictions depend on them. Nearest doubles of the mathematical values.
        for (value, logarithm) in [
            (2.0, core::f64::consts::LN_2),
            (10.0, core::f64::consts::LN_10),
            (0.5, -core::f64::consts::LN_2),
        ] {
            assert_eq!(natural_logarithm(value).to_bits(), f64::to_bits(logarithm));
        }
    }

    #[test]
    fn what_has_no_logarithm_says_so() {
        assert!(natural_logarithm(-1.0).is_nan());
        assert!(natural_logarithm(f64::NAN).is_nan());
        assert_eq!(natural_logarithm(0.0), f64::NEG_INFINITY);
        assert_eq!(natural_logarithm(f64::INFINITY), f64::INFINITY);
    }
}

//! Figures of measurements and predictions.

/// A figure in few digits, with a prefix from ten thousand on: `12.3`, `1.235 M`.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{:.2} G", value / 1e9),
        size if size >= 1e6 => format!("{:.3} M", value / 1e6),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A number with all its digits; below a millionth with an exponent, because nobody counts zeros.
#[must_use]
pub fn exact_number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-6 {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let shown = [0.0, 1.234, 12.34, 123.4, 12_345.0, 1_234_567.0, 2.5e9].map(number);
        assert_eq!(
            shown,
            ["0.00", "1.23", "12.3", "123", "12.3 k", "1.235 M", "2.50 G"]
        );
    }

    #[test]
    fn tiny_numbers_have_an_exponent_and_no_digit_is_lost() {
        let shown = [0.0, 1e-17, -2.5e-7, 0.00002, 0.44, 3200.0].map(exact_number);
        assert_eq!(shown, ["0", "1e-17", "-2.5e-7", "0.00002", "0.44", "3200"]);
    }
}

//! Expressions of claims: `point.metric`, numbers, `+ - * /`, parentheses, `min` and `max`.

use crate::schema::metric::Metric;
use crate::statistics::interval::Interval;
use std::collections::{BTreeMap, BTreeSet};

/// Longest expression: several times the longest one in the claims.
const LENGTH_MAX: usize = 4096;
/// Deepest nesting of parentheses and functions.
const DEPTH_MAX: usize = 32;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number, which is compatible with any unit.
    Number(f64),
    /// A figure of a point.
    Figure {
        /// The point's name.
        point: String,
        /// Which figure.
        metric: Metric,
    },
    /// Two expressions joined.
    Join {
        /// `+`, `-`, `*` or `/`.
        operator: Operator,
        /// Left and right.
        sides: Box<[Expression; 2]>,
    },
    /// The greatest or the least of several.
    Choice {
        /// Whether the greatest is chosen instead of the least.
        is_max: bool,
        /// At least two.
        of: Vec<Expression>,
    },
}

/// Operators, by their character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// A unit; `None` is that of a bare number, which is compatible with any unit.
pub type Unit = Option<&'static str>;

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// A sentence that says where the text stops being an expression.
    pub fn parse(text: &str) -> Result<Expression, String> {
        if text.len() > LENGTH_MAX || !text.is_ascii() {
            return Err(format!("must be at most {LENGTH_MAX} characters of ASCII"));
        }
        let mut parser = Parser { text, at: 0 };
        let expression = parser.sum(0)?;
        match parser.peek() {
            None => Ok(expression),
            Some(_) => Err(parser.unexpected("an operator or the end")),
        }
    }

    /// The unit of its value.
    ///
    /// # Errors
    ///
    /// If it adds, compares, multiplies or divides quantities whose units are not compatible.
    pub fn unit(&self) -> Result<Unit, String> {
        match self {
            Expression::Number(_) => Ok(None),
            Expression::Figure { metric, .. } => Ok(Some(metric.unit())),
            Expression::Choice { of, .. } => of
                .iter()
                .try_fold(None, |unit, one| same(unit, one.unit()?)),
            Expression::Join { operator, sides } => {
                let [left, right] = [sides[0].unit()?, sides[1].unit()?];
                let is_plain = |unit: Unit| unit.is_none_or(|unit| unit == "1");
                match operator {
                    Operator::Add | Operator::Subtract => same(left, right),
                    Operator::Multiply if is_plain(right) => Ok(left.or(right)),
                    Operator::Multiply if is_plain(left) => Ok(right),
                    Operator::Divide if is_plain(right) => Ok(left),
                    Operator::Divide if left == right => Ok(Some("1")),
                    _ => Err(format!("joins {} with {}", name(left), name(right))),
                }
            }
        }
    }

    /// Adds the figures that the expression needs, by point.
    pub fn figures(&self, needed: &mut BTreeMap<String, BTreeSet<Metric>>) {
        match self {
            Expression::Number(_) => {}
            Expression::Figure { point, metric } => {
                needed.entry(point.clone()).or_default().insert(*metric);
            }
            Expression::Join { sides, .. } => sides.iter().for_each(|side| side.figures(needed)),
            Expression::Choice { of, .. } => of.iter().for_each(|one| one.figures(needed)),
        }
    }

    /// Its value, with figures from `lookup`. `None` if a figure is missing or the value is not a finite number.
    pub fn evaluate(&self, lookup: &dyn Fn(&str, Metric) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Expression::Number(number) => *number,
            Expression::Figure { point, metric } => lookup(point, *metric)?,
            Expression::Join { operator, sides } => {
                let [left, right] = [sides[0].evaluate(lookup)?, sides[1].evaluate(lookup)?];
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                }
            }
            Expression::Choice { is_max, of } => {
                // All are evaluated before one is chosen, so that a missing figure is always noticed.
                let values: Option<Vec<f64>> = of.iter().map(|one| one.evaluate(lookup)).collect();
                let choose = if *is_max { f64::max } else { f64::min };
                values?.into_iter().reduce(choose)?
            }
        };
        value.is_finite().then_some(value)
    }

    /// The range in which its value must lie, whatever the figures are; no figure is below 0. For example, a figure
    /// divided by the greatest of several figures that include it is at most 1.
    #[must_use]
    pub fn range(&self) -> Interval {
        match self {
            Expression::Number(number) => Interval::exact(*number),
            Expression::Figure { .. } => Interval::new(0.0, f64::INFINITY),
            Expression::Join { operator, sides } => join_ranges(*operator, sides),
            Expression::Choice { is_max, of } => {
                let choose = if *is_max { f64::max } else { f64::min };
                let ranges = of.iter().map(Expression::range);
                let both = ranges.reduce(|one, other| {
                    Interval::new(choose(one.low, other.low), choose(one.high, other.high))
                });
                both.expect("a choice has at least two")
            }
        }
    }

    /// The expressions that it chooses from, or only itself if it is no such choice.
    fn chosen(&self, wanted_max: bool) -> &[Expression] {
        match self {
            Expression::Choice { is_max, of } if *is_max == wanted_max => of,
            other => std::slice::from_ref(other),
        }
    }

    /// The point that decides its value: that of the chosen alternative; of two sides that of the left one, or of the
    /// right one if the left one has none. The limit of that point is reported as the limit of the claim.
    pub fn deciding_point(&self, lookup: &dyn Fn(&str, Metric) -> Option<f64>) -> Option<&str> {
        match self {
            Expression::Number(_) => None,
            Expression::Figure { point, .. } => Some(point),
            Expression::Join { sides, .. } => {
                sides.iter().find_map(|side| side.deciding_point(lookup))
            }
            Expression::Choice { of, .. } => {
                let chosen = self.evaluate(lookup)?;
                of.iter()
                    .filter(|one| one.evaluate(lookup) == Some(chosen))
                    .find_map(|one| one.deciding_point(lookup))
            }
        }
    }
}

/// The range of two joined expressions. It is unlimited where no rule applies.
fn join_ranges(operator: Operator, sides: &[Expression; 2]) -> Interval {
    let [left, right] = [sides[0].range(), sides[1].range()];
    let is_never_negative = left.low >= 0.0 && right.low >= 0.0;
    match operator {
        Operator::Add => Interval::new(left.low + right.low, left.high + right.high),
        Operator::Divide if is_never_negative => {
            let greatest = sides[1].chosen(true);
            let is_part = sides[0]
                .chosen(false)
                .iter()
                .any(|one| greatest.contains(one));
            let high = if is_part { 1.0 } else { f64::INFINITY };
            Interval::new(0.0, high.min(left.high / right.low))
        }
        Operator::Multiply if is_never_negative => Interval::new(0.0, f64::INFINITY),
        _ => Interval::new(f64::NEG_INFINITY, f64::INFINITY),
    }
}

fn name(unit: Unit) -> &'static str {
    unit.unwrap_or("a number")
}

fn same(one: Unit, other: Unit) -> Result<Unit, String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(format!("mixes {one} and {other}")),
        _ => Ok(one.or(other)),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    /// The next character that is not a space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| **byte == b' ').count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{}'", char::from(wanted))))
    }

    fn unexpected(&self, expected: &str) -> String {
        format!(
            "needs {expected} at character {}: {}",
            self.at + 1,
            self.text
        )
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, String> {
        let mut left = self.product(depth)?;
        loop {
            let operator = match self.peek() {
                Some(b'+') => Operator::Add,
                Some(b'-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left = join(operator, left, self.product(depth)?);
        }
    }

    fn product(&mut self, depth: usize) -> Result<Expression, String> {
        let mut left = self.atom(depth)?;
        loop {
            let operator = match self.peek() {
                Some(b'*') => Operator::Multiply,
                Some(b'/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.at += 1;
            left = join(operator, left, self.atom(depth)?);
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Expression, String> {
        if depth == DEPTH_MAX {
            return Err(format!("is nested deeper than {DEPTH_MAX}"));
        }
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let inner = self.sum(depth + 1)?;
                self.expect(b')')?;
                Ok(inner)
            }
            Some(first) if first.is_ascii_digit() => self.number(),
            Some(first) if first.is_ascii_lowercase() => self.name(depth),
            _ => Err(self.unexpected("a point, a number or '('")),
        }
    }

    fn number(&mut self) -> Result<Expression, String> {
        let rest = &self.text[self.at..];
        let mut end = 0;
        for (index, byte) in rest.bytes().enumerate() {
            let is_exponent_sign =
                matches!(byte, b'+' | b'-') && index > 0 && rest.as_bytes()[index - 1] == b'e';
            if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e') || is_exponent_sign) {
                break;
            }
            end = index + 1;
        }
        match rest[..end].parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += end;
                Ok(Expression::Number(number))
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    fn name(&mut self, depth: usize) -> Result<Expression, String> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.')
        };
        let word = &rest[..rest
            .as_bytes()
            .iter()
            .take_while(|byte| is_part(byte))
            .count()];
        if matches!(word, "min" | "max") {
            let is_max = word == "max";
            self.at += word.len();
            self.expect(b'(')?;
            let mut of = vec![self.sum(depth + 1)?];
            self.expect(b',')?;
            of.push(self.sum(depth + 1)?);
            while self.take(b',') {
                of.push(self.sum(depth + 1)?);
            }
            self.expect(b')')?;
            return Ok(Expression::Choice { is_max, of });
        }
        let Some((point, metric)) = word.split_once('.') else {
            return Err(self.unexpected("a point with a figure, like a.iops"));
        };
        let figure = Expression::Figure {
            point: point.to_string(),
            metric: metric.parse()?,
        };
        self.at += word.len();
        Ok(figure)
    }
}

fn join(operator: Operator, left: Expression, right: Expression) -> Expression {
    Expression::Join {
        operator,
        sides: Box::new([left, right]),
    }
}

#[cfg(test)]
mod tests;

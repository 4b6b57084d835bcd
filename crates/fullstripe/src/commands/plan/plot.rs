//! Plots in the terminal: a bar for the predicted figure, and dots from there up to the ideal figure of a simple
//! calculation. Draws all plots of a sweep, too.

use super::text::{HANGING, figure, notes};
use crate::terminal::fold::fold_within;
use lab::schema::metric::Metric;
use planner::plan::report::{PlanPoint, PlannedReport};
use planner::plan::sweep::Sweep;
use std::fmt::Write as _;
use words::number;

/// Columns if the width is unknown.
pub const COLUMNS: usize = 80;
/// Fewest and most columns of a bar.
const BAR_MIN: usize = 10;
const BAR_MAX: usize = 60;
/// Fewest columns of a figure like "1.234 M".
const FIGURE_MIN: usize = 8;
/// From this width on, the limit is printed beside each bar.
const WITH_LIMITS: usize = 72;
/// Eighths of a block, from none to seven.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Every plot of a sweep: one for each setup and each value of the second variable.
pub fn plots(sweep: &Sweep, report: &PlannedReport, columns: Option<usize>) -> String {
    let key = |point: &PlanPoint| (point.setup.clone(), point.varied.get(1).copied());
    let mut text = String::new();
    let mut keys: Vec<_> = Vec::new();
    for point in &report.points {
        if !keys.contains(&key(point)) {
            keys.push(key(point));
        }
    }
    for wanted in keys {
        let points: Vec<&PlanPoint> = report
            .points
            .iter()
            .filter(|point| key(point) == wanted)
            .collect();
        text += &plot(sweep, &points, columns.unwrap_or(COLUMNS));
        text.push('\n');
    }
    text + &fold_within(&notes(report, Some(sweep)), columns, HANGING)
}

fn title(sweep: &Sweep, point: &PlanPoint) -> String {
    let mut title = format!(
        "{}, {}: IOPS by {}",
        point.setup,
        point.load,
        sweep.axes[0].0.name()
    );
    if let (Some((what, _)), Some(value)) = (sweep.axes.get(1), point.varied.get(1)) {
        let _ = write!(title, ", {} {}", what.name(), what.value(*value));
    }
    title
}

/// One plot of a sweep.
fn plot(sweep: &Sweep, points: &[&PlanPoint], columns: usize) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let what = sweep.axes[0].0;
    let bars = points.iter().map(|point| {
        let predicted = point.figure(Metric::Iops).unwrap_or(0.0);
        Bar {
            label: what.value(point.varied[0]),
            predicted,
            ideal: point.ideal.as_ref().map_or(0.0, |ideal| ideal.iops),
            figure: figure(point, Metric::Iops),
            limit: point.limit(),
        }
    });
    let bars: Vec<Bar> = bars.collect();
    let most = bars.iter().map(|bar| bar.ideal).fold(0.0, f64::max);
    format!(
        "{}\n{}{:label_columns$}  █ predicted  · up to the ideal of {} at most\n",
        title(sweep, first),
        drawn(&bars, columns),
        "",
        number(most),
        label_columns = width_of(bars.iter().map(|bar| &bar.label))
    )
}

/// A line of a plot.
pub struct Bar {
    /// The label before the bar.
    pub label: String,
    /// The predicted figure, drawn as blocks.
    pub predicted: f64,
    /// The ideal figure of a simple calculation, up to which dots are drawn.
    pub ideal: f64,
    /// The figure in words.
    pub figure: String,
    /// What limits the predicted figure; left out if there is no room.
    pub limit: String,
}

fn width_of<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// A line for each bar; the longest bar fills the available room.
pub fn drawn(bars: &[Bar], columns: usize) -> String {
    let most = bars.iter().map(|bar| bar.predicted.max(bar.ideal));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let label_columns = width_of(bars.iter().map(|bar| &bar.label));
    let figure_columns = width_of(bars.iter().map(|bar| &bar.figure)).max(FIGURE_MIN);
    let limit_columns = width_of(bars.iter().map(|bar| &bar.limit));
    // Label, bar, figure and limit, separated by two blanks each.
    let beside = label_columns + 2 + 2 + figure_columns;
    let with_limits = columns >= WITH_LIMITS && columns >= beside + 2 + limit_columns + BAR_MIN;
    let beside = beside + if with_limits { 2 + limit_columns } else { 0 };
    let bar_columns = columns.saturating_sub(beside).clamp(BAR_MIN, BAR_MAX);
    let mut text = String::new();
    for one in bars {
        let Bar { label, figure, .. } = one;
        let bar = bar(one.predicted / most, one.ideal / most, bar_columns);
        let limit = if with_limits { &one.limit } else { "" };
        let line = format!("{label:>label_columns$}  {bar}  {figure:<figure_columns$}  {limit}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A bar of `columns`: blocks for one part of the whole, dots from there up to another.
fn bar(filled: f64, dotted: f64, columns: usize) -> String {
    let eighths = |share: f64| (share.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    let (filled, dotted) = (eighths(filled), eighths(dotted));
    let mut bar = "█".repeat(filled / 8) + EIGHTHS[filled % 8];
    let drawn = filled.div_ceil(8);
    bar += &"·".repeat((dotted / 8).saturating_sub(drawn));
    let drawn = drawn.max(dotted / 8);
    bar + &" ".repeat(columns.saturating_sub(drawn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share_and_as_wide_as_asked() {
        assert_eq!(bar(1.0, 1.0, 4), "████");
        assert_eq!(bar(0.5, 1.0, 4), "██··");
        assert_eq!(bar(0.53, 1.0, 4), "██▏·");
        assert_eq!(bar(0.0, 0.0, 3), "   ");
        assert_eq!(bar(0.5, 0.25, 4), "██  ");
        assert_eq!(bar(7.0, f64::NAN, 2), "██");
    }
}

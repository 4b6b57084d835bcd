//! The text of the table. The full width of a bar is what eight members of RAID 0 can do, so that bars within a column
//! can be compared.

use super::super::screen::{Screen, bar};
use super::{CHUNK_BYTES, Kind, MEMBER_READS_PER_S, MEMBER_WRITES_PER_S, Point, SHARE_MIN};
use crate::terminal::Tone;

const BAR_WIDTH: usize = 12;

impl Kind {
    /// The most that eight members can do, which fills a bar.
    fn most(self) -> f64 {
        8.0 * match self {
            Kind::Reads => f64::from(MEMBER_READS_PER_S),
            Kind::Writes => f64::from(MEMBER_WRITES_PER_S),
            Kind::Stripes => f64::from(MEMBER_WRITES_PER_S) * 4096.0,
        }
    }
}

/// Prints the head of the table.
pub(super) fn head(screen: &mut Screen) {
    let text = |text: String| format!("    {text}");
    let reads = MEMBER_READS_PER_S / 1000;
    let writes = MEMBER_WRITES_PER_S / 1000;
    let chunk = CHUNK_BYTES >> 10;
    let remark = format!(
        "members of {reads} 000 reads or {writes} 000 writes of 4 KiB per second; chunk {chunk} KiB; \
         % of the roofline"
    );
    let remark = screen.paint(Tone::Quiet, &text(remark));
    screen.line(&remark);
    let titles = [
        "random reads, 4 KiB",
        "random writes, 4 KiB",
        "full-stripe writes",
    ];
    let titles = titles.map(|title| format!("{title:<26}")).join("  ");
    let titles = screen.paint(
        Tone::Quiet,
        text(format!("          N  {titles}")).trim_end(),
    );
    screen.line(&titles);
}

/// A point: what was measured, a bar of it, and its share of the roofline.
pub(super) fn cell(screen: &Screen, kind: Kind, point: &Point) -> String {
    let (measured, figure) = match kind {
        Kind::Stripes => (
            point.bytes_per_s,
            format!("{:>5.0} MB/s", point.bytes_per_s / 1e6),
        ),
        _ => (point.iops, format!("{:>5.1} k", point.iops / 1e3)),
    };
    let drawn = bar(measured / kind.most(), BAR_WIDTH);
    let rest = " ".repeat(BAR_WIDTH.saturating_sub(drawn.chars().count()));
    let tone = if point.share >= SHARE_MIN {
        Tone::Good
    } else {
        Tone::Bad
    };
    format!(
        "{figure} {}{rest}{}",
        screen.paint(tone, &drawn),
        screen.paint(Tone::Quiet, &format!("{:>4.0} %", point.share * 100.0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_figure_bar_and_share() {
        let point = Point {
            level: "RAID 0".to_owned(),
            members: 4,
            workload: Kind::Reads.name(),
            block_bytes: 4096,
            iops: 75_000.0,
            bytes_per_s: 75_000.0 * 4096.0,
            roofline_iops: 80_000.0,
            share: 0.9375,
            roofline: String::new(),
            attempts: 1,
        };
        let screen = Screen::plain(Box::new(std::io::sink()), false);
        let shown = cell(&screen, Kind::Reads, &point);
        assert_eq!(shown, " 75.0 k █████▋        94 %");
    }
}

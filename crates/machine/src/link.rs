//! Speed and width of a PCIe link, as the kernel writes them.

use super::files::Files;

/// Speed and width of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Tenths of a GT/s per lane.
    pub speed: u32,
    /// Lanes.
    pub lanes: u32,
}

impl Link {
    /// The link of the PCI device in `folder`: `current`, what was negotiated, or `max`, what the device supports. `None` if the
    /// kernel does not say.
    #[must_use]
    pub fn read(files: &Files, folder: &str, which: &str) -> Option<Link> {
        let speed = files.text(&format!("{folder}/{which}_link_speed"))?;
        let lanes = files.number(&format!("{folder}/{which}_link_width"))?;
        // Virtual machines report 0 or 255 lanes and an unknown speed.
        let lanes = u32::try_from(lanes).ok().filter(|n| (1..=32).contains(n))?;
        Some(Link {
            speed: parse_speed(&speed)?,
            lanes,
        })
    }

    /// The generation of PCIe that runs at most at this speed: 8 GT/s is the third.
    #[must_use]
    pub fn generation(self) -> u64 {
        // Each doubles the one before; the third has 8 GT/s instead of 10, and a better code.
        match self.speed {
            ..50 => 1,
            50..80 => 2,
            80..160 => 3,
            160..320 => 4,
            320..640 => 5,
            _ => 6,
        }
    }

    /// Throughput in one direction, without the line code's overhead, in units of 100 MB/s: 8b/10b below 8 GT/s,
    /// 128b/130b from 8 GT/s on (PCI Express Base Specification, "Encoding").
    fn hundred_megabytes(self) -> u32 {
        let (used, of) = if self.speed < 80 { (8, 10) } else { (128, 130) };
        let bits = self.speed * self.lanes * used;
        (bits + of * 4) / (of * 8)
    }

    /// Bytes per second in one direction, without the line code's overhead.
    #[must_use]
    pub fn bytes_per_s(self) -> f64 {
        f64::from(self.hundred_megabytes()) * 1e8
    }

    /// The same in words: `3.9 GB/s`.
    #[must_use]
    pub fn rate(self) -> String {
        let hundreds = self.hundred_megabytes();
        format!("{}.{} GB/s", hundreds / 10, hundreds % 10)
    }
}

/// For example `PCIe 8 GT/s x4`.
impl std::fmt::Display for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, tenth) = (self.speed / 10, self.speed % 10);
        match tenth {
            0 => write!(out, "PCIe {whole} GT/s x{}", self.lanes),
            _ => write!(out, "PCIe {whole}.{tenth} GT/s x{}", self.lanes),
        }
    }
}

/// Parses texts like `8.0 GT/s PCIe` and `16 GT/s` into tenths of a GT/s.
fn parse_speed(text: &str) -> Option<u32> {
    let number = text.split_whitespace().next()?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let tenth = tenth.get(..1)?;
    let speed = whole.parse::<u32>().ok()?.checked_mul(10)? + tenth.parse::<u32>().ok()?;
    (1..=10_000).contains(&speed).then_some(speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_in_the_kernels_forms() {
        assert_eq!(parse_speed("8.0 GT/s PCIe"), Some(80));
        assert_eq!(parse_speed("2.5 GT/s"), Some(25));
        assert_eq!(parse_speed("16 GT/s"), Some(160));
        for nonsense in ["Unknown", "", "0", ".5", "8. GT/s", "99999999999"] {
            assert_eq!(parse_speed(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn each_speed_is_of_a_generation() {
        let generation = |speed| Link { speed, lanes: 4 }.generation();
        assert_eq!(
            [25, 50, 80, 160, 320, 640].map(generation),
            [1, 2, 3, 4, 5, 6]
        );
    }

    #[test]
    fn rates_follow_the_line_code() {
        let rate = |speed, lanes| Link { speed, lanes }.rate();
        assert_eq!(rate(80, 4), "3.9 GB/s");
        assert_eq!(rate(50, 2), "1.0 GB/s");
        assert_eq!(rate(160, 4), "7.9 GB/s");
    }
}

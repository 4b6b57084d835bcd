//! Asks for the figures of a data sheet in a terminal: those that a plan needs until they are given, the others once.

use super::figures::Figures;
use anyhow::{Result, bail};
use catalogue::Entry;
use std::io::{BufRead, Write};
use std::str::FromStr;

/// Asks for what `figures` lacks. What is known of the drive `like` is not asked for.
///
/// # Errors
/// The input ends before all needed figures are given, or cannot be read.
pub fn complete(
    figures: &mut Figures,
    like: Option<Entry>,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<()> {
    writeln!(
        output,
        "Figures as the data sheet has them. An empty answer: the sheet does not say."
    )?;
    let needed = figures.missing(like);
    let mut asking = Asking {
        needed: &needed,
        input: &mut input,
        output: &mut output,
    };
    if like.is_none() {
        asking.ask(
            "--class",
            "Kind of memory (slc, mlc, tlc, qlc, optane)",
            &mut figures.class,
        )?;
        asking.ask(
            "--purpose",
            "Made for (data-centre, consumer)",
            &mut figures.purpose,
        )?;
    }
    for (option, question, figure) in [
        ("--generation", "PCIe generation", &mut figures.generation),
        (
            "--read-kiops",
            "Random reads of 4 KiB, in thousands a second",
            &mut figures.read_kiops,
        ),
        (
            "--write-kiops",
            "Random writes of 4 KiB, in thousands a second",
            &mut figures.write_kiops,
        ),
        (
            "--read-mb-s",
            "Sequential reads, in MB a second",
            &mut figures.read_mb_s,
        ),
        (
            "--write-mb-s",
            "Sequential writes, in MB a second",
            &mut figures.write_mb_s,
        ),
    ] {
        asking.ask_if_needed(option, question, figure)?;
    }
    asking.ask_if_needed("--capacity", "Capacity, like 3.84tb", &mut figures.capacity)?;
    if like.is_none() {
        for (option, question, figure) in [
            (
                "--read-us",
                "Latency of a read of 4 KiB, in microseconds",
                &mut figures.read_us,
            ),
            (
                "--write-us",
                "Latency of a write of 4 KiB, in microseconds",
                &mut figures.write_us,
            ),
            (
                "--map-unit-kib",
                "Map unit (indirection unit), in KiB",
                &mut figures.map_unit_kib,
            ),
            (
                "--write-size-kib",
                "Size of the random writes above, in KiB, if it is not 4",
                &mut figures.write_size_kib,
            ),
            (
                "--idle-w",
                "Power while idle, in watts",
                &mut figures.idle_w,
            ),
            (
                "--active-w",
                "Power at most while working, in watts",
                &mut figures.active_w,
            ),
            (
                "--dwpd",
                "Drive writes a day during the warranty",
                &mut figures.dwpd,
            ),
        ] {
            asking.ask(option, question, figure)?;
        }
    }
    Ok(())
}

struct Asking<'a> {
    /// Options without which there is no plan.
    needed: &'a [&'static str],
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
}

impl Asking<'_> {
    fn ask_if_needed<T: Answer>(
        &mut self,
        option: &str,
        question: &str,
        figure: &mut Option<T>,
    ) -> Result<()> {
        if self.needed.contains(&option) {
            self.ask(option, question, figure)?;
        }
        Ok(())
    }

    /// Asks for a figure that is not given yet, until the answer can be understood.
    fn ask<T: Answer>(
        &mut self,
        option: &str,
        question: &str,
        figure: &mut Option<T>,
    ) -> Result<()> {
        while figure.is_none() {
            write!(self.output, "{question}: ")?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                writeln!(self.output)?;
                bail!("the answers end before {option}: nothing was written");
            }
            let answer = line.trim();
            if answer.is_empty() {
                if self.needed.contains(&option) {
                    writeln!(self.output, "A plan needs this figure.")?;
                    continue;
                }
                return Ok(());
            }
            match T::of(answer) {
                Ok(value) => *figure = Some(value),
                Err(rule) => writeln!(self.output, "{rule}")?,
            }
        }
        Ok(())
    }
}

/// What can be answered.
trait Answer: Sized {
    /// The answer in a text.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    fn of(text: &str) -> Result<Self, String>;
}

impl Answer for f64 {
    fn of(text: &str) -> Result<f64, String> {
        let number = text.replace(',', "").parse().ok();
        let valid = number.filter(|number: &f64| *number > 0.0 && number.is_finite());
        valid.ok_or_else(|| format!("\"{text}\" is no number above 0."))
    }
}

impl Answer for super::figures::Decimal {
    fn of(text: &str) -> Result<Self, String> {
        Self::from_str(text).map_err(|rule| format!("{rule}."))
    }
}

macro_rules! words_are_answers {
    ($($type:ty),+) => {
        $(impl Answer for $type {
            fn of(text: &str) -> Result<Self, String> {
                let lower = text.to_ascii_lowercase();
                let found = Self::ALL.iter().find(|(_, word)| *word == lower);
                let words: Vec<&str> = Self::ALL.iter().map(|(_, word)| *word).collect();
                let rule = || format!("\"{text}\" is none of {}.", words::and(&words));
                found.map(|(value, _)| *value).ok_or_else(rule)
            }
        })+
    };
}
words_are_answers!(catalogue::sheet::Class, catalogue::sheet::Purpose);

#[cfg(test)]
mod tests {
    use super::*;
    use catalogue::sheet::{Class, Rating};

    fn asked(answers: &str) -> (Result<()>, Figures, String) {
        let mut figures = Figures::default();
        let mut output = Vec::new();
        let result = complete(&mut figures, None, answers.as_bytes(), &mut output);
        (result, figures, String::from_utf8(output).expect("text"))
    }

    #[test]
    fn needed_figures_are_asked_for_until_they_are_given_and_others_once() {
        let (result, figures, output) =
            asked("qlc\n\n4\n\nmany\n1,005\n43\n7000\n3000\n61.44\n61.44tb\n\n\n16\n16\n\n25\n\n");
        result.expect("all are given");
        assert_eq!(figures.class, Some(Class::Qlc));
        assert_eq!(figures.purpose, None);
        assert_eq!(figures.read_kiops, Some(1005.0));
        assert_eq!(figures.active_w, Some(25.0));
        assert_eq!(figures.map_unit_kib, Some(16.0));
        assert_eq!(figures.ratings()[&Rating::WriteSizeKib], 16.0);
        assert_eq!(figures.missing(None), [""; 0]);
        assert!(output.contains("A plan needs this figure."), "{output}");
        assert!(
            output.contains("\"many\" is no number above 0."),
            "{output}"
        );
        assert!(output.contains("\"61.44\" is no size"), "{output}");
    }

    #[test]
    fn answers_that_end_too_early_are_an_error() {
        let (result, _, _) = asked("tlc\n\n4\n");
        let error = result.expect_err("rates are missing").to_string();
        assert_eq!(
            error,
            "the answers end before --read-kiops: nothing was written"
        );
    }
}

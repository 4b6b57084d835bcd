//! Counts instructions: runs this program in a process of its own under a tool that counts.

use super::scene::Done;
use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Output};

/// The tool that counts.
#[derive(Clone, Debug)]
pub(super) enum Tool {
    /// Valgrind's instruction counter: the same count on every machine with the same instruction set.
    Valgrind {
        /// Its name and version, as it prints them.
        version: String,
    },
    /// The processor's own counter, read by `perf`.
    Perf,
}

impl Tool {
    /// Valgrind if it is installed, otherwise the processor's counters, which virtual machines often lack.
    ///
    /// # Errors
    ///
    /// If neither is available.
    pub fn choose() -> Result<Tool> {
        if let Ok(said) = Command::new("valgrind").arg("--version").output()
            && said.status.success()
        {
            let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            return Ok(Tool::Valgrind { version });
        }
        let tried = Command::new("perf").args(PERF).arg("true").output();
        if tried.is_ok_and(|said| perf_count(&String::from_utf8_lossy(&said.stderr)).is_some()) {
            return Ok(Tool::Perf);
        }
        bail!(
            "nothing here counts instructions: valgrind is not installed, and perf is missing or this \
             machine hides its counters; install valgrind"
        )
    }

    /// The tool's name for the table.
    pub fn words(&self) -> String {
        match self {
            Tool::Valgrind { version } => format!("{version}, cachegrind without caches"),
            Tool::Perf => "processor counters, user mode, by perf".to_owned(),
        }
    }

    /// Runs this program with `arguments` and returns its instructions and what it printed.
    ///
    /// # Errors
    ///
    /// When the program or the tool fails.
    pub fn run(&self, arguments: &[String]) -> Result<(u64, String)> {
        let program = std::env::current_exe().context("this program's own file cannot be found")?;
        let mut command = match self {
            Tool::Valgrind { .. } => {
                let mut command = Command::new("valgrind");
                command.args(VALGRIND);
                command
            }
            Tool::Perf => {
                let mut command = Command::new("perf");
                command.args(PERF);
                command
            }
        };
        // A copy by `rep movsb` would count as one instruction per byte, but take much less time.
        command.env("GLIBC_TUNABLES", WITHOUT_STRING_INSTRUCTIONS);
        let Output {
            status,
            stdout,
            stderr,
        } = command.arg(program).args(arguments).output()?;
        let stderr = String::from_utf8_lossy(&stderr);
        let words = arguments.join(" ");
        ensure!(
            status.success(),
            "`{words}` failed while it was counted: {}",
            stderr.lines().last().unwrap_or("it said nothing")
        );
        let count = match self {
            Tool::Valgrind { .. } => valgrind_count(&stderr),
            Tool::Perf => perf_count(&stderr),
        };
        let count = count.with_context(|| format!("`{words}` was not counted: {stderr}"))?;
        Ok((count, String::from_utf8_lossy(&stdout).into_owned()))
    }

    /// Runs a scene with `units` and with twice as many units; returns the difference in instructions and in work.
    ///
    /// # Errors
    ///
    /// As [`Tool::run`].
    pub fn scene(&self, name: &str, units: u64) -> Result<Sample> {
        let run = |units: u64| -> Result<(u64, Done)> {
            let arguments = ["bench", "--cost-scene", name, "--requests"].map(str::to_owned);
            let arguments: Vec<String> = arguments.into_iter().chain([units.to_string()]).collect();
            let (count, said) = self.run(&arguments)?;
            Ok((count, serde_json::from_str(&said)?))
        };
        let ((once, first), (twice, second)) = (run(units)?, run(2 * units)?);
        let counters = second.counters.iter().map(|(name, count)| {
            let before = first.counters.get(name).copied().unwrap_or(0);
            (name.clone(), count.saturating_sub(before))
        });
        Ok(Sample {
            instructions: twice.saturating_sub(once) as f64,
            work: Done {
                counters: counters.collect(),
                parity_by: second.parity_by,
            },
        })
    }
}

/// Some work, and the instructions that it took.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub instructions: f64,
    pub work: Done,
}

impl Sample {
    /// How often an event of this class occurred.
    pub fn count(&self, class: &str) -> f64 {
        self.work.counters.get(class).copied().unwrap_or(0) as f64
    }
}

const WITHOUT_STRING_INSTRUCTIONS: &str = "glibc.cpu.x86_rep_movsb_threshold=1073741824:\
                                           glibc.cpu.x86_rep_stosb_threshold=1073741824";
const VALGRIND: [&str; 3] = [
    "--tool=cachegrind",
    "--cache-sim=no",
    "--cachegrind-out-file=/dev/null",
];
const PERF: [&str; 4] = ["stat", "-x,", "-e", "instructions:u"];

/// Parses lines like `==123== I   refs:      21,040,255`.
fn valgrind_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(" refs:"))?;
    line.rsplit(' ').next()?.replace(',', "").parse().ok()
}

/// Parses lines like `21040255,,instructions:u,2170410,100.00,,`; `<not supported>` gives `None`.
fn perf_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(",instructions"))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tools_print_is_understood() {
        let valgrind = "==9== Command: true\n==9== \n==9== I   refs:      1,858,925,360\n";
        assert_eq!(valgrind_count(valgrind), Some(1_858_925_360));
        let perf = "21040255,,instructions:u,2170410,100.00,,\n";
        assert_eq!(perf_count(perf), Some(21_040_255));
        let hidden = "<not supported>,,instructions:u,0,100.00,,\n";
        assert_eq!(perf_count(hidden), None);
        assert_eq!(valgrind_count("==9== Command: true\n"), None);
    }
}

//! The systemd service of an array, and the programs that run.

use crate::commands::boot::programs::run;
use anyhow::{Context, Result, anyhow, bail};
use container::machine::Machine;
use container::refusal::refused;
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program, told from others by the file that it was started from. A package replaces the file by a new one, and the kernel
/// keeps the old one as long as it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    device: u64,
    inode: u64,
}

impl Program {
    /// The program that runs this.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn this() -> Result<Program> {
        Program::at(Path::new("/proc/self/exe"))
    }

    /// The program that a process runs.
    ///
    /// # Errors
    /// There is no such process, or it is somebody else's.
    pub fn of_process(pid: u32) -> Result<Program> {
        Program::at(Path::new(&format!("/proc/{pid}/exe")))
    }

    fn at(path: &Path) -> Result<Program> {
        let of = || format!("cannot find out which program is {}", path.display());
        let file = std::fs::metadata(path).with_context(of)?;
        Ok(Program {
            device: file.dev(),
            inode: file.ino(),
        })
    }
}

/// The service of an array.
#[derive(Clone, Debug)]
pub struct Unit {
    array: String,
    systemctl: PathBuf,
}

impl Unit {
    /// The service of the array with this name in the settings file.
    pub fn of_array(name: &str) -> Unit {
        let systemctl = Machine::real().program("systemctl");
        Unit {
            array: name.to_owned(),
            systemctl: systemctl.unwrap_or_else(|| "systemctl".into()),
        }
    }

    /// The service of an array, with a program in place of systemd's.
    #[cfg(test)]
    pub fn with_systemctl(name: &str, systemctl: &str) -> Unit {
        Unit {
            array: name.to_owned(),
            systemctl: systemctl.into(),
        }
    }

    /// The array's name.
    pub fn array(&self) -> &str {
        &self.array
    }

    /// The process that serves the array, if systemd has started one.
    ///
    /// # Errors
    /// systemd does not answer.
    pub fn serving(&self) -> Result<Option<u32>> {
        let shown = self.show(&["ActiveState", "MainPID"])?;
        let said = &shown["MainPID"];
        let pid: u32 = said
            .parse()
            .with_context(|| format!("systemd says that the process of {self} is {said:?}"))?;
        // Zero is no process.
        Ok((pid != 0 && shown["ActiveState"] == "active").then_some(pid))
    }

    /// Refuses if the service would not start `this` program.
    ///
    /// # Errors
    /// A refusal that names the program that it starts; or systemd does not answer.
    pub fn check_starts(&self, this: &Program) -> Result<()> {
        let shown = self.show(&["ExecStart"])?;
        let Some(path) = started_path(&shown["ExecStart"]) else {
            bail!("systemd does not say which program {self} starts");
        };
        match Program::at(Path::new(path))? == *this {
            true => Ok(()),
            false => Err(refused(format!(
                "{self} would start {path}, which is not this program; run {path} upgrade"
            ))),
        }
    }

    /// Has systemd stop the old server and start a new one. Does not wait for that.
    ///
    /// # Errors
    /// systemd does not take the order.
    pub fn restart(&self) -> Result<()> {
        self.run(&["restart", "--no-block", &self.to_string()])?;
        Ok(())
    }

    /// Whether the new server has ended with an error. systemd may start it again later.
    ///
    /// # Errors
    /// systemd does not answer.
    pub fn has_failed(&self) -> Result<bool> {
        let shown = self.show(&["ActiveState", "SubState"])?;
        Ok(shown["ActiveState"] == "failed" || shown["SubState"] == "auto-restart")
    }

    /// Properties of the service by name, each of those asked for.
    fn show(&self, properties: &[&str]) -> Result<BTreeMap<String, String>> {
        let text = self.run(&["show", "-p", &properties.join(","), &self.to_string()])?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let shown: BTreeMap<String, String> = lines
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        match properties.iter().find(|name| !shown.contains_key(**name)) {
            None => Ok(shown),
            Some(name) => bail!("systemd does not say {name} of {self}"),
        }
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let failed = |why| {
            format!(
                "systemctl {} failed: {why}; where systemd does not run, restart the servers by hand",
                words.join(" ")
            )
        };
        run(&self.systemctl, words).map_err(|why| anyhow!(failed(why)))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fullstripe@{}.service", self.array)
    }
}

/// The path in `{ path=/usr/bin/fullstripe ; argv[]=/usr/bin/fullstripe serve ; … }`, as systemd shows ExecStart.
fn started_path(shown: &str) -> Option<&str> {
    let (_, rest) = shown.split_once("path=")?;
    let (path, _) = rest.split_once(" ;")?;
    path.starts_with('/').then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_service_is_found() {
        let shown = "{ path=/usr/bin/fullstripe ; argv[]=/usr/bin/fullstripe serve --array data ; ignore_errors=no }";
        assert_eq!(started_path(shown), Some("/usr/bin/fullstripe"));
        assert_eq!(started_path(""), None);
        assert_eq!(started_path("{ path=fullstripe"), None);
    }

    #[test]
    fn a_program_is_its_file() {
        let this = Program::this().unwrap();
        assert_eq!(Program::of_process(std::process::id()).unwrap(), this);
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("fullstripe");
        std::fs::copy("/proc/self/exe", &other).unwrap();
        assert_ne!(Program::at(&other).unwrap(), this);
        assert!(Program::of_process(u32::MAX).is_err());
    }
}

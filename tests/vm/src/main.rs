//! `vm_checks [NAME...]`: checks of podward on a machine with systemd, logind, AppArmor and cgroup v2.
//!
//! Runs inside a virtual machine that `tools/vm/run.sh` boots, with the files of `tools/vm/all.sh` in `$VM_FILES`. The
//! checks run in order on one node: podward first, then the upstream kubelet on the same machine, then podward again.
//! An observation (a text such as the cgroup tree) is compared with a golden file and with upstream's. The last check of
//! the first boot powers the machine off; the rest runs in the second boot.
//!
//! One line per check, `ok NAME SECONDS` or `FAILED NAME SECONDS` with the reason below it, and a summary at the end.
//! Arguments select checks by a part of their name. No dependencies beyond JSON, so that it compiles in seconds.

mod agents;
mod cgroups;
mod checks;
mod cluster;
mod guest;
mod journal;
mod metrics;
mod node;
mod observations;
mod pods;
mod security;
mod shutdown;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use checks::{Check, Role};

fn main() -> Result<ExitCode> {
    let selected: Vec<String> = std::env::args().skip(1).collect();
    let lists = if guest::boot() == 1 { checks::FIRST_BOOT } else { checks::SECOND_BOOT };
    let mut report = Report::read();
    let is_selected =
        |check: &Check| selected.is_empty() || selected.iter().any(|part| check.name.contains(part));
    for (index, list) in lists.iter().enumerate() {
        let needed = (guest::boot() == 1 && index == 0) || list.iter().any(is_selected);
        for check in list.iter().filter(|_| needed) {
            if check.role == Role::Independent && !is_selected(check) {
                continue;
            }
            let passed = report.run(check)?;
            match check.role {
                Role::Preparation | Role::EndOfBoot if !passed => break,
                Role::EndOfBoot => guest::power_off()?,
                Role::Independent | Role::Preparation => {}
            }
        }
        if index == 0 && guest::boot() == 1 && report.failed() > 0 {
            break;
        }
    }
    report.finish()
}

/// One line per check, on the console and in a file that survives the second boot.
struct Report {
    lines: String,
}

impl Report {
    fn read() -> Self {
        Self { lines: fs::read_to_string(guest::results().join("checks.txt")).unwrap_or_default() }
    }

    /// Returns whether the check passed.
    fn run(&mut self, check: &Check) -> Result<bool> {
        let started = Instant::now();
        let result = (check.run)();
        let seconds = started.elapsed().as_secs_f64();
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        let mut line = format!("{word:7}{} {seconds:.1} s\n", check.name);
        if let Err(error) = &result {
            for text in format!("{error:#}").lines().take(60) {
                writeln!(line, "       {text}")?;
            }
        }
        print!("{line}");
        self.lines.push_str(&line);
        guest::write(guest::results().join("checks.txt"), &self.lines)?;
        Ok(result.is_ok())
    }

    fn failed(&self) -> usize {
        self.count("FAILED ")
    }

    fn count(&self, word: &str) -> usize {
        self.lines.lines().filter(|line| line.starts_with(word)).count()
    }

    fn finish(&self) -> Result<ExitCode> {
        let (passed, failed) = (self.count("ok "), self.failed());
        println!("{passed} passed, {failed} failed");
        guest::write(guest::results().join("summary.txt"), &format!("{passed} passed, {failed} failed\n"))?;
        Ok(if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A file that `tools/vm/all.sh` brought into the machine.
fn file(name: &str) -> PathBuf {
    guest::files().join(name)
}

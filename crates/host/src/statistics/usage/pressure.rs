//! Pressure stall information.

use std::path::Path;

use model::usage::{Pressure, PressureUsage, Stall};

use super::files;

/// Stalls of a v2 cgroup, or of the machine with `/proc/pressure` and no suffix.
pub(super) fn of(folder: &Path, suffix: &str) -> Option<PressureUsage> {
    let read = |name: &str| Some(parse(&files::text(&folder.join(format!("{name}{suffix}")))?));
    let cpu = read("cpu")?;
    Some(PressureUsage {
        cpu,
        memory: read("memory").unwrap_or_default(),
        io: read("io").unwrap_or_default(),
    })
}

/// Parses `some avg10=0.00 avg60=0.12 avg300=0.05 total=1234` and the same for `full`.
fn parse(text: &str) -> Pressure {
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let (kind, values) = line.split_once(' ').unwrap_or((line, ""));
        let value = |name: &str| {
            values.split(' ').find_map(|part| part.split_once('=').filter(|(key, _)| *key == name))
        };
        let average = |name: &str| value(name).and_then(|(_, text)| text.parse().ok()).unwrap_or_default();
        let stall = Stall {
            total: value("total").and_then(|(_, text)| text.parse().ok()).unwrap_or_default(),
            avg10: average("avg10"),
            avg60: average("avg60"),
            avg300: average("avg300"),
        };
        match kind {
            "some" => pressure.some = stall,
            "full" => pressure.full = stall,
            _ => {}
        }
    }
    pressure
}

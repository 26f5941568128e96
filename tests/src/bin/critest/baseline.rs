//! The recorded results of containerd: one line per spec, `STATE NAME # REASON`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

use super::report::{Report, State};

const HEADER: &str =
    "# What Debian's containerd does with the specs of critest. Written by `make critest ARGS=--record`.\n";

#[derive(Debug)]
pub(crate) struct Baseline {
    specs: BTreeMap<String, (State, String)>,
}

impl Baseline {
    pub(crate) fn from_report(report: &Report) -> Self {
        let specs = report.specs.iter();
        Self { specs: specs.map(|spec| (spec.name.clone(), (spec.state, spec.message.clone()))).collect() }
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut specs = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (state, rest) = line.split_once(' ').with_context(|| format!("no name: {line}"))?;
            let state = State::ALL.into_iter().find(|known| known.name() == state);
            let state = state.with_context(|| format!("unknown state: {line}"))?;
            let (name, reason) = rest.split_once(" # ").unwrap_or((rest, ""));
            specs.insert(name.to_owned(), (state, reason.to_owned()));
        }
        Ok(Self { specs })
    }

    pub(crate) fn passes(&self, name: &str) -> bool {
        self.specs.get(name).is_some_and(|(state, _)| *state == State::Passed)
    }

    pub(crate) fn summary(&self) -> String {
        let count = |state| self.specs.values().filter(|(known, _)| *known == state).count();
        State::ALL.map(|state| format!("{} {}", count(state), state.name())).join(", ")
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(HEADER)?;
        for (name, (state, reason)) in &self.specs {
            let separator = if reason.is_empty() { "" } else { " # " };
            writeln!(formatter, "{} {name}{separator}{reason}", state.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_baseline_is_read_again() {
        let text = format!("{HEADER}failed [CRI] B c # too old\npassed [CRI] A b\n");
        let baseline = Baseline::parse(&text).unwrap();
        assert!(baseline.passes("[CRI] A b") && !baseline.passes("[CRI] B c"));
        assert_eq!(baseline.summary(), "1 passed, 1 failed, 0 skipped");
        let written = baseline.to_string();
        assert!(
            written.contains("\nfailed [CRI] B c # too old\n") && written.contains("\npassed [CRI] A b\n")
        );
        assert!(Baseline::parse("won [CRI] A b").is_err());
    }
}

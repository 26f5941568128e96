//! The printed table.

use std::fmt::Write;

use scenarios::Agent;

/// One value of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
}

/// Rows in the order of measurement; the ratio is podward / upstream.
pub(crate) fn render(columns: &[(Agent, Vec<Measurement>)]) -> String {
    let mut text = String::new();
    let _ = write!(text, "| {:52} |", "");
    for (agent, _) in columns {
        let _ = write!(text, " {:>12} |", agent.name());
    }
    let _ = writeln!(text, " {:>6} |", "ratio");
    let _ = writeln!(text, "|{}|{}-------:|", "-".repeat(54), "-------------:|".repeat(columns.len()));
    let Some((_, first)) = columns.first() else { return text };
    for (row, measurement) in first.iter().enumerate() {
        let _ = write!(text, "| {:52} |", measurement.name);
        for (_, measurements) in columns {
            let shown = measurements
                .get(row)
                .map(|measurement| format!("{:.1} {}", measurement.value, measurement.unit));
            let _ = write!(text, " {:>12} |", shown.unwrap_or_default());
        }
        let _ = writeln!(
            text,
            " {:>6} |",
            ratio(columns, row).map(|ratio| format!("{ratio:.2}")).unwrap_or_default()
        );
    }
    text
}

fn ratio(columns: &[(Agent, Vec<Measurement>)], row: usize) -> Option<f64> {
    let value = |expected: Agent| {
        let (_, measurements) = columns.iter().find(|(agent, _)| *agent == expected)?;
        measurements.get(row).map(|measurement| measurement.value)
    };
    let upstream = value(Agent::Upstream)?;
    let podward = value(Agent::Podward)?;
    (upstream > 0.0).then(|| podward / upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_podward_over_upstream() {
        let measurement = |value| vec![Measurement { name: "x", unit: "ms", value }];
        let text = render(&[(Agent::Upstream, measurement(200.0)), (Agent::Podward, measurement(50.0))]);
        assert!(text.contains(" 0.25 |"), "{text}");
    }
}

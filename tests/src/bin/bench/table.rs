//! The printed table.

use std::fmt::Write;

use scenarios::Agent;

/// One row's figure for one agent.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: &'static str,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The value.
    pub(crate) value: f64,
}

/// Rows in the order they were measured; the ratio is podward / upstream.
pub(crate) fn render(columns: &[(Agent, Vec<Figure>)]) -> String {
    let mut text = String::new();
    let _ = write!(text, "| {:52} |", "");
    for (agent, _) in columns {
        let _ = write!(text, " {:>12} |", agent.name());
    }
    let _ = writeln!(text, " {:>6} |", "ratio");
    let _ = writeln!(text, "|{}|{}-------:|", "-".repeat(54), "-------------:|".repeat(columns.len()));
    let Some((_, first)) = columns.first() else { return text };
    for (row, figure) in first.iter().enumerate() {
        let _ = write!(text, "| {:52} |", figure.name);
        for (_, figures) in columns {
            let shown = figures.get(row).map(|figure| format!("{:.1} {}", figure.value, figure.unit));
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

fn ratio(columns: &[(Agent, Vec<Figure>)], row: usize) -> Option<f64> {
    let value = |wanted: Agent| {
        let (_, figures) = columns.iter().find(|(agent, _)| *agent == wanted)?;
        figures.get(row).map(|figure| figure.value)
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
        let figure = |value| vec![Figure { name: "x", unit: "ms", value }];
        let text = render(&[(Agent::Upstream, figure(200.0)), (Agent::Podward, figure(50.0))]);
        assert!(text.contains(" 0.25 |"), "{text}");
    }
}

//! The printed table.

use std::fmt::Write;

/// One value of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
}

/// All values of one agent on one runtime.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) measurements: Vec<Measurement>,
}

/// Rows in the order of measurement. Each column but the first is followed by its ratio to the first.
pub(crate) fn render(columns: &[Column]) -> String {
    let mut text = String::new();
    let Some((first, others)) = columns.split_first() else { return text };
    let _ = write!(text, "| {:52} | {:>20} |", "", first.name);
    for column in others {
        let _ = write!(text, " {:>20} | {:>6} |", column.name, "ratio");
    }
    let _ = writeln!(
        text,
        "\n|{}|{}:|{}",
        "-".repeat(54),
        "-".repeat(21),
        "---------------------:|-------:|".repeat(others.len())
    );
    for (row, measurement) in first.measurements.iter().enumerate() {
        let _ = write!(text, "| {:52} | {:>20} |", measurement.name, shown(first, row));
        for column in others {
            let ratio = ratio(first, column, row).map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            let _ = write!(text, " {:>20} | {ratio:>6} |", shown(column, row));
        }
        text.push('\n');
    }
    text
}

fn shown(column: &Column, row: usize) -> String {
    let measurement = column.measurements.get(row);
    measurement.map(|one| format!("{:.1} {}", one.value, one.unit)).unwrap_or_default()
}

fn ratio(first: &Column, other: &Column, row: usize) -> Option<f64> {
    let value = |column: &Column| column.measurements.get(row).map(|measurement| measurement.value);
    let base = value(first)?;
    (base > 0.0).then_some(value(other)? / base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_relative_to_the_first_column() {
        let column = |name: &str, value| Column {
            name: name.to_owned(),
            measurements: vec![Measurement { name: "x", unit: "ms", value }],
        };
        let text = render(&[column("upstream", 200.0), column("podward", 50.0), column("inside", 10.0)]);
        assert!(text.contains(" 0.25 |") && text.contains(" 0.05 |"), "{text}");
    }
}

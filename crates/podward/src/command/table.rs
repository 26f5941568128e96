//! Tables and times as kubectl prints them.

use std::time::Duration;

use model::Timestamp;

/// Rows with aligned columns, which are as wide as their widest cell.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Kept for the rows of later calls, so that the columns of a watch stay aligned.
    widths: Vec<usize>,
}

impl Table {
    pub(super) fn new<const N: usize>(headings: [&str; N]) -> Self {
        let mut table = Self::default();
        table.add(headings);
        table
    }

    pub(super) fn without_headings() -> Self {
        Self::default()
    }

    pub(super) fn add<const N: usize>(&mut self, cells: [&str; N]) {
        self.add_row(cells.iter().map(|cell| (*cell).to_owned()).collect());
    }

    pub(super) fn add_row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The rows since the last call, with three spaces between columns.
    pub(super) fn take_text(&mut self) -> String {
        let rows = std::mem::take(&mut self.rows);
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                let width = cell.chars().count();
                match self.widths.get_mut(column) {
                    Some(known) => *known = (*known).max(width),
                    None => self.widths.push(width),
                }
            }
        }
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&self.widths) {
                line.push_str(&format!("{cell:<width$}   "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A duration in the form of kubectl: a second unit is shown while the first one is small.
pub(super) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two_units = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two_units(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two_units(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two_units(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => two_units(days / 365, "y", days % 365, "d"),
    }
}

/// The time since `time`, or `<unknown>`.
pub(super) fn age_of(time: Option<Timestamp>, now: Timestamp) -> String {
    time.filter(|time| !time.is_zero()).map_or("<unknown>".to_owned(), |time| age(now.since(time)))
}

/// A time in whole seconds and UTC.
pub(super) fn long_time(time: Timestamp) -> String {
    Timestamp::from_secs(time.as_nanos().div_euclid(1_000_000_000)).to_rfc3339()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_ages_as_kubectl() {
        let cases = [
            (5, "5s"),
            (119, "119s"),
            (150, "2m30s"),
            (180, "3m"),
            (600, "10m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (400_000, "4d15h"),
            (700_000, "8d"),
            (70_000_000, "2y80d"),
        ];
        for (seconds, text) in cases {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn later_rows_keep_column_widths() {
        let mut table = Table::new(["NAME", "STATUS"]);
        table.add(["a-long-name", "Running"]);
        assert_eq!(table.take_text(), "NAME          STATUS\na-long-name   Running\n");
        table.add(["b", "Pending"]);
        assert_eq!(table.take_text(), "b             Pending\n");
        assert_eq!(table.take_text(), "");
    }
}

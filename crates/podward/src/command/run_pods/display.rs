//! The display of a run: a table that is drawn again on a terminal, lines of changes in a pipe.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::rows::Row;

/// Where and how to write.
pub(super) struct Display<W> {
    out: W,
    form: Form,
}

enum Form {
    /// A line for each change.
    Lines { shown: BTreeMap<String, String> },
    /// A table of this width and height at most, redrawn in place.
    Table { width: usize, height: usize, rows: Vec<Row>, drawn: usize },
    /// Only the output of containers.
    Quiet,
}

impl<W: Write> Display<W> {
    pub(super) fn lines(out: W) -> Self {
        Self { out, form: Form::Lines { shown: BTreeMap::new() } }
    }

    pub(super) fn table(out: W, width: usize, height: usize) -> Self {
        Self { out, form: Form::Table { width, height, rows: Vec::new(), drawn: 0 } }
    }

    pub(super) fn quiet(out: W) -> Self {
        Self { out, form: Form::Quiet }
    }

    /// Shows the current state.
    pub(super) fn update(&mut self, new: &[Row]) -> io::Result<()> {
        match &mut self.form {
            Form::Quiet => return Ok(()),
            Form::Lines { shown } => {
                let mut now = BTreeMap::new();
                for row in new {
                    if shown.get(&row.subject) != Some(&row.state) {
                        writeln!(self.out, "{}: {}", row.subject, row.state)?;
                    }
                    now.insert(row.subject.clone(), row.state.clone());
                }
                *shown = now;
            }
            Form::Table { rows, .. } => {
                if *rows == new {
                    return Ok(());
                }
                new.clone_into(rows);
                self.clear()?;
                self.draw()?;
            }
        }
        self.out.flush()
    }

    /// Prints a line that stays, above the table.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        self.clear()?;
        writeln!(self.out, "{line}")?;
        self.draw()?;
        self.out.flush()
    }

    /// Prints a remark about the run.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        match self.form {
            Form::Quiet => Ok(()),
            Form::Lines { .. } | Form::Table { .. } => self.line(text),
        }
    }

    fn clear(&mut self) -> io::Result<()> {
        match &mut self.form {
            Form::Table { drawn, .. } if *drawn > 0 => {
                // Up to the first line of the table, and clear from there.
                let lines = std::mem::take(drawn);
                write!(self.out, "\x1b[{lines}A\r\x1b[J")
            }
            Form::Table { .. } | Form::Lines { .. } | Form::Quiet => Ok(()),
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let Form::Table { width, height, rows, drawn } = &mut self.form else { return Ok(()) };
        let column = rows.iter().map(|row| row.subject.chars().count()).max().unwrap_or_default();
        // The last line of the screen stays free, so that the table does not scroll.
        let visible = rows.len().min(height.saturating_sub(2).max(1));
        for row in rows.iter().take(visible) {
            let line = format!("{:column$}  {} {}", row.subject, row.state, row.progress);
            let line: String = line.trim_end().chars().take(width.saturating_sub(1)).collect();
            writeln!(self.out, "{line}")?;
        }
        *drawn = visible;
        if visible < rows.len() {
            writeln!(self.out, "... and {} more", rows.len() - visible)?;
            *drawn += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, state: &str, progress: &str) -> Row {
        Row { subject: subject.to_owned(), state: state.to_owned(), progress: progress.to_owned() }
    }

    fn written(display: Display<Vec<u8>>) -> String {
        String::from_utf8(display.out).unwrap()
    }

    #[test]
    fn pipe_gets_a_line_for_each_change() {
        let mut display = Display::lines(Vec::new());
        display.update(&[row("web", "Pending", ""), row("image i", "pulling", "1 of 2 MiB")]).unwrap();
        display.update(&[row("web", "Pending", ""), row("image i", "pulling", "2 of 2 MiB")]).unwrap();
        display.line("web/a | hello").unwrap();
        display.update(&[row("web", "Running", "")]).unwrap();
        assert_eq!(written(display), "web: Pending\nimage i: pulling\nweb/a | hello\nweb: Running\n");
    }

    #[test]
    fn terminal_shows_a_table_that_is_redrawn_below_the_output() {
        let mut display = Display::table(Vec::new(), 24, 10);
        display.update(&[row("web", "Pending", ""), row("web/a", "pulling", "1 of 200 MiB")]).unwrap();
        display.update(&[row("web", "Pending", ""), row("web/a", "pulling", "1 of 200 MiB")]).unwrap();
        display.line("hello").unwrap();
        let table = "web    Pending\nweb/a  pulling 1 of 200\n";
        assert_eq!(written(display), format!("{table}\x1b[2A\r\x1b[Jhello\n{table}"));
    }

    #[test]
    fn table_is_not_higher_than_the_terminal() {
        let mut display = Display::table(Vec::new(), 80, 4);
        let rows: Vec<Row> = (0..5).map(|number| row(&format!("p{number}"), "Running", "")).collect();
        display.update(&rows).unwrap();
        assert_eq!(written(display), "p0  Running\np1  Running\n... and 3 more\n");
    }

    #[test]
    fn quiet_run_shows_only_output() {
        let mut display = Display::quiet(Vec::new());
        display.update(&[row("web", "Pending", "")]).unwrap();
        display.note("stopping").unwrap();
        display.line("hello").unwrap();
        assert_eq!(written(display), "hello\n");
    }
}

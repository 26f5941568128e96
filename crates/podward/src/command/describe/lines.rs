//! Lines of a description: a title, and its value in one column.

/// Where values begin, counted from the title's own indent.
const COLUMN: usize = 18;

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
}

impl Lines {
    /// `Title:   value`.
    pub(super) fn field(&mut self, title: &str, value: &str) {
        self.nested(0, title, value);
    }

    /// The same, indented.
    pub(super) fn nested(&mut self, depth: usize, title: &str, value: &str) {
        let indent = "  ".repeat(depth);
        let title = format!("{title}:");
        let first = format!("{indent}{title:<COLUMN$}{}", value.lines().next().unwrap_or_default());
        self.text.push_str(first.trim_end());
        self.text.push('\n');
        for more in value.lines().skip(1) {
            self.text.push_str(&format!("{indent}{:<COLUMN$}{more}\n", ""));
        }
    }

    /// A title with several values below each other.
    pub(super) fn list(&mut self, title: &str, values: &[String]) {
        let value = if values.is_empty() { "<none>".to_owned() } else { values.join("\n") };
        self.field(title, &value);
    }

    /// A title on a line of its own.
    pub(super) fn title(&mut self, title: &str) {
        self.text.push_str(&format!("{title}:\n"));
    }

    /// A line as it is, indented.
    pub(super) fn raw(&mut self, depth: usize, line: &str) {
        self.text.push_str(&format!("{}{line}\n", "  ".repeat(depth)));
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

//! The lines of a description: titles, with the values aligned in one column.

/// The column of the values, counted from the indent of the title.
const VALUE_COLUMN: usize = 18;

#[derive(Debug, Default)]
pub(super) struct Description {
    text: String,
}

impl Description {
    /// `Title:   value`.
    pub(super) fn field(&mut self, title: &str, value: &str) {
        self.nested(0, title, value);
    }

    /// Like [`Self::field`], indented.
    pub(super) fn nested(&mut self, depth: usize, title: &str, value: &str) {
        let indent = "  ".repeat(depth);
        let title = format!("{title}:");
        let first = format!("{indent}{title:<VALUE_COLUMN$}{}", value.lines().next().unwrap_or_default());
        self.text.push_str(first.trim_end());
        self.text.push('\n');
        for more in value.lines().skip(1) {
            self.text.push_str(&format!("{indent}{:<VALUE_COLUMN$}{more}\n", ""));
        }
    }

    /// A title with one value per line.
    pub(super) fn list(&mut self, title: &str, values: &[String]) {
        self.field(title, &or_none(values, "\n"));
    }

    /// A line with only a title.
    pub(super) fn title(&mut self, title: &str) {
        self.text.push_str(&format!("{title}:\n"));
    }

    /// An indented line without a title.
    pub(super) fn raw(&mut self, depth: usize, line: &str) {
        self.text.push_str(&format!("{}{line}\n", "  ".repeat(depth)));
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The joined values, or `<none>`.
pub(super) fn or_none(values: &[String], separator: &str) -> String {
    if values.is_empty() { "<none>".to_owned() } else { values.join(separator) }
}

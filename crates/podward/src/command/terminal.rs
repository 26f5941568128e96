//! The terminal on standard output.

use std::io::IsTerminal;

/// For a terminal that does not report its size.
const DEFAULT_WIDTH: usize = 80;

const DEFAULT_HEIGHT: usize = 24;

/// In columns and lines; `None` if standard output is not a terminal.
pub(super) fn size() -> Option<(usize, usize)> {
    let width = width()?;
    let reported = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_row));
    Some((width, reported.filter(|height| *height > 0).unwrap_or(DEFAULT_HEIGHT)))
}

/// In columns; `None` if standard output is not a terminal.
pub(super) fn width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let reported = rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
    let from_environment = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    reported.filter(|width| *width > 0).or_else(from_environment).or(Some(DEFAULT_WIDTH))
}

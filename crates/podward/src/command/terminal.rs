//! What is known of the terminal that is written to.

use std::io::IsTerminal;

/// The width of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;

/// The columns of the terminal on standard output; `None` if it is none.
pub(super) fn width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let told = rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
    let named = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    told.filter(|width| *width > 0).or_else(named).or(Some(USUAL_WIDTH))
}

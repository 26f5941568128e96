//! Switches the terminal to raw mode, so that all keys go to the container.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::json;

/// Restores the terminal when dropped.
pub(super) struct RawMode {
    original: Termios,
}

impl RawMode {
    pub(super) fn enter() -> io::Result<Self> {
        let terminal = io::stdin();
        let original = tcgetattr(&terminal)?;
        let mut raw = original.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { original })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.original);
    }
}

/// The size of the terminal, as JSON for the resize channel; `None` if it is unknown.
pub(super) fn size() -> Option<String> {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| json!({"Width": size.ws_col, "Height": size.ws_row}).to_string())
}

//! The terminal while what is typed belongs to the container.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::json;

/// The terminal in raw mode until this is dropped.
pub(super) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Hands every key on as it is.
    pub(super) fn enter() -> io::Result<Self> {
        let terminal = io::stdin();
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The terminal's size as the protocol tells it.
pub(super) fn size() -> Option<String> {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| json!({"Width": size.ws_col, "Height": size.ws_row}).to_string())
}

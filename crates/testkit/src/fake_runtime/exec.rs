use std::fmt;
use std::time::Duration;

use super::record::Container;

/// What a command in a container does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Its exit code.
    pub code: i32,
    /// What it prints.
    pub stdout: Vec<u8>,
    /// What it prints to stderr.
    pub stderr: Vec<u8>,
    /// How long it runs; past the caller's timeout it is killed.
    pub takes: Duration,
}

impl ExecOutcome {
    /// Ends at once with `code` and prints nothing.
    #[must_use]
    pub fn exits(code: i32) -> Self {
        Self { code, ..Self::default() }
    }

    /// The same, but it runs for `takes`.
    #[must_use]
    pub fn taking(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    /// The same, but it prints `text`.
    #[must_use]
    pub fn printing(self, text: &str) -> Self {
        Self { stdout: text.into(), ..self }
    }
}

/// Says what a command does in a running container.
pub type ExecHook = Box<dyn FnMut(&Container, &[String]) -> ExecOutcome + Send>;

/// The hook, or success when there is none.
#[derive(Default)]
pub(crate) struct Exec(pub(crate) Option<ExecHook>);

impl Exec {
    pub(crate) fn outcome(&mut self, container: &Container, command: &[String]) -> ExecOutcome {
        self.0.as_mut().map(|hook| hook(container, command)).unwrap_or_default()
    }
}

impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exec").field(&self.0.is_some()).finish()
    }
}

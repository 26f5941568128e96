use std::fmt;
use std::time::Duration;

use super::record::Container;

/// Simulated result of a command in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutcome {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Run time; the command is killed at the caller's timeout.
    pub takes: Duration,
}

impl ExecOutcome {
    /// Exits at once with `code` and without output.
    #[must_use]
    pub fn exits(code: i32) -> Self {
        Self { code, ..Self::default() }
    }

    /// The same, but runs for `takes`.
    #[must_use]
    pub fn taking(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    /// The same, but prints `text`.
    #[must_use]
    pub fn printing(self, text: &str) -> Self {
        Self { stdout: text.into(), ..self }
    }
}

/// Decides the result of a command in a running container.
pub type ExecHook = Box<dyn FnMut(&Container, &[String]) -> ExecOutcome + Send>;

/// The hook; commands succeed if there is none.
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

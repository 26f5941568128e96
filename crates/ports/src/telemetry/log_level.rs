//! Verbosity of the log.

/// Changes the verbosity while the agent runs.
pub trait LogLevel: Send + Sync {
    /// Sets the verbosity, as `--v` does.
    ///
    /// # Errors
    /// The reason as text.
    fn set(&self, verbosity: u32) -> Result<(), String>;
}

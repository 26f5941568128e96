//! How much the agent logs.

/// Changes what is logged while the agent runs.
pub trait LogLevel: Send + Sync {
    /// Sets the verbosity, as `--v` does.
    ///
    /// # Errors
    /// Why it could not be changed.
    fn set(&self, verbosity: u32) -> Result<(), String>;
}

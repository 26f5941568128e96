//! Exported spans.

/// The tracing target of exported spans. Logs exclude it, so that a span costs nothing without an exporter.
pub const TARGET: &str = "podward::trace";

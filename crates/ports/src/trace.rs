//! Spans for a collector.

/// The target of spans that are exported. Logs leave it out, so that a span costs nothing unless somebody collects.
pub const TARGET: &str = "podward::trace";

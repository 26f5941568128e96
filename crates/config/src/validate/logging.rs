//! Rules for logging.

use super::{Checker, field};
use crate::{
    configuration::{LogFormat, LoggingConfiguration},
    gates::Gate,
};

/// Upstream stores the verbosity in a signed 32-bit integer.
const MAX_VERBOSITY: u32 = i32::MAX.unsigned_abs();

pub(super) fn check(checker: &mut Checker<'_>, logging: &LoggingConfiguration) {
    let positive = !logging.flush_frequency.is_zero() && !logging.flush_frequency.is_negative();
    checker.rule(positive, "logging.flushFrequency", "must be greater than zero");
    checker.in_range(logging.verbosity, 0..=MAX_VERBOSITY.into(), "logging.verbosity");
    checker.requires_gate(Gate::LoggingBetaOptions, logging.format == LogFormat::Json, "logging.format");
    checker.rule(
        logging.vmodule.is_empty() || logging.format == LogFormat::Text,
        "logging.vmodule",
        "requires logging.format to be text",
    );
    for (index, item) in logging.vmodule.iter().enumerate() {
        let path = || field("logging").key("vmodule").index(index);
        let pattern = &item.file_pattern;
        checker.rule_at(!pattern.is_empty(), || path().key("filePattern"), "must not be empty");
        checker.rule_at(
            !pattern.contains(['=', ',']),
            || path().key("filePattern"),
            "must not contain '=' or ','",
        );
        checker.rule_at(
            item.verbosity <= MAX_VERBOSITY,
            || path().key("verbosity"),
            "must not be greater than 2147483647",
        );
    }
    for (name, options) in [("text", &logging.options.text), ("json", &logging.options.json)] {
        let path = format!("logging.options.{name}");
        checker.requires_gate(
            Gate::LoggingAlphaOptions,
            options.split_stream,
            &format!("{path}.splitStream"),
        );
        let buffered = !options.info_buffer_size.is_zero();
        checker.requires_gate(Gate::LoggingAlphaOptions, buffered, &format!("{path}.infoBufferSize"));
    }
}

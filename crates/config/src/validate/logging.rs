//! Rules about logging.

use super::{Check, field};
use crate::{
    configuration::{LogFormat, LoggingConfiguration},
    gates::Gate,
};

/// The largest verbosity that fits where it is used.
const MAX_VERBOSITY: u32 = i32::MAX.unsigned_abs();

pub(super) fn check(check: &mut Check<'_>, logging: &LoggingConfiguration) {
    let positive = !logging.flush_frequency.is_zero() && !logging.flush_frequency.is_negative();
    check.rule(positive, "logging.flushFrequency", "must be longer than zero");
    check.in_range(logging.verbosity, 0..=MAX_VERBOSITY.into(), "logging.verbosity");
    check.needs_gate(Gate::LoggingBetaOptions, logging.format == LogFormat::Json, "logging.format");
    check.rule(
        logging.vmodule.is_empty() || logging.format == LogFormat::Text,
        "logging.vmodule",
        "works with the text format only",
    );
    for (index, item) in logging.vmodule.iter().enumerate() {
        let at = || field("logging").key("vmodule").index(index);
        let pattern = &item.file_pattern;
        check.rule_at(!pattern.is_empty(), || at().key("filePattern"), "must not be empty");
        check.rule_at(
            !pattern.contains(['=', ',']),
            || at().key("filePattern"),
            "must not contain '=' or ','",
        );
        check.rule_at(item.verbosity <= MAX_VERBOSITY, || at().key("verbosity"), "is too large");
    }
    for (name, options) in [("text", &logging.options.text), ("json", &logging.options.json)] {
        let at = format!("logging.options.{name}");
        check.needs_gate(Gate::LoggingAlphaOptions, options.split_stream, &format!("{at}.splitStream"));
        let buffered = !options.info_buffer_size.is_zero();
        check.needs_gate(Gate::LoggingAlphaOptions, buffered, &format!("{at}.infoBufferSize"));
    }
}

//! Settings of the agent's log.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use smart_default::SmartDefault;
use values::duration::GoDuration;
use values::quantity::WrittenQuantity;

use super::{default_if_zero, empty_is_default, is_zero};

/// The section with the single field `logging`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    pub logging: LoggingConfiguration,
}

/// Format, verbosity and routing of the agent's log.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoggingConfiguration {
    #[serde(deserialize_with = "empty_is_default")]
    pub format: LogFormat,
    /// Maximum time that a log line stays in a buffer.
    #[serde(deserialize_with = "duration_or_nanoseconds")]
    #[default(GoDuration::from_secs(5))]
    pub flush_frequency: GoDuration,
    /// 0 logs the least.
    pub verbosity: u32,
    /// Verbosity by source file; for the text format only.
    #[serde(skip_serializing_if = "is_zero")]
    pub vmodule: Vec<VmoduleItem>,
    pub options: FormatOptions,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line of text per message.
    #[default]
    Text,
    /// One JSON object per message.
    Json,
}

/// Verbosity of the source files whose names match a pattern.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmoduleItem {
    /// File name without extension; may contain `*` and `?`.
    pub file_pattern: String,
    pub verbosity: u32,
}

/// Output options per log format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormatOptions {
    pub text: OutputRouting,
    pub json: OutputRouting,
}

/// Output streams and buffering (alpha).
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutputRouting {
    /// Write errors to standard error and everything else to standard output.
    #[serde(skip_serializing_if = "is_zero")]
    pub split_stream: bool,
    /// Buffer size for everything but errors; zero for no buffer.
    #[default(WrittenQuantity::zero())]
    pub info_buffer_size: WrittenQuantity,
}

impl Logging {
    pub(super) fn apply_defaults(&mut self) {
        default_if_zero(&mut self.logging.flush_frequency, LoggingConfiguration::default().flush_frequency);
    }
}

/// Accepts a duration or, for compatibility with older configuration files, a number of nanoseconds.
fn duration_or_nanoseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GoDuration, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = GoDuration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration with its unit, such as \"5s\", or a number of nanoseconds")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<GoDuration, E> {
            Ok(GoDuration::from_nanos(nanos))
        }

        fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<GoDuration, E> {
            i64::try_from(nanos)
                .map(GoDuration::from_nanos)
                .map_err(|_| E::custom("the duration is too long"))
        }
    }
    deserializer.deserialize_any(Visitor)
}

//! Logging.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{empty_is_default, is_zero, unless_set};
use crate::{duration::GoDuration, quantity::Quantity};

/// The section that holds the one field `logging`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    /// Format, verbosity and routing of the agent's log.
    pub logging: LoggingConfiguration,
}

/// Format, verbosity and routing of the agent's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoggingConfiguration {
    /// Text or JSON lines.
    #[serde(deserialize_with = "empty_is_default")]
    pub format: LogFormat,
    /// Longest time a line may wait in a buffer.
    #[serde(deserialize_with = "duration_or_nanoseconds")]
    pub flush_frequency: GoDuration,
    /// Verbosity level, 0 for the least.
    pub verbosity: u32,
    /// Verbosity by source file pattern, text format only.
    #[serde(skip_serializing_if = "is_zero")]
    pub vmodule: Vec<VmoduleItem>,
    /// Routing per format.
    pub options: FormatOptions,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line per message.
    #[default]
    Text,
    /// One JSON object per message.
    Json,
}

/// Verbosity of the source files that match a pattern.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmoduleItem {
    /// File name without extension, with `*` and `?`.
    pub file_pattern: String,
    /// Verbosity level for those files.
    pub verbosity: u32,
}

/// Routing per format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormatOptions {
    /// For the text format.
    pub text: OutputRouting,
    /// For the JSON format.
    pub json: OutputRouting,
}

/// Where messages go and how they are buffered (alpha).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutputRouting {
    /// Errors to standard error, the rest to standard output.
    #[serde(skip_serializing_if = "is_zero")]
    pub split_stream: bool,
    /// Buffer for the rest; zero for none.
    pub info_buffer_size: Quantity,
}

impl Default for LoggingConfiguration {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            flush_frequency: GoDuration::from_secs(5),
            verbosity: 0,
            vmodule: Vec::new(),
            options: FormatOptions::default(),
        }
    }
}

impl Default for OutputRouting {
    fn default() -> Self {
        Self { split_stream: false, info_buffer_size: Quantity::zero() }
    }
}

impl Logging {
    pub(super) fn complete(&mut self) {
        unless_set(&mut self.logging.flush_frequency, LoggingConfiguration::default().flush_frequency);
    }
}

/// This one duration may be a number of nanoseconds, which is how it was once written.
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
            i64::try_from(nanos).map(GoDuration::from_nanos).map_err(|_| E::custom("too long a duration"))
        }
    }
    deserializer.deserialize_any(Visitor)
}

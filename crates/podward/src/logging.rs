//! Logs to standard error, as lines for people or as JSON, and spans to a collector.

use std::sync::Arc;

use config::KubeletConfiguration;
use config::configuration::LogFormat;
use otlp::{Exported, SpanLayer};
use ports::log_level::LogLevel;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

/// Sets the process up for logging, and for the export of spans where that is wanted. `PODWARD_LOG` overrides the
/// verbosity with `tracing` directives. Returns what changes the verbosity later.
pub fn set_up(config: &KubeletConfiguration, spans: Option<SpanLayer>) -> Arc<dyn LogLevel> {
    let logging = &config.logs.logging;
    let filter = EnvFilter::try_from_env("PODWARD_LOG").unwrap_or_else(|_| filter(logging.verbosity));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match logging.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => {
            let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(color).with_target(false).boxed()
        }
    };
    let spans = spans.map(|layer| layer.with_filter(Exported));
    let all = tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans);
    if let Err(error) = all.try_init() {
        eprintln!("podward: logging is set up already: {error}");
    }
    Arc::new(Reloaded(handle))
}

/// What a verbosity lets through. Spans for a collector are none of the log's.
fn filter(verbosity: u32) -> EnvFilter {
    let level = match verbosity {
        0..=3 => "info",
        4..=5 => "debug",
        _ => "trace",
    };
    // Libraries below are only of interest when one looks for them.
    let libraries = "h2=info,hyper=info,hyper_util=info,tonic=info,tower=info,rustls=info";
    EnvFilter::new(format!("{level},{libraries},{}=off", otlp::TARGET))
}

struct Reloaded(reload::Handle<EnvFilter, Registry>);

impl LogLevel for Reloaded {
    fn set(&self, verbosity: u32) -> Result<(), String> {
        self.0.reload(filter(verbosity)).map_err(|error| error.to_string())
    }
}

//! Logs to standard error, as text or JSON, one line per event, and exports spans to a collector.

mod bounded_writer;
mod single_lines;

use std::sync::Arc;

use config::KubeletConfiguration;
use config::configuration::LogFormat;
use otlp::{ExportedSpans, SpanLayer};
use ports::telemetry::log_level::LogLevel;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use bounded_writer::BoundedWriter;
use single_lines::SingleLines;

/// Installs the global subscriber. `PODWARD_LOG` overrides the verbosity with `tracing` directives. The result changes the
/// verbosity later.
pub fn set_up(config: &KubeletConfiguration, spans: Option<SpanLayer>) -> Arc<dyn LogLevel> {
    let logging = &config.logs.logging;
    let filter =
        without_bodies(EnvFilter::try_from_env("PODWARD_LOG").unwrap_or_else(|_| filter(logging.verbosity)));
    let (filter, handle) = reload::Layer::new(filter);
    let log = tracing_subscriber::fmt::layer();
    let log = match logging.format {
        LogFormat::Json => {
            log.with_writer(BoundedWriter::new(std::io::stderr())).json().flatten_event(true).boxed()
        }
        LogFormat::Text => {
            let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
            let output = SingleLines(BoundedWriter::new(std::io::stderr()));
            log.with_writer(output).with_ansi(color).with_target(false).boxed()
        }
    };
    let spans = spans.map(|layer| layer.with_filter(ExportedSpans));
    let subscriber = tracing_subscriber::registry().with(log.with_filter(filter)).with(spans);
    if let Err(error) = subscriber.try_init() {
        eprintln!("podward: logging is already set up: {error}");
    }
    Arc::new(ReloadHandle(handle))
}

/// Installs a subscriber for programs without a configuration: text on standard error.
pub fn set_up_simple() {
    let filter = EnvFilter::try_from_env("PODWARD_LOG").unwrap_or_else(|_| filter(0));
    let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt::layer().with_writer(SingleLines(std::io::stderr));
    let log = log.with_ansi(color).with_target(false).with_filter(filter);
    if let Err(error) = tracing_subscriber::registry().with(log).try_init() {
        eprintln!("podward: logging is already set up: {error}");
    }
}

/// Installs a subscriber that writes to a file, for programs that use the terminal themselves.
pub fn set_up_in_file(file: std::fs::File, verbosity: u32) -> Arc<dyn LogLevel> {
    let filter = EnvFilter::try_from_env("PODWARD_LOG").unwrap_or_else(|_| filter(verbosity));
    let (filter, handle) = reload::Layer::new(filter);
    let log = tracing_subscriber::fmt::layer().with_writer(SingleLines(Arc::new(file)));
    let log = log.with_ansi(false).with_target(false).with_filter(filter);
    if let Err(error) = tracing_subscriber::registry().with(log).try_init() {
        eprintln!("podward: logging is already set up: {error}");
    }
    Arc::new(ReloadHandle(handle))
}

/// The log filter of a verbosity. Spans for the collector never appear in the log.
fn filter(verbosity: u32) -> EnvFilter {
    let level = match verbosity {
        0..=3 => "info",
        4..=5 => "debug",
        _ => "trace",
    };
    // Libraries log a lot below info; use PODWARD_LOG to see it. kube's watcher also returns the failures that it logs as
    // warnings: the stages decide whether a failed watch is one.
    let libraries = "kube_runtime=error,h2=info,hyper=info,hyper_util=info,tonic=info,tower=info,rustls=info";
    EnvFilter::new(format!("{level},{libraries},{}=off", otlp::TARGET))
}

/// kube-client logs answers that it cannot decode, which may contain Secrets and tokens. The errors that it returns do not.
fn without_bodies(filter: EnvFilter) -> EnvFilter {
    // The longest target wins, so that a directive in PODWARD_LOG does not enable them again.
    ["kube_client=error", "kube_client::client=error"]
        .into_iter()
        .filter_map(|directive| directive.parse().ok())
        .fold(filter, EnvFilter::add_directive)
}

struct ReloadHandle(reload::Handle<EnvFilter, Registry>);

impl LogLevel for ReloadHandle {
    fn set(&self, verbosity: u32) -> Result<(), String> {
        self.0.reload(without_bodies(filter(verbosity))).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_the_api_server_are_never_logged() {
        for directives in ["trace", "kube_client=trace", "kube_client::client=trace", "info"] {
            let filter = without_bodies(EnvFilter::new(directives));
            let (enabled, other) =
                tracing::subscriber::with_default(tracing_subscriber::registry().with(filter), || {
                    (
                        tracing::enabled!(target: "kube_client::client", tracing::Level::WARN),
                        tracing::enabled!(target: "podward", tracing::Level::ERROR),
                    )
                });
            assert!(!enabled, "{directives}");
            assert!(other || directives.starts_with("kube"), "{directives}");
        }
    }
}

//! Logs to standard error, as lines for people or as JSON.

use std::sync::Arc;

use config::KubeletConfiguration;
use config::configuration::LogFormat;
use ports::log_level::LogLevel;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// Sets the process up for logging. `PODWARD_LOG` overrides the verbosity with `tracing` directives. Returns what
/// changes the verbosity later.
pub fn set_up(config: &KubeletConfiguration) -> Arc<dyn LogLevel> {
    let logging = &config.logs.logging;
    let filter = EnvFilter::try_from_env("PODWARD_LOG").unwrap_or_else(|_| filter(logging.verbosity));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let (result, level): (_, Arc<dyn LogLevel>) = match logging.format {
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.finish().try_init(), Arc::new(Reloaded(move |filter| handle.reload(filter))))
        }
        LogFormat::Text => {
            let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
            let lines = lines.with_ansi(color).with_target(false).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.finish().try_init(), Arc::new(Reloaded(move |filter| handle.reload(filter))))
        }
    };
    if let Err(error) = result {
        eprintln!("podward: logging is set up already: {error}");
    }
    level
}

/// What a verbosity lets through.
fn filter(verbosity: u32) -> EnvFilter {
    let level = match verbosity {
        0..=3 => "info",
        4..=5 => "debug",
        _ => "trace",
    };
    // Libraries below are only of interest when one looks for them.
    EnvFilter::new(format!("{level},h2=info,hyper=info,hyper_util=info,tonic=info,tower=info,rustls=info"))
}

struct Reloaded<F>(F);

impl<F> LogLevel for Reloaded<F>
where
    F: Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync,
{
    fn set(&self, verbosity: u32) -> Result<(), String> {
        (self.0)(filter(verbosity)).map_err(|error| error.to_string())
    }
}

//! Logs to standard error, as lines for people or as JSON.

use config::KubeletConfiguration;
use config::configuration::LogFormat;
use tracing_subscriber::EnvFilter;

/// Sets the process up for logging. `PODWARD_LOG` overrides the verbosity with `tracing` directives.
pub fn set_up(config: &KubeletConfiguration) {
    let logging = &config.logs.logging;
    let level = match logging.verbosity {
        0..=3 => "info",
        4..=5 => "debug",
        _ => "trace",
    };
    // Libraries below are only of interest when one looks for them.
    let directives = format!("{level},h2=info,hyper=info,hyper_util=info,tonic=info,tower=info,rustls=info");
    let filter = EnvFilter::try_from_env("PODWARD_LOG").unwrap_or_else(|_| EnvFilter::new(directives));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let result = match logging.format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => {
            let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(color).with_target(false).try_init()
        }
    };
    if let Err(error) = result {
        eprintln!("podward: logging is set up already: {error}");
    }
}

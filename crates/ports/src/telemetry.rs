//! Metrics and traces of adapters, and the log level. Implemented by `agent` and `otlp`.

pub mod call_meter;
pub mod certificate_meter;
pub mod log_level;
pub mod request_meter;
pub mod trace;

//! ConfigMaps and Secrets from the manifest folder, environment and downward API, on real containerd.

mod environment;
mod projection;
mod restarts;
mod support;

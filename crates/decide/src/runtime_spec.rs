//! Builds the sandbox and container specs that are sent to the runtime: environment, mounts, DNS and security.

pub mod container_hash;
pub mod container_spec;
pub mod dns;
pub mod environment;
pub mod hosts_file;
pub mod mounts;
pub mod pod_paths;
pub mod runtime_class;
pub mod sandbox_spec;
pub mod security;
pub mod service_environment;
pub mod user_namespaces;

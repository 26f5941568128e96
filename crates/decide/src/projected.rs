//! Content that pods mount or read: ConfigMaps, Secrets, tokens, certificates and trust bundles.

pub mod object_references;
mod pem;
pub mod pod_certificates;
pub mod projected_files;
pub mod service_account_tokens;
pub mod trust_bundles;

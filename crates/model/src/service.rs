use serde::{Deserialize, Serialize};

/// The fields of a Service that environment variables expose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    /// Its address; empty or `None` when it has none.
    pub cluster_ip: String,
    pub ports: Vec<ServicePort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServicePort {
    /// Its name, if it has one.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    pub port: i32,
}

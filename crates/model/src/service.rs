use serde::{Deserialize, Serialize};

/// A service of the cluster, as far as variables tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its address; empty or `None` when it has none.
    pub cluster_ip: String,
    /// Its ports, in order.
    pub ports: Vec<ServicePort>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePort {
    /// Its name, if it has one.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Its number.
    pub port: i32,
}

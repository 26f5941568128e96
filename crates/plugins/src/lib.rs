//! gRPC clients for plugins (registration and the CSI node service), and the server of the pod resources API.
//!
//! Implements `ports::plugins::plugin_registry` and `ports::plugins::csi`.
//!
//! Invariants: every call has a deadline; each call uses a new connection, because a driver may be replaced at the same
//! path at any time; `Debug` output contains no secrets.
//!
//! Out of scope: retries, the plugin registry, volume paths.

mod connect;
mod csi_node;
mod pod_resources;
mod registration;

/// Generated code of the protocols.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::unused_async,
    reason = "generated"
)]
mod generated {
    /// CSI v1, node service: package `csi.v1`.
    pub mod csi_v1 {
        tonic::include_proto!("csi.v1");

        macro_rules! debug_without_secrets {
            ($($message:ident),*) => {$(
                impl std::fmt::Debug for $message {
                    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.debug_struct(stringify!($message))
                            .field("volume_id", &self.volume_id)
                            .finish_non_exhaustive()
                    }
                }
            )*};
        }

        debug_without_secrets!(NodeStageVolumeRequest, NodePublishVolumeRequest, NodeExpandVolumeRequest);
    }

    /// Pod resources v1: package `v1`.
    pub mod pod_resources_v1 {
        tonic::include_proto!("v1");
    }

    /// Pod resources before v1: package `v1alpha1`.
    pub mod pod_resources_v1alpha1 {
        tonic::include_proto!("v1alpha1");
    }

    /// Plugin registration v1: package `pluginregistration`.
    pub mod registration_v1 {
        tonic::include_proto!("pluginregistration");
    }
}

pub use connect::dial;
pub use csi_node::GrpcCsiConnector;
pub use generated::{csi_v1, pod_resources_v1, pod_resources_v1alpha1, registration_v1};
pub use pod_resources::{PodResourcesError, serve_pod_resources};
pub use registration::GrpcPluginRegistration;

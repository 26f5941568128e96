//! gRPC clients for plugins (registration, the CSI node service, device plugins and DRA drivers), and the servers of the
//! pod resources API, of the Pods API and of the registration of device plugins.
//!
//! Implements `ports::plugins::{plugin_registry, csi, device_plugin, dra}`.
//!
//! Invariants: every call has a deadline; each call to a CSI driver uses a new connection, because a driver may be replaced
//! at the same path at any time, while a device plugin and a DRA driver have one connection each that shows when they are
//! gone; `Debug` output contains no secrets.
//!
//! Out of scope: retries, the plugin registry, volume paths.

mod connect;
mod csi_node;
mod device_plugin;
mod device_registration;
mod dra;
mod pod_resources;
mod pods_api;
mod registration;
mod serving;

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

    /// Device plugins: package `v1beta1`.
    pub mod device_plugin_v1beta1 {
        tonic::include_proto!("v1beta1");
    }

    /// Dynamic resource allocation: packages `k8s.io.kubelet.pkg.apis.dra.*`.
    pub mod dra {
        /// The messages of all versions.
        pub mod v1 {
            tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1");
        }

        pub mod v1beta1 {
            tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1beta1");
        }

        /// Health of devices: package `v1alpha1`, whose code is generated as a whole.
        pub mod health {
            pub use super::super::pod_resources_v1alpha1::{
                DeviceHealth, DeviceIdentifier, HealthStatus, NodeWatchResourcesRequest,
                NodeWatchResourcesResponse, dra_resource_health_client, dra_resource_health_server,
            };
        }
    }

    /// Pod resources v1: package `v1`.
    pub mod pod_resources_v1 {
        tonic::include_proto!("v1");
    }

    /// Pod resources before v1, and the Pods API: package `v1alpha1`.
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
pub use device_plugin::GrpcDevicePluginConnector;
pub use device_registration::{DeviceRegistrationError, serve_device_registration};
pub use dra::GrpcDraConnector;
pub use generated::dra as dra_services;
pub use generated::{
    csi_v1, device_plugin_v1beta1, pod_resources_v1, pod_resources_v1alpha1,
    pod_resources_v1alpha1 as pods_v1alpha1, registration_v1,
};
pub use pod_resources::serve_pod_resources;
pub use pods_api::serve_pods;
pub use registration::GrpcPluginRegistration;
pub use serving::ServeError;

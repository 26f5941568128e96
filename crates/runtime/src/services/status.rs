//! Version, configuration and conditions of the runtime.

use cri::v1::{
    CgroupDriver, LinuxRuntimeConfiguration, RuntimeCondition, RuntimeConfigResponse, RuntimeFeatures,
    RuntimeHandler, RuntimeHandlerFeatures, RuntimeStatus, StatusResponse, VersionResponse,
};

use crate::shared::Shared;

/// Appears before the id of each container in the status of pods.
const NAME: &str = "podward";
const KUBELET_API_VERSION: &str = "0.1.0";

pub(super) fn version() -> VersionResponse {
    VersionResponse {
        version: KUBELET_API_VERSION.to_owned(),
        runtime_name: NAME.to_owned(),
        runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        runtime_api_version: "v1".to_owned(),
    }
}

/// Cgroups are always written as files: systemd scopes are not made.
pub(super) fn config() -> RuntimeConfigResponse {
    let linux = LinuxRuntimeConfiguration { cgroup_driver: CgroupDriver::Cgroupfs.into() };
    RuntimeConfigResponse { linux: Some(linux) }
}

pub(super) async fn status(shared: &Shared, verbose: bool) -> StatusResponse {
    let condition = |kind: &str, failure: Option<(&str, String)>| {
        let status = failure.is_none();
        let (reason, message) = failure.unwrap_or_default();
        RuntimeCondition { r#type: kind.to_owned(), status, reason: reason.to_owned(), message }
    };
    let network = shared.network.readiness().await.err().map(|message| ("NetworkPluginNotReady", message));
    let mut response = StatusResponse {
        status: Some(RuntimeStatus {
            conditions: vec![condition("RuntimeReady", None), condition("NetworkReady", network)],
        }),
        runtime_handlers: vec![RuntimeHandler {
            name: String::new(),
            features: Some(RuntimeHandlerFeatures {
                recursive_read_only_mounts: true,
                user_namespaces: maps_owners(),
            }),
        }],
        features: Some(RuntimeFeatures {
            supplemental_groups_policy: true,
            user_namespaces_host_network: false,
        }),
        ..StatusResponse::default()
    };
    if verbose {
        let options = &shared.options;
        let config = serde_json::json!({
            "rootDir": options.root,
            "stateDir": options.state,
            "cgroupDriver": "cgroupfs",
        });
        response.info.insert("config".to_owned(), config.to_string());
    }
    response
}

/// Whether the kernel can map the owners of all file systems that volumes usually are on, tmpfs as the last of them.
fn maps_owners() -> bool {
    const TMPFS: (u32, u32) = (6, 3);
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= TMPFS && std::path::Path::new("/proc/self/ns/user").exists()
}

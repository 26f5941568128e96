//! Client of the node service of CSI drivers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::CsiAccess;
use ports::plugins::csi::{
    CsiCapabilities, CsiConnector, CsiError, CsiNode, CsiNodeInfo, CsiUsage, CsiVolumeState, Expand, Publish,
    Stage, VolumeUse,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::connect::{dial, go_code_name, go_error_text, within};
use crate::csi_v1 as proto;
use proto::node_client::NodeClient;
use proto::node_service_capability::{self, rpc};
use proto::volume_capability::{self, AccessMode, BlockVolume, MountVolume, access_mode};

/// Timeout of every call to a driver.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Implements [`CsiConnector`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcCsiConnector;

impl CsiConnector for GrpcCsiConnector {
    fn connect(&self, endpoint: &Path) -> Arc<dyn CsiNode> {
        Arc::new(GrpcCsiNode { endpoint: endpoint.to_path_buf() })
    }
}

type Node = NodeClient<Channel>;

struct GrpcCsiNode {
    endpoint: PathBuf,
}

impl GrpcCsiNode {
    async fn call<Req, Res>(
        &self,
        message: Req,
        method: impl AsyncFnOnce(&mut Node, Request<Req>) -> Result<tonic::Response<Res>, Status>,
    ) -> Result<Res, CsiError> {
        let response = within(CALL_TIMEOUT, async {
            let mut client = Node::new(dial(&self.endpoint).await?);
            let mut request = Request::new(message);
            request.set_timeout(CALL_TIMEOUT);
            method(&mut client, request).await
        });
        response.await.map(tonic::Response::into_inner).map_err(|status| csi_error(&status))
    }
}

#[async_trait]
impl CsiNode for GrpcCsiNode {
    async fn info(&self) -> Result<CsiNodeInfo, CsiError> {
        let info = self.call(proto::NodeGetInfoRequest {}, Node::node_get_info).await?;
        Ok(CsiNodeInfo {
            node_id: info.node_id,
            max_volumes: info.max_volumes_per_node,
            topology: info.accessible_topology.unwrap_or_default().segments.into_iter().collect(),
        })
    }

    async fn capabilities(&self) -> Result<CsiCapabilities, CsiError> {
        let response = self.call(proto::NodeGetCapabilitiesRequest {}, Node::node_get_capabilities).await?;
        let mut found = CsiCapabilities::default();
        for capability in response.capabilities {
            let Some(node_service_capability::Type::Rpc(rpc)) = capability.r#type else { continue };
            match rpc.r#type() {
                rpc::Type::StageUnstageVolume => found.stage = true,
                rpc::Type::GetVolumeStats => found.stats = true,
                rpc::Type::ExpandVolume => found.expand = true,
                rpc::Type::SingleNodeMultiWriter => found.single_node_multi_writer = true,
                rpc::Type::VolumeMountGroup => found.mount_group = true,
                rpc::Type::VolumeCondition => found.condition = true,
                rpc::Type::Unknown => {}
            }
        }
        Ok(found)
    }

    async fn stage(&self, order: &Stage) -> Result<(), CsiError> {
        let message = proto::NodeStageVolumeRequest {
            volume_id: order.handle.clone(),
            publish_context: order.publish_context.clone().into_iter().collect(),
            staging_target_path: text(&order.staging),
            volume_capability: Some(capability(&order.use_as)),
            secrets: order.secrets.clone().into_iter().collect(),
            volume_context: order.attributes.clone().into_iter().collect(),
        };
        self.call(message, Node::node_stage_volume).await.map(drop)
    }

    async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), CsiError> {
        let message = proto::NodeUnstageVolumeRequest {
            volume_id: handle.to_owned(),
            staging_target_path: text(staging),
        };
        self.call(message, Node::node_unstage_volume).await.map(drop)
    }

    async fn publish(&self, order: &Publish) -> Result<(), CsiError> {
        let message = proto::NodePublishVolumeRequest {
            volume_id: order.handle.clone(),
            publish_context: order.publish_context.clone().into_iter().collect(),
            staging_target_path: order.staging.as_deref().map(text).unwrap_or_default(),
            target_path: text(&order.target),
            volume_capability: Some(capability(&order.use_as)),
            readonly: order.read_only,
            secrets: order.secrets.clone().into_iter().collect(),
            volume_context: order.attributes.clone().into_iter().collect(),
        };
        self.call(message, Node::node_publish_volume).await.map(drop)
    }

    async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), CsiError> {
        let message =
            proto::NodeUnpublishVolumeRequest { volume_id: handle.to_owned(), target_path: text(target) };
        self.call(message, Node::node_unpublish_volume).await.map(drop)
    }

    async fn expand(&self, order: &Expand) -> Result<i64, CsiError> {
        let message = proto::NodeExpandVolumeRequest {
            volume_id: order.handle.clone(),
            volume_path: text(&order.path),
            capacity_range: Some(proto::CapacityRange { required_bytes: order.bytes, limit_bytes: 0 }),
            staging_target_path: text(&order.staging),
            volume_capability: Some(capability(&order.use_as)),
            secrets: order.secrets.clone().into_iter().collect(),
        };
        let response = self.call(message, Node::node_expand_volume).await?;
        Ok(response.capacity_bytes)
    }

    async fn usage(&self, handle: &str, path: &Path) -> Result<CsiVolumeState, CsiError> {
        let message = proto::NodeGetVolumeStatsRequest {
            volume_id: handle.to_owned(),
            volume_path: text(path),
            staging_target_path: String::new(),
        };
        let response = self.call(message, Node::node_get_volume_stats).await?;
        let usage = response.usage.into_iter().map(|usage| CsiUsage {
            is_inodes: usage.unit() == proto::volume_usage::Unit::Inodes,
            available: usage.available,
            total: usage.total,
            used: usage.used,
        });
        let is_abnormal = response.volume_condition.as_ref().map(|condition| condition.abnormal);
        let message = response.volume_condition.map(|condition| condition.message).unwrap_or_default();
        Ok(CsiVolumeState { usage: usage.collect(), is_abnormal, message })
    }
}

fn capability(used: &VolumeUse) -> proto::VolumeCapability {
    let access_type = match &used.access {
        CsiAccess::Block => volume_capability::AccessType::Block(BlockVolume {}),
        CsiAccess::Files { fs_type, options } => volume_capability::AccessType::Mount(MountVolume {
            fs_type: fs_type.clone(),
            mount_flags: options.clone(),
            volume_mount_group: used.group.map(|gid| gid.to_string()).unwrap_or_default(),
        }),
    };
    let mode = mode(&used.mode, used.single_node_multi_writer);
    proto::VolumeCapability {
        access_type: Some(access_type),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

/// Maps an access mode. Only drivers with `SINGLE_NODE_MULTI_WRITER` accept the more specific single-node modes.
fn mode(mode: &str, single_node_multi_writer: bool) -> access_mode::Mode {
    match (mode, single_node_multi_writer) {
        ("ReadWriteOnce", true) => access_mode::Mode::SingleNodeMultiWriter,
        ("ReadWriteOncePod", true) => access_mode::Mode::SingleNodeSingleWriter,
        ("ReadWriteOnce" | "ReadWriteOncePod", false) => access_mode::Mode::SingleNodeWriter,
        ("ReadOnlyMany", _) => access_mode::Mode::MultiNodeReaderOnly,
        ("ReadWriteMany", _) => access_mode::Mode::MultiNodeMultiWriter,
        _ => access_mode::Mode::Unknown,
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An error is final unless the driver may still be processing the request.
fn csi_error(status: &Status) -> CsiError {
    let is_final = !matches!(
        status.code(),
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
    );
    CsiError { message: go_error_text(status), code: go_code_name(status), is_final }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_final_codes_mark_errors_as_final() {
        for (code, is_final) in [
            (Code::Internal, true),
            (Code::InvalidArgument, true),
            (Code::NotFound, true),
            (Code::Aborted, false),
            (Code::DeadlineExceeded, false),
            (Code::Unavailable, false),
            (Code::ResourceExhausted, false),
            (Code::Cancelled, false),
        ] {
            assert_eq!(csi_error(&Status::new(code, "why")).is_final, is_final, "{code:?}");
        }
        assert_eq!(csi_error(&Status::cancelled("why")).message, "rpc error: code = Canceled desc = why");
    }

    #[test]
    fn maps_access_modes_by_driver_capability() {
        for (name, without_capability, with_capability) in [
            ("ReadWriteOnce", access_mode::Mode::SingleNodeWriter, access_mode::Mode::SingleNodeMultiWriter),
            (
                "ReadWriteOncePod",
                access_mode::Mode::SingleNodeWriter,
                access_mode::Mode::SingleNodeSingleWriter,
            ),
            ("ReadOnlyMany", access_mode::Mode::MultiNodeReaderOnly, access_mode::Mode::MultiNodeReaderOnly),
            (
                "ReadWriteMany",
                access_mode::Mode::MultiNodeMultiWriter,
                access_mode::Mode::MultiNodeMultiWriter,
            ),
            ("", access_mode::Mode::Unknown, access_mode::Mode::Unknown),
        ] {
            assert_eq!(
                (mode(name, false), mode(name, true)),
                (without_capability, with_capability),
                "{name}"
            );
        }
    }

    #[test]
    fn debug_output_of_requests_contains_no_secrets() {
        let secrets = [("key".to_owned(), "hunter2".to_owned())].into();
        let request = proto::NodeStageVolumeRequest { volume_id: "v".into(), secrets, ..Default::default() };
        let output = format!("{request:?}");
        assert!(output.contains("\"v\"") && !output.contains("hunter2"), "{output}");
    }
}

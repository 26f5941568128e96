//! The driver's gRPC services.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plugins::csi_v1 as proto;
use plugins::registration_v1 as registration;
use proto::node_service_capability::{Rpc, Type};
use proto::volume_capability::AccessType;
use tonic::{Request, Response, Status, async_trait};

use super::{Call, CsiFault, Shared, mounts};

pub(super) struct Node(pub(super) Arc<Shared>);
pub(super) struct Registration(pub(super) Arc<Shared>);

impl Node {
    /// Records a call and does its work, unless a fault is injected.
    async fn answer<T: Default>(
        &self,
        call: Call,
        work: impl FnOnce() -> std::io::Result<T>,
    ) -> Result<Response<T>, Status> {
        let name = call.name;
        self.0.note(call);
        let mut faults = self.0.fault.subscribe();
        let over = faults.wait_for(|faults| faults.get(name) != Some(&CsiFault::Hangs)).await;
        let fault = over.ok().and_then(|faults| faults.get(name).copied());
        if let Some(CsiFault::Fails(code)) = fault {
            return Err(Status::new(code, "injected failure"));
        }
        let done = work().map_err(|error| Status::internal(error.to_string()))?;
        match fault {
            Some(CsiFault::FailsAfter(code)) => Err(Status::new(code, "injected failure afterwards")),
            Some(CsiFault::Hangs | CsiFault::Fails(_)) | None => Ok(Response::new(done)),
        }
    }

    /// Path of a volume's content, created on first use.
    fn volume(&self, handle: &str, is_block: bool) -> std::io::Result<PathBuf> {
        let path = self.0.folder.join("volumes").join(handle);
        match is_block {
            true if !path.exists() => std::fs::write(&path, vec![0; 4096])?,
            true => {}
            false => std::fs::create_dir_all(&path)?,
        }
        Ok(path)
    }

    fn stages(&self) -> bool {
        self.0.abilities.contains(&super::Ability::StageUnstageVolume)
    }
}

fn is_block(capability: Option<&proto::VolumeCapability>) -> bool {
    matches!(capability.and_then(|capability| capability.access_type.as_ref()), Some(AccessType::Block(_)))
}

fn group(capability: Option<&proto::VolumeCapability>) -> String {
    match capability.and_then(|capability| capability.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => mount.volume_mount_group.clone(),
        Some(AccessType::Block(_)) | None => String::new(),
    }
}

fn flags(capability: Option<&proto::VolumeCapability>) -> Vec<String> {
    match capability.and_then(|capability| capability.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => mount.mount_flags.clone(),
        Some(AccessType::Block(_)) | None => Vec::new(),
    }
}

#[async_trait]
impl proto::node_server::Node for Node {
    async fn node_stage_volume(
        &self,
        request: Request<proto::NodeStageVolumeRequest>,
    ) -> Result<Response<proto::NodeStageVolumeResponse>, Status> {
        let order = request.into_inner();
        let is_block = is_block(order.volume_capability.as_ref());
        let call = Call {
            name: "NodeStageVolume",
            volume: order.volume_id.clone(),
            path: order.staging_target_path.clone(),
            staging: String::new(),
            context: order.volume_context.into_iter().collect(),
            publish_context: order.publish_context.into_iter().collect(),
            secrets: order.secrets.into_iter().collect(),
            group: group(order.volume_capability.as_ref()),
            flags: flags(order.volume_capability.as_ref()),
            bytes: 0,
        };
        self.answer(call, || {
            let source = self.volume(&order.volume_id, is_block)?;
            if !is_block {
                mounts::bind(&source, Path::new(&order.staging_target_path))?;
            }
            Ok(proto::NodeStageVolumeResponse {})
        })
        .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<proto::NodeUnstageVolumeRequest>,
    ) -> Result<Response<proto::NodeUnstageVolumeResponse>, Status> {
        let order = request.into_inner();
        let path = order.staging_target_path.clone();
        let call = Call { name: "NodeUnstageVolume", volume: order.volume_id, path, ..Call::default() };
        self.answer(call, || {
            mounts::unbind(Path::new(&order.staging_target_path))?;
            Ok(proto::NodeUnstageVolumeResponse {})
        })
        .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<proto::NodePublishVolumeRequest>,
    ) -> Result<Response<proto::NodePublishVolumeResponse>, Status> {
        let order = request.into_inner();
        let is_block = is_block(order.volume_capability.as_ref());
        let call = Call {
            name: "NodePublishVolume",
            volume: order.volume_id.clone(),
            path: order.target_path.clone(),
            staging: order.staging_target_path.clone(),
            context: order.volume_context.into_iter().collect(),
            publish_context: order.publish_context.into_iter().collect(),
            secrets: order.secrets.into_iter().collect(),
            group: group(order.volume_capability.as_ref()),
            flags: flags(order.volume_capability.as_ref()),
            bytes: 0,
        };
        self.answer(call, || {
            let content = self.volume(&order.volume_id, is_block)?;
            let staged = PathBuf::from(&order.staging_target_path);
            let source = if self.stages() && !is_block && !order.staging_target_path.is_empty() {
                staged
            } else {
                content
            };
            mounts::bind(&source, Path::new(&order.target_path))?;
            if order.readonly {
                mounts::protect(Path::new(&order.target_path))?;
            }
            Ok(proto::NodePublishVolumeResponse {})
        })
        .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<proto::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<proto::NodeUnpublishVolumeResponse>, Status> {
        let order = request.into_inner();
        let path = order.target_path.clone();
        let call = Call { name: "NodeUnpublishVolume", volume: order.volume_id, path, ..Call::default() };
        self.answer(call, || {
            mounts::unbind(Path::new(&order.target_path))?;
            mounts::remove(Path::new(&order.target_path))?;
            Ok(proto::NodeUnpublishVolumeResponse {})
        })
        .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<proto::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<proto::NodeGetVolumeStatsResponse>, Status> {
        let order = request.into_inner();
        let path = order.volume_path.clone();
        let call = Call { name: "NodeGetVolumeStats", volume: order.volume_id, path, ..Call::default() };
        self.answer(call, || {
            let found = rustix::fs::statvfs(order.volume_path.as_str())?;
            let bytes =
                |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
            let usage = proto::VolumeUsage {
                available: bytes(found.f_bavail),
                total: bytes(found.f_blocks),
                used: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
                unit: proto::volume_usage::Unit::Bytes.into(),
            };
            Ok(proto::NodeGetVolumeStatsResponse { usage: vec![usage], volume_condition: None })
        })
        .await
    }

    async fn node_expand_volume(
        &self,
        request: Request<proto::NodeExpandVolumeRequest>,
    ) -> Result<Response<proto::NodeExpandVolumeResponse>, Status> {
        let order = request.into_inner();
        let bytes = order.capacity_range.unwrap_or_default().required_bytes;
        let call = Call {
            name: "NodeExpandVolume",
            volume: order.volume_id,
            path: order.volume_path,
            staging: order.staging_target_path,
            bytes,
            ..Call::default()
        };
        self.answer(call, || Ok(proto::NodeExpandVolumeResponse { capacity_bytes: bytes })).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<proto::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<proto::NodeGetCapabilitiesResponse>, Status> {
        let capabilities = self.0.abilities.iter().map(|ability| proto::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: (*ability).into() })),
        });
        Ok(Response::new(proto::NodeGetCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn node_get_info(
        &self,
        _: Request<proto::NodeGetInfoRequest>,
    ) -> Result<Response<proto::NodeGetInfoResponse>, Status> {
        let place = format!("topology.{}/node", self.0.name);
        Ok(Response::new(proto::NodeGetInfoResponse {
            node_id: format!("{}-node", self.0.name),
            max_volumes_per_node: self.0.max_volumes.load(Ordering::Relaxed),
            accessible_topology: Some(proto::Topology { segments: [(place, "here".to_owned())].into() }),
        }))
    }
}

#[async_trait]
impl registration::registration_server::Registration for Registration {
    async fn get_info(
        &self,
        _: Request<registration::InfoRequest>,
    ) -> Result<Response<registration::PluginInfo>, Status> {
        Ok(Response::new(registration::PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: self.0.name.clone(),
            endpoint: self.0.endpoint.to_string_lossy().into_owned(),
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<registration::RegistrationStatus>,
    ) -> Result<Response<registration::RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let outcome = if status.plugin_registered { Ok(()) } else { Err(status.error) };
        self.0.registered.send_replace(Some(outcome));
        Ok(Response::new(registration::RegistrationStatusResponse {}))
    }
}

//! Volumes and container log rotation.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::default_if_zero;

/// Volumes and container log rotation.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumesAndLogs {
    /// Whether the attach/detach controller attaches volumes to the node.
    #[default = true]
    pub enable_controller_attach_detach: bool,
    /// Directory of FlexVolume drivers.
    #[default = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"]
    pub volume_plugin_dir: String,
    /// How often the disk usage of volumes is measured; negative for never.
    #[default(GoDuration::from_secs(60))]
    pub volume_stats_agg_period: GoDuration,
    /// Size at which a container log is rotated; negative for never.
    #[default = "10Mi"]
    pub container_log_max_size: String,
    /// Maximum number of log files per container.
    #[default = 5]
    pub container_log_max_files: i32,
    /// Maximum number of logs that are rotated concurrently.
    #[default = 1]
    pub container_log_max_workers: i32,
    /// How often log sizes are checked for rotation.
    #[default(GoDuration::from_secs(10))]
    pub container_log_monitor_interval: GoDuration,
}

impl VolumesAndLogs {
    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.volume_plugin_dir, default.volume_plugin_dir);
        default_if_zero(&mut self.volume_stats_agg_period, default.volume_stats_agg_period);
        default_if_zero(&mut self.container_log_max_size, default.container_log_max_size);
    }
}

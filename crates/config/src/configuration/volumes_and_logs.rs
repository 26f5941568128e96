//! Volumes and container logs.

use serde::{Deserialize, Serialize};

use super::unless_set;
use crate::duration::GoDuration;

/// Volumes and container logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumesAndLogs {
    /// Whether a controller attaches volumes to the node.
    pub enable_controller_attach_detach: bool,
    /// Where FlexVolume drivers are looked for.
    pub volume_plugin_dir: String,
    /// How often volume usage is measured; negative for never.
    pub volume_stats_agg_period: GoDuration,
    /// Size at which a container log is rotated; negative for never.
    pub container_log_max_size: String,
    /// Log files kept per container.
    pub container_log_max_files: i32,
    /// Logs rotated at once.
    pub container_log_max_workers: i32,
    /// How often log sizes are checked.
    pub container_log_monitor_interval: GoDuration,
}

impl Default for VolumesAndLogs {
    fn default() -> Self {
        Self {
            enable_controller_attach_detach: true,
            volume_plugin_dir: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/".to_owned(),
            volume_stats_agg_period: GoDuration::from_secs(60),
            container_log_max_size: "10Mi".to_owned(),
            container_log_max_files: 5,
            container_log_max_workers: 1,
            container_log_monitor_interval: GoDuration::from_secs(10),
        }
    }
}

impl VolumesAndLogs {
    pub(super) fn complete(&mut self) {
        let default = Self::default();
        unless_set(&mut self.volume_plugin_dir, default.volume_plugin_dir);
        unless_set(&mut self.volume_stats_agg_period, default.volume_stats_agg_period);
        unless_set(&mut self.container_log_max_size, default.container_log_max_size);
    }
}

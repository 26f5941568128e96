//! The API client, events, feature gates, metrics and tracing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{default_if_zero, empty_is_default, is_zero};

/// Rate limits, content type and change detection of the API client.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiClient {
    #[default = "application/vnd.kubernetes.protobuf"]
    pub content_type: String,
    /// Maximum requests per second; 0 for the default.
    #[serde(rename = "kubeAPIQPS")]
    #[default = 50]
    pub kube_api_qps: i32,
    /// Maximum requests in a burst.
    #[serde(rename = "kubeAPIBurst")]
    #[default = 100]
    pub kube_api_burst: i32,
    /// Maximum events per second; 0 for no limit.
    #[serde(rename = "eventRecordQPS")]
    #[default = 50]
    pub event_record_qps: i32,
    /// Maximum events in a burst.
    #[default = 100]
    pub event_burst: i32,
    #[serde(deserialize_with = "empty_is_default", rename = "configMapAndSecretChangeDetectionStrategy")]
    pub change_detection: ChangeDetection,
    /// As set by the user, by name.
    #[serde(skip_serializing_if = "is_zero")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Shows metrics that are hidden since this minor version, such as `1.35`; empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub show_hidden_metrics_for_version: String,
    /// Without it, no spans are exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
}

/// How changes of ConfigMaps and Secrets are detected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeDetection {
    /// Every use gets the object from the API server.
    Get,
    /// Objects are cached for some time.
    Cache,
    /// Objects in use are watched.
    #[default]
    Watch,
}

/// Export of OpenTelemetry spans.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tracing {
    /// OTLP collector; `localhost:4317` if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Number of spans exported out of a million; 0 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_rate_per_million: Option<i32>,
}

impl ApiClient {
    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.content_type, default.content_type);
        default_if_zero(&mut self.kube_api_burst, default.kube_api_burst);
        default_if_zero(&mut self.event_burst, default.event_burst);
    }
}

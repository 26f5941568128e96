//! The API client, events, feature gates, metrics and tracing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{default_if_zero, empty_is_default, is_zero};

/// Rate limits, content type and change detection of the API client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiClient {
    pub content_type: String,
    /// Maximum requests per second; 0 for the default.
    #[serde(rename = "kubeAPIQPS")]
    pub kube_api_qps: i32,
    /// Maximum requests in a burst.
    #[serde(rename = "kubeAPIBurst")]
    pub kube_api_burst: i32,
    /// Maximum events per second; 0 for no limit.
    #[serde(rename = "eventRecordQPS")]
    pub event_record_qps: i32,
    /// Maximum events in a burst.
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

impl Default for ApiClient {
    fn default() -> Self {
        Self {
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            kube_api_qps: 50,
            kube_api_burst: 100,
            event_record_qps: 50,
            event_burst: 100,
            change_detection: ChangeDetection::Watch,
            feature_gates: BTreeMap::new(),
            show_hidden_metrics_for_version: String::new(),
            tracing: None,
        }
    }
}

impl ApiClient {
    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.content_type, default.content_type);
        default_if_zero(&mut self.kube_api_burst, default.kube_api_burst);
        default_if_zero(&mut self.event_burst, default.event_burst);
    }
}

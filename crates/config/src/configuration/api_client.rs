//! The API client, events, feature gates, metrics and tracing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{empty_is_default, is_zero, unless_set};

/// How the agent talks to the API server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiClient {
    /// Content type of requests.
    pub content_type: String,
    /// Requests per second; 0 for the default.
    #[serde(rename = "kubeAPIQPS")]
    pub kube_api_qps: i32,
    /// Requests in one burst.
    #[serde(rename = "kubeAPIBurst")]
    pub kube_api_burst: i32,
    /// Events per second; 0 for no limit.
    #[serde(rename = "eventRecordQPS")]
    pub event_record_qps: i32,
    /// Events in one burst.
    pub event_burst: i32,
    /// How changes of ConfigMaps and Secrets are noticed.
    #[serde(deserialize_with = "empty_is_default", rename = "configMapAndSecretChangeDetectionStrategy")]
    pub change_detection: ChangeDetection,
    /// Feature gates set by the user, by name.
    #[serde(skip_serializing_if = "is_zero")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Shows metrics hidden since this minor version (`1.35`); empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub show_hidden_metrics_for_version: String,
    /// Where spans go; none without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
}

/// How changes of ConfigMaps and Secrets are noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeDetection {
    /// Each use asks the API server.
    Get,
    /// Answers are kept for a while.
    Cache,
    /// The objects in use are watched.
    #[default]
    Watch,
}

/// Where spans go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tracing {
    /// OTLP collector; `localhost:4317` without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Spans kept out of a million; 0 without it.
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
    pub(super) fn complete(&mut self) {
        let default = Self::default();
        unless_set(&mut self.content_type, default.content_type);
        unless_set(&mut self.kube_api_burst, default.kube_api_burst);
        unless_set(&mut self.event_burst, default.event_burst);
    }
}

//! Events at the API server.

use async_trait::async_trait;
use model::{RecordedEvent, Timestamp};

use super::ApiError;

/// An event and its count.
#[derive(Clone, Debug, PartialEq)]
pub struct EventReport {
    /// Name of the API object.
    pub name: String,
    /// The latest occurrence.
    pub event: RecordedEvent,
    /// Time of the first occurrence.
    pub first_at: Timestamp,
    /// Number of occurrences.
    pub count: u32,
}

/// Writes events, each with a deadline.
#[async_trait]
pub trait ApiEvents: Send + Sync {
    /// Creates the event.
    async fn create(&self, report: &EventReport) -> Result<(), ApiError>;

    /// Updates count, time and message of an existing event.
    async fn update(&self, report: &EventReport) -> Result<(), ApiError>;
}

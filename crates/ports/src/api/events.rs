//! Events at the API server.

use async_trait::async_trait;
use model::{RecordedEvent, Timestamp};

use super::ApiError;

/// An event with how often it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct EventReport {
    /// Name of the API object.
    pub name: String,
    /// The event as it happened last.
    pub event: RecordedEvent,
    /// When it happened first.
    pub first_at: Timestamp,
    /// How often.
    pub count: u32,
}

/// Writes events, each with a deadline.
#[async_trait]
pub trait ApiEvents: Send + Sync {
    /// Makes the event.
    async fn create(&self, report: &EventReport) -> Result<(), ApiError>;

    /// Brings count, time and message of an event that was made up to date.
    async fn update(&self, report: &EventReport) -> Result<(), ApiError>;
}

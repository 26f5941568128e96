//! config

pub mod configuration;
mod duration;
mod gates;
mod quantity;
mod suggestion;

pub use configuration::KubeletConfiguration;
pub use duration::{DurationError, GoDuration};
pub use gates::{FeatureGates, Gate, GateError, Resolved, Stage};
pub use quantity::{Quantity, QuantityError};

//! Dynamic resource allocation (DRA): drivers, the claims that they prepare for pods, the ResourceSlices that they
//! publish, and the health of their devices.

pub mod device_health;
pub mod dra_drivers;
pub mod health_streams;
pub mod resource_claims;
pub mod resource_slices;
pub mod unprepare_vanished;

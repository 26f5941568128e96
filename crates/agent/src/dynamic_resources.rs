//! Dynamic resource allocation (DRA): drivers, the claims that they prepare for pods, and the ResourceSlices that they publish.

pub mod dra_drivers;
pub mod resource_claims;
pub mod resource_slices;
pub mod unprepare_vanished;

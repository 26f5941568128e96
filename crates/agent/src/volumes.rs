//! Volumes of CSI drivers, their claims, and the registration of plugins.

pub mod claims;
pub mod csi_allocatable;
pub mod csi_drivers;
pub mod csi_registration;
pub mod csi_volumes;
pub mod metered_csi;
pub mod metered_volumes;
pub mod plugin_registry;

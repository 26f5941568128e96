//! Programs that register on the node: CSI drivers and other plugins. Implemented by the crate `plugins`.

pub mod csi;
pub mod device_plugin;
pub mod dra;
pub mod plugin_registry;

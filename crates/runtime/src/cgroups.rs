//! Cgroups of containers: version 1, version 2 and both mixed.
//!
//! The runtime makes a container's cgroups and writes its limits before the container exists; the keeper only puts processes into
//! them. What a request asks for and the machine does not have is an error, except where a file is documented as optional.

mod bpf;
mod device_program;
mod devices;
mod directories;
mod kill;
mod layout;
mod placement;
mod pressure;
mod resources;
mod statistics;
mod v1;
mod v2;

pub use devices::{DeviceAccess, DeviceRule, DeviceType, default_device_rules};
pub use directories::{CgroupError, ContainerCgroup};
pub use layout::{CgroupLayout, Hierarchy};
pub use placement::{Placement, placement};
pub use pressure::{Pressure, Stall};
pub use resources::{FileWrite, Resources, ResourcesError};
pub use statistics::{CgroupStatistics, MemoryStatistics};

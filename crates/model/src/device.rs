//! Devices that plugins offer, and what they give to a container.

use std::collections::BTreeMap;

use crate::{ContainerSpec, Device, Mount};

/// The health text of a usable device.
const HEALTHY: &str = "Healthy";

/// A device as its plugin describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginDevice {
    pub id: String,
    /// `Healthy`, or any other text.
    pub health: String,
    /// NUMA nodes that the device is close to. Empty: unknown.
    pub nodes: Vec<i64>,
}

impl PluginDevice {
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.health == HEALTHY
    }
}

/// Which optional calls a plugin offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DevicePluginOptions {
    /// The plugin prepares its devices before every start of a container.
    pub needs_pre_start: bool,
    /// The plugin can choose among the free devices.
    pub offers_preferences: bool,
}

/// Additions of devices to the configuration of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    pub env: BTreeMap<String, String>,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub annotations: BTreeMap<String, String>,
    /// Names of the Container Device Interface, such as `vendor.com/gpu=0`.
    pub cdi_devices: Vec<String>,
}

impl DeviceOptions {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the options of another resource. Of two entries with the same name or path, the first one stays.
    pub fn merge(&mut self, other: &Self) {
        for (name, value) in &other.env {
            self.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &other.annotations {
            self.annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for mount in &other.mounts {
            if !self.mounts.iter().any(|known| known.container_path == mount.container_path) {
                self.mounts.push(mount.clone());
            }
        }
        for device in &other.devices {
            if !self.devices.iter().any(|known| known.container_path == device.container_path) {
                self.devices.push(device.clone());
            }
        }
        for name in &other.cdi_devices {
            if !self.cdi_devices.contains(name) {
                self.cdi_devices.push(name.clone());
            }
        }
    }

    /// Adds the options to a container: before its own variables, mounts and devices, so that those win, and without
    /// replacing annotations of the agent. CDI names that the container already has stay first.
    pub fn apply(self, spec: &mut ContainerSpec) {
        spec.env.splice(0..0, self.env);
        spec.mounts.splice(0..0, self.mounts);
        spec.devices.splice(0..0, self.devices);
        for (name, value) in self.annotations {
            spec.annotations.entry(name).or_insert(value);
        }
        spec.cdi_devices.extend(self.cdi_devices);
    }
}

/// A plugin's answer to the allocation of devices for one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedDevices {
    /// The encoded answer, as the checkpoint stores it.
    pub encoded: Vec<u8>,
    pub options: DeviceOptions,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(container_path: &str, host_path: &str) -> Mount {
        Mount {
            container_path: container_path.to_owned(),
            host_path: host_path.to_owned(),
            ..Mount::default()
        }
    }

    fn options(value: &str) -> DeviceOptions {
        DeviceOptions {
            env: [("NAME".to_owned(), value.to_owned())].into(),
            mounts: vec![mount("/data", value)],
            devices: vec![Device {
                container_path: "/dev/x".to_owned(),
                host_path: value.to_owned(),
                permissions: "rw".to_owned(),
            }],
            annotations: [("note".to_owned(), value.to_owned())].into(),
            cdi_devices: vec!["vendor.com/x=0".to_owned(), format!("vendor.com/x={value}")],
        }
    }

    #[test]
    fn merged_options_keep_the_first_of_two_equal_names() {
        let mut merged = options("one");
        merged.merge(&options("two"));
        let cdi_devices = ["vendor.com/x=0", "vendor.com/x=one", "vendor.com/x=two"].map(str::to_owned);
        assert_eq!(merged, DeviceOptions { cdi_devices: cdi_devices.to_vec(), ..options("one") });
    }

    #[test]
    fn applied_options_precede_those_of_the_container() {
        let mut spec = ContainerSpec {
            env: vec![("NAME".to_owned(), "own".to_owned())],
            mounts: vec![mount("/own", "/own")],
            annotations: [("note".to_owned(), "own".to_owned())].into(),
            cdi_devices: vec!["dra/first=1".to_owned()],
            ..ContainerSpec::default()
        };
        options("one").apply(&mut spec);
        let values: Vec<&str> = spec.env.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["one", "own"]);
        let paths: Vec<&str> = spec.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
        assert_eq!(paths, ["/data", "/own"]);
        assert_eq!(spec.annotations["note"], "own");
        assert_eq!(spec.cdi_devices, ["dra/first=1", "vendor.com/x=0", "vendor.com/x=one"]);
        assert_eq!(spec.devices.len(), 1);
    }
}

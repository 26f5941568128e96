//! The format of a specification, in JSON or YAML.

use document::FieldPath;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Specification {
    /// `vendor/class`.
    pub(super) kind: String,
    #[serde(default)]
    pub(super) devices: Vec<Device>,
    /// For every container with one of the devices.
    #[serde(default)]
    pub(super) container_edits: Edits,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) name: String,
    #[serde(default)]
    pub(super) container_edits: Edits,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Edits {
    pub(super) env: Vec<String>,
    pub(super) device_nodes: Vec<DeviceEdit>,
    pub(super) mounts: Vec<MountEdit>,
    pub(super) hooks: Vec<Hook>,
    #[serde(rename = "additionalGids")]
    pub(super) additional_gids: Vec<u32>,
    pub(super) intel_rdt: Option<Value>,
    pub(super) net_devices: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceEdit {
    /// In the container.
    pub(super) path: String,
    #[serde(default)]
    pub(super) host_path: String,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    pub(super) major: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) file_mode: Option<u32>,
    #[serde(default)]
    pub(super) permissions: String,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MountEdit {
    pub(super) host_path: String,
    pub(super) container_path: String,
    #[serde(default)]
    pub(super) options: Vec<String>,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hook {
    pub(super) path: String,
}

impl Specification {
    /// Parses one document. The error names line and field.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let documents = document::parse(text).map_err(|error| error.to_string())?;
        let [found] = documents.as_slice() else {
            return Err(format!("it has {} documents instead of one", documents.len()));
        };
        let specification: Self = found.decode().map_err(|error| error.to_string())?;
        if specification
            .kind
            .split_once('/')
            .is_none_or(|(vendor, class)| vendor.is_empty() || class.is_empty())
        {
            let reason = format!("{:?} is not a kind of the form vendor/class", specification.kind);
            return Err(found.field_error(FieldPath::root().key("kind"), reason).to_string());
        }
        Ok(specification)
    }
}

//! Results of plugins: bounded, checked, and converted between versions of the specification.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::version::Version;
use crate::network::cidr::Cidr;

/// More entries than any network has.
const MAX_ENTRIES: usize = 1024;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidResult {
    #[error("the result is not JSON: {0}")]
    Json(String),
    #[error("the result has version {0}, which is not known")]
    Version(String),
    #[error("{field} of the result {reason}")]
    Field { field: &'static str, reason: &'static str },
}

/// What a plugin has made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddResult {
    /// The fields as the plugin wrote them, in the form of version 1.
    fields: Map<String, Value>,
    addresses: Vec<(Option<String>, IpAddr)>,
}

impl AddResult {
    /// Reads the output of a plugin. An empty output is an empty result; one without a version has that of the configuration.
    pub(super) fn parse(output: &[u8], default: Version) -> Result<Self, InvalidResult> {
        if output.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let value = serde_json::from_slice(output).map_err(|error| InvalidResult::Json(error.to_string()))?;
        Self::from_fields(value, default)
    }

    /// Reads any output, for the fuzz target.
    pub fn from_bytes(output: &[u8]) -> Result<Self, InvalidResult> {
        Self::parse(output, Version::DEFAULT)
    }

    pub(super) fn from_value(value: &Value) -> Result<Self, InvalidResult> {
        Self::from_fields(value.clone(), Version::DEFAULT)
    }

    fn from_fields(value: Value, default: Version) -> Result<Self, InvalidResult> {
        let Value::Object(mut fields) = value else { return Err(invalid("content", "is not an object")) };
        let version = match fields.remove("cniVersion") {
            None | Some(Value::Null) => default,
            Some(text) => {
                let text = text.as_str().unwrap_or_default();
                Version::parse(text).ok_or_else(|| InvalidResult::Version(text.to_owned()))?
            }
        };
        if !version.has_lists() {
            convert_from_families(&mut fields)?;
        }
        if let Some(addresses) = fields.get_mut("ips").and_then(Value::as_array_mut) {
            addresses.iter_mut().filter_map(Value::as_object_mut).for_each(|address| {
                address.remove("version");
            });
        }
        let addresses = read_addresses(&fields)?;
        Ok(Self { fields, addresses })
    }

    /// The addresses of a link inside the pod, in the order of the result.
    #[must_use]
    pub fn addresses_of(&self, link: &str) -> Vec<IpAddr> {
        let of_link =
            self.addresses.iter().filter(|(owner, _)| owner.as_deref().is_none_or(|owner| owner == link));
        of_link.map(|(_, address)| *address).collect()
    }

    /// The result in the form that plugins of this version read.
    pub(super) fn into_version(self, version: Version) -> Value {
        let mut fields = self.fields;
        if version.names_families() {
            let addresses = fields.get_mut("ips").and_then(Value::as_array_mut).into_iter().flatten();
            for address in addresses.filter_map(Value::as_object_mut) {
                let is_v6 =
                    address.get("address").and_then(Value::as_str).is_some_and(|text| text.contains(':'));
                address.insert("version".to_owned(), json!(if is_v6 { "6" } else { "4" }));
            }
        } else if !version.has_lists() {
            convert_to_families(&mut fields);
        }
        fields.insert("cniVersion".to_owned(), json!(version.to_string()));
        Value::Object(fields)
    }

    /// The result in the latest version, for the fuzz target.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.into_version(Version::LATEST)
    }
}

fn invalid(field: &'static str, reason: &'static str) -> InvalidResult {
    InvalidResult::Field { field, reason }
}

/// A list of objects; a missing one is empty.
fn list<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Vec<&'a Map<String, Value>>, InvalidResult> {
    let entries = match fields.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(entries)) if entries.len() <= MAX_ENTRIES => entries,
        Some(Value::Array(_)) => return Err(invalid(field, "has too many entries")),
        Some(_) => return Err(invalid(field, "is not a list")),
    };
    entries
        .iter()
        .map(|entry| entry.as_object().ok_or(invalid(field, "has an entry that is not an object")))
        .collect()
}

fn read_addresses(fields: &Map<String, Value>) -> Result<Vec<(Option<String>, IpAddr)>, InvalidResult> {
    let interfaces = list(fields, "interfaces")?;
    let mut names = Vec::with_capacity(interfaces.len());
    for interface in interfaces {
        let name = interface.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty()
            || name.len() > 15
            || name.contains(|letter: char| letter == '/' || letter.is_whitespace())
        {
            return Err(invalid("interfaces", "has an entry without a valid name"));
        }
        let is_inside = interface.get("sandbox").and_then(Value::as_str).is_some_and(|path| !path.is_empty());
        names.push((name, is_inside));
    }
    for route in list(fields, "routes")? {
        let destination = route.get("dst").and_then(Value::as_str).unwrap_or_default();
        if destination.parse::<Cidr>().is_err() {
            return Err(invalid("routes", "has an entry without a valid dst"));
        }
    }
    let mut addresses = Vec::new();
    for entry in list(fields, "ips")? {
        let text = entry.get("address").and_then(Value::as_str).unwrap_or_default();
        let address =
            text.parse::<Cidr>().map_err(|_| invalid("ips", "has an entry without a valid address"))?;
        if let Some(gateway) = entry.get("gateway").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            gateway.parse::<IpAddr>().map_err(|_| invalid("ips", "has an invalid gateway"))?;
        }
        let owner = match entry.get("interface") {
            None | Some(Value::Null) => None,
            Some(index) => {
                let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
                let owner = index.and_then(|index| names.get(index));
                let (name, is_inside) =
                    owner.ok_or(invalid("ips", "names an interface that does not exist"))?;
                if !is_inside {
                    // An address of the node, such as the bridge's.
                    continue;
                }
                Some((*name).to_owned())
            }
        };
        addresses.push((owner, address.address()));
    }
    Ok(addresses)
}

/// Version 0.2.0 and older: one address per family, with its routes.
fn convert_from_families(fields: &mut Map<String, Value>) -> Result<(), InvalidResult> {
    let (mut addresses, mut routes) = (Vec::new(), Vec::new());
    for field in ["ip4", "ip6"] {
        let family = match fields.remove(field) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(family)) => family,
            Some(_) => return Err(invalid("ip4 or ip6", "is not an object")),
        };
        let mut address = Map::new();
        for (from, to) in [("ip", "address"), ("gateway", "gateway")] {
            family.get(from).map(|value| address.insert(to.to_owned(), value.clone()));
        }
        addresses.push(Value::Object(address));
        routes.extend(family.get("routes").and_then(Value::as_array).into_iter().flatten().cloned());
    }
    fields.insert("ips".to_owned(), Value::Array(addresses));
    fields.insert("routes".to_owned(), Value::Array(routes));
    Ok(())
}

fn convert_to_families(fields: &mut Map<String, Value>) {
    fields.remove("interfaces");
    let entries = |value: Option<Value>| match value {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let (addresses, routes) = (entries(fields.remove("ips")), entries(fields.remove("routes")));
    let is_v6 = |entry: &Value, field: &str| {
        entry.get(field).and_then(Value::as_str).is_some_and(|text| text.contains(':'))
    };
    for (field, v6) in [("ip4", false), ("ip6", true)] {
        let Some(address) = addresses.iter().find(|entry| is_v6(entry, "address") == v6) else { continue };
        let mut family = Map::new();
        for (from, to) in [("address", "ip"), ("gateway", "gateway")] {
            address.get(from).map(|value| family.insert(to.to_owned(), value.clone()));
        }
        let of_family: Vec<Value> =
            routes.iter().filter(|route| is_v6(route, "dst") == v6).cloned().collect();
        if !of_family.is_empty() {
            family.insert("routes".to_owned(), Value::Array(of_family));
        }
        fields.insert(field.to_owned(), Value::Object(family));
    }
}

//! The file `kubelet_internal_checkpoint`, in upstream's format, so that a node can switch between this agent and the kubelet.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::PodUid;
use serde_json::{Map, Value};
use values::fnv::Fnv32a;

use super::{DeviceState, RecordKey};
use crate::go_text::{JsonObject, json_array, json_string};

/// Name of the file.
pub const DEVICE_CHECKPOINT: &str = "kubelet_internal_checkpoint";

/// The content of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredDevices {
    pub entries: Vec<StoredEntry>,
    /// Resources of registered plugins, and their healthy devices.
    pub registered: BTreeMap<String, Vec<String>>,
}

/// Devices of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    pub key: RecordKey,
    /// Devices by NUMA node.
    pub ids: BTreeMap<i64, Vec<String>>,
    /// The plugin's answer, encoded.
    pub answer: Vec<u8>,
}

/// Why a checkpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceCheckpointError {
    #[error("checkpoint is corrupted")]
    Checksum,
    #[error("field {0} is malformed")]
    Field(&'static str),
    #[error("{0}")]
    Syntax(String),
}

impl StoredDevices {
    /// What a state stores.
    pub fn of(state: &DeviceState) -> Self {
        let entries = state.records.iter().map(|(key, record)| StoredEntry {
            key: key.clone(),
            ids: record.ids.clone(),
            answer: record.answer.encoded.clone(),
        });
        let registered = state.inventory.all_healthy();
        Self {
            entries: entries.collect(),
            registered: registered
                .map(|(resource, healthy)| (resource.to_owned(), healthy.iter().cloned().collect()))
                .collect(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut data = JsonObject::default();
        let entries = match self.entries.as_slice() {
            [] => "null".to_owned(),
            entries => json_array(entries.iter().map(StoredEntry::json)),
        };
        let registered = self.registered.iter().map(|(resource, ids)| (resource.as_str(), json_list(ids)));
        data.value("PodDeviceEntries", &entries).value("RegisteredDevices", &JsonObject::of(registered));
        let dump = self.dumps().text();
        let mut file = JsonObject::default();
        file.value("Data", &data.finish()).value("Checksum", &Fnv32a::hash(&dump).to_string());
        file.finish().into_bytes()
    }

    fn dumps(&self) -> Dump {
        Dump {
            entries: match self.entries.as_slice() {
                [] => NIL.to_vec(),
                entries => list(entries.iter().map(StoredEntry::dump)),
            },
            registered: map(self.registered.iter().map(|(name, ids)| (name.as_bytes().to_vec(), texts(ids)))),
        }
    }

    /// # Errors
    /// When the file is damaged.
    pub fn decode(content: &[u8]) -> Result<Self, DeviceCheckpointError> {
        let file: Map<String, Value> = serde_json::from_slice(content)
            .map_err(|error| DeviceCheckpointError::Syntax(error.to_string()))?;
        let data = field(&file, "Data").and_then(Value::as_object);
        let data = data.ok_or(DeviceCheckpointError::Field("Data"))?;
        let checksum = field(&file, "Checksum").and_then(Value::as_u64).unwrap_or_default();
        let mut read = ReadDevices::default();
        read.entries(field(data, "PodDeviceEntries"))?;
        read.registered(field(data, "RegisteredDevices"))?;
        if u64::from(Fnv32a::hash(&read.dump.text())) != checksum {
            return Err(DeviceCheckpointError::Checksum);
        }
        Ok(read.stored)
    }
}

impl StoredEntry {
    fn json(&self) -> String {
        let mut by_name: Vec<(String, String)> =
            self.ids.iter().map(|(node, ids)| (node.to_string(), json_list(ids))).collect();
        by_name.sort();
        let ids = JsonObject::of(by_name.iter().map(|(node, ids)| (node.as_str(), ids.clone())));
        let mut entry = JsonObject::default();
        entry
            .value("PodUID", &json_string(self.key.uid.as_str()))
            .value("ContainerName", &json_string(&self.key.container))
            .value("ResourceName", &json_string(&self.key.resource))
            .value("DeviceIDs", &ids)
            .value("AllocResp", &json_string(&STANDARD.encode(&self.answer)));
        entry.finish()
    }

    fn dump(&self) -> Vec<u8> {
        let ids = map(self.ids.iter().map(|(node, ids)| (node.to_string().into_bytes(), texts(ids))));
        dump_entry(&self.key, &ids, &bytes(&self.answer))
    }
}

fn json_list(items: &[String]) -> String {
    json_array(items.iter().map(|item| json_string(item)))
}

/// Finds a field like Go: an exact name first, then one that differs in case.
fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let similar = || object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    object.get(name).or_else(similar)
}

const NIL: &[u8] = b"<nil>";

/// The parts of the text that upstream hashes: the structure as Go's `spew` prints it.
#[derive(Default)]
struct Dump {
    entries: Vec<u8>,
    registered: Vec<u8>,
}

impl Dump {
    fn text(&self) -> Vec<u8> {
        [
            b"(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)",
            self.entries.as_slice(),
            b" RegisteredDevices:(map[string][]string)",
            self.registered.as_slice(),
            b"}",
        ]
        .concat()
    }
}

fn dump_entry(key: &RecordKey, ids: &[u8], answer: &[u8]) -> Vec<u8> {
    [
        b"{PodUID:(string)",
        key.uid.as_str().as_bytes(),
        b" ContainerName:(string)",
        key.container.as_bytes(),
        b" ResourceName:(string)",
        key.resource.as_bytes(),
        b" DeviceIDs:(checkpoint.DevicesPerNUMA)",
        ids,
        b" AllocResp:([]uint8)",
        answer,
        b"}",
    ]
    .concat()
}

fn list(items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    [b"[".as_slice(), &items.collect::<Vec<_>>().join(&b' '), b"]"].concat()
}

fn texts(items: &[String]) -> Vec<u8> {
    list(items.iter().map(|item| item.as_bytes().to_vec()))
}

fn bytes(content: &[u8]) -> Vec<u8> {
    list(content.iter().map(|byte| byte.to_string().into_bytes()))
}

fn map(pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let pairs = pairs.map(|(key, value)| [key.as_slice(), b":", &value].concat());
    [b"map".as_slice(), &list(pairs)].concat()
}

/// A checkpoint while it is read. The text to hash is built beside it, because `null` and empty differ there.
#[derive(Default)]
struct ReadDevices {
    stored: StoredDevices,
    dump: Dump,
}

impl ReadDevices {
    fn entries(&mut self, found: Option<&Value>) -> Result<(), DeviceCheckpointError> {
        let malformed = DeviceCheckpointError::Field("PodDeviceEntries");
        let Some(found) = found.filter(|found| !found.is_null()) else {
            self.dump.entries = NIL.to_vec();
            return Ok(());
        };
        let mut dumps = Vec::new();
        for entry in found.as_array().ok_or_else(|| malformed.clone())? {
            dumps.push(self.entry(entry.as_object().ok_or_else(|| malformed.clone())?)?);
        }
        self.dump.entries = list(dumps.into_iter());
        Ok(())
    }

    fn entry(&mut self, entry: &Map<String, Value>) -> Result<Vec<u8>, DeviceCheckpointError> {
        let text = |name: &'static str| match field(entry, name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(DeviceCheckpointError::Field(name)),
        };
        let key = RecordKey {
            uid: PodUid::from(text("PodUID")?.as_str()),
            container: text("ContainerName")?,
            resource: text("ResourceName")?,
        };
        let (ids, dumped_ids) = read_ids(field(entry, "DeviceIDs"))?;
        let malformed = DeviceCheckpointError::Field("AllocResp");
        let (answer, dumped_answer) = match field(entry, "AllocResp") {
            None | Some(Value::Null) => (Vec::new(), NIL.to_vec()),
            Some(Value::String(text)) => {
                let answer = STANDARD.decode(text).map_err(|_| malformed)?;
                let dumped = bytes(&answer);
                (answer, dumped)
            }
            Some(_) => return Err(malformed),
        };
        let dump = dump_entry(&key, &dumped_ids, &dumped_answer);
        self.stored.entries.push(StoredEntry { key, ids, answer });
        Ok(dump)
    }

    fn registered(&mut self, found: Option<&Value>) -> Result<(), DeviceCheckpointError> {
        let Some(found) = found.filter(|found| !found.is_null()) else {
            self.dump.registered = NIL.to_vec();
            return Ok(());
        };
        let found = found.as_object().ok_or(DeviceCheckpointError::Field("RegisteredDevices"))?;
        let mut dumps = BTreeMap::new();
        for (resource, ids) in found {
            let (ids, dump) = read_texts(ids, "RegisteredDevices")?;
            dumps.insert(resource.as_bytes().to_vec(), dump);
            self.stored.registered.insert(resource.clone(), ids);
        }
        self.dump.registered = map(dumps.into_iter());
        Ok(())
    }
}

type ReadIds = (BTreeMap<i64, Vec<String>>, Vec<u8>);

fn read_ids(found: Option<&Value>) -> Result<ReadIds, DeviceCheckpointError> {
    const NAME: &str = "DeviceIDs";
    let Some(found) = found.filter(|found| !found.is_null()) else {
        return Ok((BTreeMap::new(), NIL.to_vec()));
    };
    let (mut ids, mut dumps) = (BTreeMap::new(), BTreeMap::new());
    for (node, listed) in found.as_object().ok_or(DeviceCheckpointError::Field(NAME))? {
        let node: i64 = node.parse().map_err(|_| DeviceCheckpointError::Field(NAME))?;
        let (listed, dump) = read_texts(listed, NAME)?;
        ids.insert(node, listed);
        dumps.insert(node, dump);
    }
    Ok((ids, map(dumps.into_iter().map(|(node, dump)| (node.to_string().into_bytes(), dump)))))
}

fn read_texts(found: &Value, name: &'static str) -> Result<(Vec<String>, Vec<u8>), DeviceCheckpointError> {
    if found.is_null() {
        return Ok((Vec::new(), NIL.to_vec()));
    }
    let malformed = DeviceCheckpointError::Field(name);
    let items = found.as_array().ok_or_else(|| malformed.clone())?.iter();
    let items = items.map(|item| item.as_str().map(str::to_owned).ok_or_else(|| malformed.clone()));
    let items: Vec<String> = items.collect::<Result<_, _>>()?;
    let dump = texts(&items);
    Ok((items, dump))
}

#[cfg(test)]
mod tests;

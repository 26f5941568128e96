//! Network configurations: a list of plugins, or a single plugin.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::version::Version;
use crate::network::errors::{During, NetworkFailure};

const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_PLUGINS: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct NetworkConfig {
    pub(in crate::network) name: String,
    pub(super) version: Version,
    pub(super) plugins: Vec<Plugin>,
    pub(super) disable_check: bool,
    pub(super) disable_gc: bool,
    /// The list as it was read.
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plugin {
    /// The name of its program.
    pub(super) kind: String,
    /// Those that the plugin wants values for.
    pub(super) capabilities: HashSet<String>,
    /// Its part of the configuration, without `capabilities`.
    pub(super) object: Map<String, Value>,
}

/// The first configuration of the folder, by name. A broken one is an error, not skipped: the next would be another network.
pub(super) fn load_first(folder: &Path) -> Result<Option<NetworkConfig>, NetworkFailure> {
    if !folder.exists() {
        return Ok(None);
    }
    files(folder, &["conf", "conflist", "json"])?.first().map(|path| load(path)).transpose()
}

fn load(path: &Path) -> Result<NetworkConfig, NetworkFailure> {
    let text = read_file(path)?;
    let error = |reason| NetworkFailure::Configuration { path: path.to_owned(), reason };
    let list = parse_list(&text).map_err(error)?;
    let list = with_plugins_of_folder(list, path.parent().unwrap_or(path))?;
    read_list(&list).map_err(error)
}

/// Appends the plugins in a folder with the name of the network, which administrators add to the list of another package.
fn with_plugins_of_folder(
    mut list: Map<String, Value>,
    config_folder: &Path,
) -> Result<Map<String, Value>, NetworkFailure> {
    let name = list.get("name").and_then(Value::as_str).unwrap_or_default();
    let folder = config_folder.join(name);
    if !is_name(name) || list.get("loadOnlyInlinedPlugins") == Some(&json!(true)) || !folder.is_dir() {
        return Ok(list);
    }
    for path in files(&folder, &["conf"])? {
        let text = read_file(&path)?;
        let plugin = serde_json::from_str(&text).map_err(|error| record_error(path.clone(), &error))?;
        if let Some(plugins) = list.get_mut("plugins").and_then(Value::as_array_mut) {
            plugins.push(plugin);
        }
    }
    Ok(list)
}

fn read_file(path: &Path) -> Result<String, NetworkFailure> {
    let mut text = String::new();
    let file = File::open(path).on_path("open", path)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).on_path("read", path)?;
    Ok(text)
}

/// The files with these suffixes, by name.
fn files(folder: &Path, suffixes: &[&str]) -> Result<Vec<PathBuf>, NetworkFailure> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).on_path("read", folder)? {
        let path = entry.on_path("read", folder)?.path();
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        if suffix.is_some_and(|suffix| suffixes.contains(&suffix)) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn parse(text: &str) -> Result<NetworkConfig, String> {
    read_list(&parse_list(text)?)
}

/// Reads a list, or a single plugin as a list of one.
fn parse_list(text: &str) -> Result<Map<String, Value>, String> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {MAX_FILE_BYTES} bytes"));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Value::Object(mut list) = value else { return Err("not an object".to_owned()) };
    if !list.contains_key("plugins") {
        let single = list;
        list = Map::new();
        for field in ["cniVersion", "name"] {
            single.get(field).map(|value| list.insert(field.to_owned(), value.clone()));
        }
        list.insert("plugins".to_owned(), json!([single]));
    }
    Ok(list)
}

fn read_list(list: &Map<String, Value>) -> Result<NetworkConfig, String> {
    let name = list.get("name").and_then(Value::as_str).unwrap_or_default();
    if !is_name(name) {
        return Err(format!("name {name:?} is not a name of letters, digits, hyphens, underscores and dots"));
    }
    let plugins = list.get("plugins").and_then(Value::as_array).ok_or("plugins is not a list")?;
    if plugins.is_empty() || plugins.len() > MAX_PLUGINS {
        return Err(format!("{} plugins; 1 to {MAX_PLUGINS} are possible", plugins.len()));
    }
    let plugins = plugins.iter().map(parse_plugin).collect::<Result<_, _>>()?;
    Ok(NetworkConfig {
        name: name.to_owned(),
        version: parse_version(list)?,
        plugins,
        disable_check: is_set(list, "disableCheck")?,
        disable_gc: is_set(list, "disableGC")?,
        text: Value::Object(list.clone()).to_string(),
    })
}

fn parse_plugin(plugin: &Value) -> Result<Plugin, String> {
    let mut object = plugin.as_object().ok_or("a plugin is not an object")?.clone();
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    // Part of a path.
    if !is_name(&kind) {
        return Err(format!("plugin type {kind:?} is not the name of a program"));
    }
    let capabilities = match object.remove("capabilities") {
        None | Some(Value::Null) => HashSet::new(),
        Some(Value::Object(capabilities)) => capabilities
            .into_iter()
            .filter(|(_, is_wanted)| *is_wanted == json!(true))
            .map(|(name, _)| name)
            .collect(),
        Some(_) => return Err(format!("capabilities of plugin {kind} is not an object")),
    };
    Ok(Plugin { kind, capabilities, object })
}

/// The highest version of `cniVersions` that podward knows, else `cniVersion`.
fn parse_version(list: &Map<String, Value>) -> Result<Version, String> {
    let offered = list.get("cniVersions").and_then(Value::as_array).into_iter().flatten();
    let best = offered.filter_map(|version| Version::parse(version.as_str()?)).max();
    let single = match list.get("cniVersion") {
        None | Some(Value::Null) => None,
        Some(version) => {
            let text = version.as_str().unwrap_or_default();
            Some(Version::parse(text)).filter(|_| !text.is_empty())
        }
    };
    match (best, single) {
        (Some(best), Some(Some(single))) => Ok(best.max(single)),
        (Some(version), _) | (None, Some(Some(version))) => Ok(version),
        (None, None) => Ok(Version::DEFAULT),
        (None, Some(None)) => Err(format!("cniVersion {} is not known", list["cniVersion"])),
    }
}

/// Older files have texts instead of booleans.
fn is_set(list: &Map<String, Value>, field: &str) -> Result<bool, String> {
    match list.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(value)) if value == "true" || value == "false" => Ok(value == "true"),
        Some(value) => Err(format!("{field} {value} is not true or false")),
    }
}

/// Names of networks, plugins and containers, as the specification defines them.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= 200
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(is_allowed)
}

/// The place of a file of a configuration, for errors.
pub(super) fn record_error(path: PathBuf, reason: &dyn ToString) -> NetworkFailure {
    NetworkFailure::Configuration { path, reason: reason.to_string() }
}

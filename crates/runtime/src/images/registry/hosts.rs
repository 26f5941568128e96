//! Where the images of a registry are fetched from: the registry itself, and mirrors from `hosts.toml`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_HOST: &str = "registry-1.docker.io";
const MAX_FILE: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    #[error("failed to read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("invalid {path}: {problem}")]
    Invalid { path: PathBuf, problem: String },
}

/// A server of the registry protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host, port and path, without a slash at the end.
    pub base: String,
    /// May answer which digest a tag has.
    pub resolves: bool,
    pub pulls: bool,
    /// The registry itself, which gets the credentials of the pull.
    pub is_origin: bool,
    /// Files with more certificate authorities.
    pub certificates: Vec<PathBuf>,
    /// Sent with each request.
    pub headers: Vec<(String, String)>,
}

impl Endpoint {
    fn origin(base: String) -> Self {
        Self {
            base,
            resolves: true,
            pulls: true,
            is_origin: true,
            certificates: Vec::new(),
            headers: Vec::new(),
        }
    }
}

/// The servers for `registry`, in the order in which they are tried.
pub(crate) fn endpoints(folder: Option<&Path>, registry: &str) -> Result<Vec<Endpoint>, HostsError> {
    for candidate in folder.into_iter().flat_map(|folder| folders(folder, registry)) {
        let path = candidate.join("hosts.toml");
        let text = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text.map_err(|source| HostsError::Read { path: path.clone(), source })?,
        };
        return parse(&text, registry, &candidate).map_err(|problem| HostsError::Invalid { path, problem });
    }
    Ok(origins(registry))
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("file is too large"));
    }
    fs::read_to_string(path)
}

/// A colon in the name of a folder is written as underscores on systems that do not allow it.
fn folders(folder: &Path, registry: &str) -> Vec<PathBuf> {
    let mut names = Vec::new();
    if let Some((host, port)) = registry.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        names.push(format!("{host}_{port}_"));
    }
    names.extend([registry.to_owned(), "_default".to_owned()]);
    names.into_iter().map(|name| folder.join(name)).collect()
}

fn origins(registry: &str) -> Vec<Endpoint> {
    if registry == DEFAULT_REGISTRY {
        return vec![Endpoint::origin(format!("https://{DEFAULT_HOST}/v2"))];
    }
    let https = Endpoint::origin(format!("https://{registry}/v2"));
    let http = Endpoint::origin(format!("http://{registry}/v2"));
    match (is_loopback(registry), port_of(registry)) {
        (false, _) | (true, Some("443")) => vec![https],
        (true, Some("80")) => vec![http],
        (true, _) => vec![https, http],
    }
}

fn port_of(registry: &str) -> Option<&str> {
    registry.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'))
}

fn is_loopback(registry: &str) -> bool {
    let host = match port_of(registry) {
        Some(port) => registry.strip_suffix(port).unwrap_or(registry).trim_end_matches(':'),
        None => registry,
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads the text of `hosts.toml` for `registry`. Paths of files are relative to `folder`.
pub fn parse(text: &str, registry: &str, folder: &Path) -> Result<Vec<Endpoint>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut endpoints = Vec::new();
    if let Some(hosts) = table.get("host") {
        let hosts = hosts.as_table().ok_or("host is not a table")?;
        // The parser sorts the names; the order of mirrors is the one in the file.
        let mut names: Vec<&String> = hosts.keys().collect();
        names.sort_by_key(|name| position(text, name));
        for name in names {
            let host = hosts.get(name).and_then(Value::as_table).ok_or("a host is not a table")?;
            endpoints.push(endpoint(name, host, folder)?);
        }
    }
    match table.get("server").map(|server| server.as_str().ok_or("server is not a text")) {
        None => endpoints.extend(origins(registry)),
        Some(server) => {
            let mut origin = endpoint(server?, &table, folder)?;
            origin.is_origin = true;
            endpoints.push(origin);
        }
    }
    Ok(endpoints)
}

fn position(text: &str, name: &str) -> usize {
    text.find(&format!("\"{name}\"")).or_else(|| text.find(&format!("'{name}'"))).unwrap_or(usize::MAX)
}

fn endpoint(name: &str, options: &Table, folder: &Path) -> Result<Endpoint, String> {
    let base = match name.split_once("://") {
        Some(("http" | "https", host)) if !host.is_empty() => name.to_owned(),
        Some(_) => return Err(format!("{name:?} is neither an http nor an https address")),
        None => format!("https://{name}"),
    };
    let base = base.trim_end_matches('/');
    for unsupported in ["client", "skip_verify"] {
        if options.get(unsupported).is_some_and(|value| *value != Value::Boolean(false)) {
            return Err(format!("{unsupported} of {name:?} is not supported"));
        }
    }
    let overrides = options.get("override_path").and_then(Value::as_bool).unwrap_or_default();
    let base = if overrides || base.ends_with("/v2") { base.to_owned() } else { format!("{base}/v2") };
    let capabilities = options.get("capabilities").map(|value| texts(value, "capabilities")).transpose()?;
    let has =
        |capability: &str| capabilities.as_ref().is_none_or(|all| all.iter().any(|one| one == capability));
    let certificates = options.get("ca").map(|value| texts(value, "ca")).transpose()?.unwrap_or_default();
    Ok(Endpoint {
        resolves: has("resolve"),
        pulls: has("pull"),
        is_origin: false,
        certificates: certificates.iter().map(|path| folder.join(path)).collect(),
        headers: headers(options)?,
        base,
    })
}

fn headers(options: &Table) -> Result<Vec<(String, String)>, String> {
    let Some(headers) = options.get("header") else { return Ok(Vec::new()) };
    let headers = headers.as_table().ok_or("header is not a table")?;
    let mut read = Vec::new();
    for (name, values) in headers {
        read.extend(texts(values, "header")?.into_iter().map(|value| (name.clone(), value)));
    }
    Ok(read)
}

/// One text or a list of texts.
fn texts(value: &Value, field: &str) -> Result<Vec<String>, String> {
    let problem = || format!("{field} is neither a text nor a list of texts");
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(list) => {
            list.iter().map(|text| text.as_str().map(str::to_owned).ok_or_else(problem)).collect()
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => {
            Err(problem())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bases(registry: &str) -> Vec<String> {
        endpoints(None, registry).unwrap().into_iter().map(|endpoint| endpoint.base).collect()
    }

    #[test]
    fn plain_http_is_used_for_loopback_registries_only() {
        assert_eq!(bases("docker.io"), ["https://registry-1.docker.io/v2"]);
        assert_eq!(bases("registry.example:5000"), ["https://registry.example:5000/v2"]);
        for registry in ["localhost:5000", "127.0.0.2:5000", "[::1]:5000"] {
            assert_eq!(bases(registry), [format!("https://{registry}/v2"), format!("http://{registry}/v2")]);
        }
        assert_eq!(bases("localhost:443"), ["https://localhost:443/v2"]);
        assert_eq!(bases("localhost.example:5000").len(), 1);
    }

    #[test]
    fn mirrors_come_before_the_server_in_the_order_of_the_file() {
        let text = r#"
            server = "https://registry.example"
            [host."https://z.example"]
              capabilities = ["pull", "resolve"]
              ca = "z.crt"
              [host."https://z.example".header]
                x-name = ["a", "b"]
            [host."http://a.example:5000/path"]
              capabilities = ["pull"]
              override_path = true
        "#;
        let endpoints = parse(text, "registry.example", Path::new("/certs")).unwrap();
        let bases: Vec<_> = endpoints.iter().map(|endpoint| endpoint.base.as_str()).collect();
        assert_eq!(
            bases,
            ["https://z.example/v2", "http://a.example:5000/path", "https://registry.example/v2"]
        );
        let [z, a, origin] = endpoints.as_slice() else { panic!("three endpoints") };
        assert_eq!(z.certificates, [Path::new("/certs/z.crt")]);
        assert_eq!(z.headers.len(), 2);
        assert!(!z.is_origin && a.pulls && !a.resolves && origin.is_origin);
    }

    #[test]
    fn settings_that_would_be_ignored_are_errors() {
        for text in [
            "[host.\"https://a\"]\nskip_verify = true",
            "[host.\"https://a\"]\nclient = \"x.pem\"",
            "[host.\"ftp://a\"]\n",
            "server = 3",
            "host = 3",
            "[host",
        ] {
            assert!(parse(text, "registry.example", Path::new("/")).is_err(), "{text}");
        }
    }
}

//! The grammar of image names, as distribution defines it.

const DEFAULT_REGISTRY: &str = "docker.io";
const LEGACY_REGISTRY: &str = "index.docker.io";
const OFFICIAL_PREFIX: &str = "library/";
const MAX_PATH: usize = 255;
const MAX_TAG: usize = 128;
const INVALID_FORMAT: &str = "invalid reference format";

/// An image name in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// Registry and path, with the default registry filled in; what credentials are looked up by.
    pub repository: String,
    pub tag: Option<String>,
    /// Digest with its algorithm, where written.
    pub digest: Option<String>,
}

impl ImageName {
    /// Whether the name has the tag `latest`, explicitly or because there is neither tag nor digest.
    pub fn is_latest(&self) -> bool {
        match &self.tag {
            Some(tag) => tag == "latest",
            None => self.digest.is_none(),
        }
    }
}

/// An invalid image name (`InvalidImageName`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {problem}")]
pub struct InvalidImageName {
    pub image: String,
    pub problem: String,
}

/// Reads an image name.
///
/// # Errors
/// When it does not follow the grammar.
pub fn parse_image_name(image: &str) -> Result<ImageName, InvalidImageName> {
    parse(image).map_err(|problem| InvalidImageName { image: image.to_owned(), problem })
}

fn parse(image: &str) -> Result<ImageName, String> {
    if image.len() == 64 && is_lower_hex(image) {
        return Err(format!("invalid repository name ({image}): 64 hexadecimal digits are an image id"));
    }
    let (domain, rest) = split_registry(image);
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (rest.as_str(), None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    if path.chars().any(char::is_uppercase) {
        return Err(format!("{INVALID_FORMAT}: repository name ({path}) must be lowercase"));
    }
    let repository = format!("{domain}/{path}");
    // A registry with an underscore is none, but may still be the first part of a path.
    let is_named = is_path(path) && is_registry(&domain) || is_path(&repository);
    if !is_named || !tag.is_none_or(is_tag) {
        return Err(INVALID_FORMAT.to_owned());
    }
    if path.len() > MAX_PATH {
        return Err(format!("repository name must not be more than {MAX_PATH} characters"));
    }
    if !digest.is_none_or(is_digest) {
        return Err("invalid checksum digest format".to_owned());
    }
    Ok(ImageName { repository, tag: tag.map(str::to_owned), digest: digest.map(str::to_owned) })
}

/// The first part is a registry if it looks like a host: a dot, a port, `localhost` or upper case.
fn split_registry(image: &str) -> (String, String) {
    let (registry, path) = match image.split_once('/') {
        Some((LEGACY_REGISTRY, path)) => (DEFAULT_REGISTRY, path),
        Some((first, path))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.chars().any(char::is_uppercase) =>
        {
            (first, path)
        }
        _ => (DEFAULT_REGISTRY, image),
    };
    let prefix = if registry == DEFAULT_REGISTRY && !path.contains('/') { OFFICIAL_PREFIX } else { "" };
    (registry.to_owned(), format!("{prefix}{path}"))
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => {
            !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        }),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_path(path: &str) -> bool {
    path.split('/').all(is_path_component)
}

/// Lower-case alphanumerics, joined by `.`, `_`, `__` or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
    component.starts_with(is_alphanumeric)
        && component.ends_with(is_alphanumeric)
        && component.split(is_alphanumeric).all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= MAX_TAG
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let (hex, length) = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    hex.len() == length && is_lower_hex(hex)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

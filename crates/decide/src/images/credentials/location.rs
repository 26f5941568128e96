//! Registry locations and their wildcards.

/// Normalised form of a location: host, and path unless it is the registry's API path.
pub(super) fn key(location: &str) -> Option<String> {
    let rest = location.strip_prefix("https://").or_else(|| location.strip_prefix("http://"));
    let (host, path) = split(rest.unwrap_or(location))?;
    let path = match path {
        _ if path.starts_with("/v2/") || path.starts_with("/v1/") => path.get(3..).unwrap_or_default(),
        path => path,
    };
    Some(if path.is_empty() || path == "/" { host.to_owned() } else { format!("{host}{path}") })
}

/// Whether a repository belongs to the default registry.
pub(super) fn is_default_registry(repository: &str) -> bool {
    match repository.split_once('/') {
        None => !repository.is_empty(),
        Some(("", _)) => false,
        Some(("docker.io" | "index.docker.io", _)) => true,
        Some((first, _)) => !first.contains(['.', ':']),
    }
}

/// Whether a location matches a repository. Wildcards match within one label of the host; the port must be equal, and the path
/// must be a prefix of the repository's.
pub fn locations_match(glob: &str, target: &str) -> bool {
    let (Some((glob_host, glob_path)), Some((target_host, target_path))) = (split(glob), split(target))
    else {
        return false;
    };
    let ((glob_host, glob_port), (target_host, target_port)) =
        (split_port(glob_host), split_port(target_host));
    if glob_port != target_port || !target_path.starts_with(glob_path) {
        return false;
    }
    let (globs, targets): (Vec<&str>, Vec<&str>) =
        (glob_host.split('.').collect(), target_host.split('.').collect());
    globs.len() == targets.len() && globs.iter().zip(targets).all(|(glob, target)| part_matches(glob, target))
}

/// Host and path of a location without a scheme; `None` without a valid host.
pub(super) fn split(location: &str) -> Option<(&str, &str)> {
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let at = location.find('/').unwrap_or(location.len());
    let (host, path) = location.split_at(at);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let named = host.strip_prefix('[').unwrap_or(host);
    let plain = !named.chars().any(|c| c.is_whitespace() || c.is_control() || "\"<>\\^`{|}[".contains(c));
    // The port must be a number, and an IPv6 address needs its closing bracket.
    let port_is_number = match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => port.chars().all(|c| c.is_ascii_digit()),
        Some(_) | None => true,
    };
    (plain && port_is_number).then_some((host, path))
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
        Some(_) | None => (host, ""),
    }
}

/// `*` matches any text. Upstream parses the location as a URL, which excludes other wildcards.
fn part_matches(glob: &str, target: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == target };
    let Some(mut target) = target.strip_prefix(first) else { return false };
    let mut rest = rest;
    while let Some((middle, after)) = rest.split_once('*') {
        let Some(at) = target.find(middle) else { return false };
        (target, rest) = (target.get(at + middle.len()..).unwrap_or_default(), after);
    }
    target.ends_with(rest)
}

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where a runtime listens: a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

/// Why a text names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is not `unix`.
    #[error("runtime endpoint {0:?}: only unix sockets are supported, as unix:///path")]
    Scheme(String),
    /// The path is missing or relative.
    #[error("runtime endpoint {0:?}: the path of the socket must be absolute")]
    Path(String),
}

impl Endpoint {
    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `unix:///path`, `unix:/path` or `/path`.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let path = match text.split_once(':') {
            Some(("unix", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((scheme, _)) if !scheme.contains('/') => return Err(EndpointError::Scheme(text.to_owned())),
            Some(_) | None => text,
        };
        if !path.starts_with('/') {
            return Err(EndpointError::Path(text.to_owned()));
        }
        Ok(Self(path.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_forms_that_kubelet_reads() {
        for text in ["unix:///run/c.sock", "unix:/run/c.sock", "/run/c.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().path(), Path::new("/run/c.sock"), "{text}");
        }
        assert_eq!("/run/a:b".parse::<Endpoint>().unwrap().path(), Path::new("/run/a:b"));
    }

    #[test]
    fn refuses_what_it_cannot_reach() {
        for text in ["tcp://127.0.0.1:1", "npipe:////./pipe/c"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Scheme(text.into())));
        }
        for text in ["", "run/c.sock", "unix://run/c.sock", "unix://"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Path(text.into())));
        }
    }
}

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The unix socket of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("runtime endpoint {0:?}: only unix sockets are supported, such as unix:///path")]
    Scheme(String),
    #[error("runtime endpoint {0:?}: the socket path must be absolute")]
    Path(String),
}

impl Endpoint {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Parses `unix:///path`, `unix:/path` or `/path`.
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
    fn parses_the_forms_that_the_kubelet_accepts() {
        for text in ["unix:///run/c.sock", "unix:/run/c.sock", "/run/c.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().path(), Path::new("/run/c.sock"), "{text}");
        }
        assert_eq!("/run/a:b".parse::<Endpoint>().unwrap().path(), Path::new("/run/a:b"));
    }

    #[test]
    fn rejects_other_schemes_and_relative_paths() {
        for text in ["tcp://127.0.0.1:1", "npipe:////./pipe/c"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Scheme(text.into())));
        }
        for text in ["", "run/c.sock", "unix://run/c.sock", "unix://"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Path(text.into())));
        }
    }
}

use std::fmt;

use ports::outbound::Scheme;

use crate::go_format::host_port;

/// The URL of a request, parsed and escaped like Go's `net/url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// Without brackets.
    pub(crate) host: String,
    /// `None` if a redirect has no port.
    pub(crate) port: Option<u16>,
    /// Escaped path and query; starts with `/` or `?`, or is empty.
    pub(crate) target: String,
}

impl Url {
    /// Builds the URL of a probe or hook. Ignores a scheme and host in `path`.
    pub(crate) fn from_spec(scheme: Scheme, host: &str, port: u16, path: &str) -> Self {
        let target = match UrlParts::parse(path) {
            Some(parts) => parts.target(),
            // Not a valid URL: escape the complete text as a path.
            None => with_leading_slash(&escape(path, EscapeMode::UnescapedPath)),
        };
        Self { scheme, host: host.to_owned(), port: Some(port), target }
    }

    /// Resolves a `Location` header; `None` if it is not an HTTP(S) URL.
    pub(crate) fn follow(&self, location: &str) -> Option<Self> {
        let parts = UrlParts::parse(location)?;
        let scheme = match parts.scheme.map(str::to_ascii_lowercase).as_deref() {
            None => self.scheme,
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return None,
        };
        if let Some(authority) = parts.authority {
            let (host, port) = split_authority(authority)?;
            return Some(Self { scheme, host, port, target: parts.target() });
        }
        if parts.scheme.is_some() {
            return None;
        }
        let (base_path, _) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let path = match parts.path {
            "" if parts.query.is_none() => return Some(self.clone()),
            "" => base_path.to_owned(),
            absolute if absolute.starts_with('/') => resolve_dot_segments(absolute),
            relative => {
                let folder = base_path.rfind('/').and_then(|slash| base_path.get(..=slash)).unwrap_or("/");
                resolve_dot_segments(&format!("{folder}{relative}"))
            }
        };
        let parts = UrlParts { path: &path, scheme: None, authority: None, query: parts.query };
        Some(Self { target: parts.target(), ..self.clone() })
    }

    /// Returns the port to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        })
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => host_port(&self.host, port),
            None if self.host.contains(':') => format!("[{}]", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns the target for the request line.
    pub(crate) fn path_and_query(&self) -> String {
        with_leading_slash(&self.target)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.as_str(), self.authority(), self.target)
    }
}

fn with_leading_slash(target: &str) -> String {
    if target.starts_with('/') { target.to_owned() } else { format!("/{target}") }
}

struct UrlParts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> UrlParts<'a> {
    /// Returns `None` for text that Go does not parse.
    fn parse(text: &'a str) -> Option<Self> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return None;
        }
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (text, query) = match text.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (text, None),
        };
        let (scheme, text) = match text.split_once(':') {
            Some((scheme, after)) if is_scheme(scheme) => (Some(scheme), after),
            _ => (None, text),
        };
        let (authority, path) = match text.strip_prefix("//") {
            Some(after) => {
                let slash = after.find('/').unwrap_or(after.len());
                let (authority, path) = after.split_at(slash);
                (Some(authority), path)
            }
            None => (None, text),
        };
        has_valid_escapes(path).then_some(Self { scheme, authority, path, query })
    }

    fn target(&self) -> String {
        let path = match self.path {
            "" => String::new(),
            path => with_leading_slash(&escape(path, EscapeMode::Path)),
        };
        match self.query {
            Some(query) => format!("{path}?{}", escape(query, EscapeMode::Query)),
            None => path,
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn has_valid_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let mut digits = after.bytes();
        digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            && digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
    })
}

fn split_authority(text: &str) -> Option<(String, Option<u16>)> {
    let text = text.rsplit_once('@').map_or(text, |(_, after)| after);
    let (host, port) = match text.strip_prefix('[') {
        Some(ipv6) => {
            let (host, after) = ipv6.split_once(']')?;
            (host, after.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None | Some("") => None,
        Some(digits) => Some(digits.parse().ok()?),
    };
    Some((host.to_owned(), port))
}

/// Resolves `.` and `..` in an absolute path.
fn resolve_dot_segments(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    format!("/{}", segments.join("/"))
}

#[derive(Clone, Copy)]
enum EscapeMode {
    Path,
    Query,
    /// A path in which `%` is not an escape.
    UnescapedPath,
}

fn escape(text: &str, mode: EscapeMode) -> String {
    let unescaped: &[u8] = match mode {
        EscapeMode::Path => b"-_.~$&+,/:;=@!'()*[]%",
        EscapeMode::Query => b"-_.~$&+,/:;=@!'()*[]%?{}|\\^`\"<>",
        EscapeMode::UnescapedPath => b"-_.~$&+,/:;=@",
    };
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || unescaped.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(path: &str) -> String {
        Url::from_spec(Scheme::Http, "localhost", 93, path).to_string()
    }

    #[test]
    fn builds_urls_from_specs_like_upstream() {
        for (path, expected) in [
            ("", "http://localhost:93"),
            ("/path", "http://localhost:93/path"),
            ("?foo", "http://localhost:93?foo"),
            ("path?bar", "http://localhost:93/path?bar"),
            ("/a b", "http://localhost:93/a%20b"),
            ("/x#part", "http://localhost:93/x"),
            ("//elsewhere/x", "http://localhost:93/x"),
            ("http://elsewhere:1/x?y", "http://localhost:93/x?y"),
            ("/50%?x", "http://localhost:93/50%25%3Fx"),
        ] {
            assert_eq!(url(path), expected, "{path}");
        }
        assert_eq!(Url::from_spec(Scheme::Http, "h", 1, "?q").path_and_query(), "/?q");
        assert_eq!(Url::from_spec(Scheme::Https, "fd00::1", 1, "/").to_string(), "https://[fd00::1]:1/");
    }

    #[test]
    fn resolves_location_headers() {
        let from = Url::from_spec(Scheme::Http, "10.0.0.7", 8080, "/a/b?c");
        for (location, expected) in [
            ("/new", Some("http://10.0.0.7:8080/new")),
            ("new", Some("http://10.0.0.7:8080/a/new")),
            ("../x", Some("http://10.0.0.7:8080/x")),
            ("?q=1", Some("http://10.0.0.7:8080/a/b?q=1")),
            ("https://10.0.0.7/", Some("https://10.0.0.7/")),
            ("//other/x", Some("http://other/x")),
            ("http://[fd00::1]:8/x", Some("http://[fd00::1]:8/x")),
            ("ftp://10.0.0.7/", None),
        ] {
            assert_eq!(from.follow(location).map(|url| url.to_string()).as_deref(), expected, "{location}");
        }
    }
}

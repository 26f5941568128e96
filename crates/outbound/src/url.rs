use std::fmt;

use ports::outbound::Scheme;

use crate::words::host_port;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// Without brackets.
    pub(crate) host: String,
    /// `None` when a redirect named none.
    pub(crate) port: Option<u16>,
    /// Path and query, escaped; starts with `/` or `?`, or is empty.
    pub(crate) rest: String,
}

impl Url {
    /// The target of a spec. Scheme and host inside its path never count.
    pub(crate) fn of_spec(scheme: Scheme, host: &str, port: u16, path: &str) -> Self {
        let rest = match Parts::of(path) {
            Some(parts) => parts.rest(),
            // Not a URL: everything is taken as the path, as it is.
            None => rooted(&escape(path, Part::Literal)),
        };
        Self { scheme, host: host.to_owned(), port: Some(port), rest }
    }

    /// Where a `Location` header leads from here; `None` if it is no URL or of another scheme than HTTP.
    pub(crate) fn follow(&self, location: &str) -> Option<Self> {
        let parts = Parts::of(location)?;
        let scheme = match parts.scheme.map(str::to_ascii_lowercase).as_deref() {
            None => self.scheme,
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return None,
        };
        if let Some(authority) = parts.authority {
            let (host, port) = split_authority(authority)?;
            return Some(Self { scheme, host, port, rest: parts.rest() });
        }
        if parts.scheme.is_some() {
            return None;
        }
        let (own_path, _) = self.rest.split_once('?').unwrap_or((&self.rest, ""));
        let path = match parts.path {
            "" if parts.query.is_none() => return Some(self.clone()),
            "" => own_path.to_owned(),
            absolute if absolute.starts_with('/') => without_dots(absolute),
            relative => {
                let folder = own_path.rfind('/').and_then(|at| own_path.get(..=at)).unwrap_or("/");
                without_dots(&format!("{folder}{relative}"))
            }
        };
        let parts = Parts { path: &path, scheme: None, authority: None, query: parts.query };
        Some(Self { rest: parts.rest(), ..self.clone() })
    }

    /// The port to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        })
    }

    /// For the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => host_port(&self.host, port),
            None if self.host.contains(':') => format!("[{}]", self.host),
            None => self.host.clone(),
        }
    }

    /// For the request line.
    pub(crate) fn path_and_query(&self) -> String {
        rooted(&self.rest)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.as_str(), self.authority(), self.rest)
    }
}

fn rooted(rest: &str) -> String {
    if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") }
}

struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// `None` for text that Go refuses to parse.
    fn of(text: &'a str) -> Option<Self> {
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
                let at = after.find('/').unwrap_or(after.len());
                let (authority, path) = after.split_at(at);
                (Some(authority), path)
            }
            None => (None, text),
        };
        is_escaped_well(path).then_some(Self { scheme, authority, path, query })
    }

    fn rest(&self) -> String {
        let path = match self.path {
            "" => String::new(),
            path => rooted(&escape(path, Part::Path)),
        };
        match self.query {
            Some(query) => format!("{path}?{}", escape(query, Part::Query)),
            None => path,
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_escaped_well(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let mut digits = after.bytes();
        digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            && digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
    })
}

fn split_authority(text: &str) -> Option<(String, Option<u16>)> {
    let text = text.rsplit_once('@').map_or(text, |(_, after)| after);
    let (host, port) = match text.strip_prefix('[') {
        Some(six) => {
            let (host, after) = six.split_once(']')?;
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

/// Resolves `.` and `..` of an absolute path.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

#[derive(Clone, Copy)]
enum Part {
    Path,
    Query,
    /// A path of which nothing is escaped yet.
    Literal,
}

fn escape(text: &str, part: Part) -> String {
    let plain: &[u8] = match part {
        Part::Path => b"-_.~$&+,/:;=@!'()*[]%",
        Part::Query => b"-_.~$&+,/:;=@!'()*[]%?{}|\\^`\"<>",
        Part::Literal => b"-_.~$&+,/:;=@",
    };
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
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

    fn of(path: &str) -> String {
        Url::of_spec(Scheme::Http, "localhost", 93, path).to_string()
    }

    #[test]
    fn specs_become_urls_as_upstream_writes_them() {
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
            assert_eq!(of(path), expected, "{path}");
        }
        assert_eq!(Url::of_spec(Scheme::Http, "h", 1, "?q").path_and_query(), "/?q");
        assert_eq!(Url::of_spec(Scheme::Https, "fd00::1", 1, "/").to_string(), "https://[fd00::1]:1/");
    }

    #[test]
    fn locations_are_resolved() {
        let from = Url::of_spec(Scheme::Http, "10.0.0.7", 8080, "/a/b?c");
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

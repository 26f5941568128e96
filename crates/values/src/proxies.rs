//! The proxies of an environment (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`), with the rules of Go's `net/http`.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyScheme {
    /// Forwards plain requests, and opens tunnels (`CONNECT`) for TLS.
    Http,
    /// The same, over a TLS connection to the proxy.
    Https,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub scheme: ProxyScheme,
    /// Host and port. An IPv6 address has brackets.
    pub authority: String,
    /// Name and password.
    pub user: Option<(String, String)>,
}

impl fmt::Debug for Proxy {
    /// Never shows the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Proxy({:?}, {})", self.scheme, self.authority)
    }
}

impl Proxy {
    /// Reads the address of a proxy. Without a scheme it is an HTTP proxy.
    ///
    /// # Errors
    /// If the scheme is unknown or there is no host.
    pub fn parse(text: &str) -> Result<Self, InvalidProxy> {
        let invalid = || InvalidProxy(without_user(text));
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "http" => (ProxyScheme::Http, rest),
                "https" => (ProxyScheme::Https, rest),
                "socks5" | "socks5h" => (ProxyScheme::Socks5, rest),
                _ => return Err(invalid()),
            },
            None => (ProxyScheme::Http, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = rest.get(..end).unwrap_or(rest);
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((percent_decoded(name), percent_decoded(password))), address)
            }
            None => (None, authority),
        };
        let (host, port) = split_port(address);
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(invalid());
        }
        let port = port.unwrap_or(match scheme {
            ProxyScheme::Http => 80,
            ProxyScheme::Https => 443,
            ProxyScheme::Socks5 => 1080,
        });
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Ok(Self { scheme, authority: format!("{host}:{port}"), user })
    }

    /// The value of the `Proxy-Authorization` header.
    pub fn authorization(&self) -> Option<String> {
        let (name, password) = self.user.as_ref()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
    }
}

/// A server to connect to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    scheme: &'a str,
    /// Without brackets.
    host: &'a str,
    port: u16,
}

impl<'a> Target<'a> {
    /// From the parts of a URL. An IPv6 address may have brackets, and the port may be absent.
    pub fn new(scheme: &'a str, host: &'a str, port: Option<u16>) -> Self {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { scheme, host, port: port.unwrap_or(if scheme == "https" { 443 } else { 80 }) }
    }
}

/// The text is not the address of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid proxy address {0:?}")]
pub struct InvalidProxy(String);

/// The proxy settings of an environment.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Result<Proxy, InvalidProxy>>,
    https: Option<Result<Proxy, InvalidProxy>>,
    exempt: Vec<Exempt>,
}

/// An entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exempt {
    All,
    Net {
        first: IpAddr,
        bits: u32,
    },
    Address {
        address: IpAddr,
        port: Option<u16>,
    },
    Domain {
        /// Starts with a dot.
        suffix: String,
        /// Whether the domain without a subdomain matches as well.
        itself: bool,
        port: Option<u16>,
    },
}

impl Proxies {
    /// Reads the variables in upper case, and in lower case those that are not set.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            let set = |name: &str| variable(name).filter(|value| !value.is_empty());
            set(name).or_else(|| set(&name.to_ascii_lowercase()))
        };
        let proxy = |name: &str| read(name).map(|text| Proxy::parse(&text));
        let exempt = read("NO_PROXY").unwrap_or_default();
        Self {
            http: proxy("HTTP_PROXY"),
            https: proxy("HTTPS_PROXY"),
            exempt: exempt.split(',').filter_map(parse_exempt).collect(),
        }
    }

    /// The proxy for connections to a server; `None` means that it is reached directly.
    ///
    /// # Errors
    /// If the variable for this server is not the address of a proxy.
    pub fn proxy_for(&self, target: Target<'_>) -> Result<Option<&Proxy>, InvalidProxy> {
        let proxy = match target.scheme {
            "https" => &self.https,
            "http" => &self.http,
            _ => return Ok(None),
        };
        match proxy {
            Some(_) if self.is_exempt(target) => Ok(None),
            Some(proxy) => proxy.as_ref().map(Some).map_err(Clone::clone),
            None => Ok(None),
        }
    }

    fn is_exempt(&self, target: Target<'_>) -> bool {
        let host = target.host.trim().to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        // A proxy cannot reach the servers of this machine.
        if host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback()) {
            return true;
        }
        self.exempt.iter().any(|exempt| exempt.covers(&host, address, target.port))
    }
}

impl Exempt {
    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let fits = |own: &Option<u16>| own.is_none_or(|own| own == port);
        match self {
            Self::All => true,
            Self::Net { first, bits } => address.is_some_and(|address| in_net(address, *first, *bits)),
            Self::Address { address: own, port } => {
                address.is_some_and(|address| address.to_canonical() == own.to_canonical()) && fits(port)
            }
            Self::Domain { suffix, itself, port } => {
                let is_it = *itself && suffix.strip_prefix('.') == Some(host);
                (is_it || host.ends_with(suffix.as_str())) && fits(port)
            }
        }
    }
}

fn in_net(address: IpAddr, first: IpAddr, bits: u32) -> bool {
    match (address.to_canonical(), first) {
        (IpAddr::V4(address), IpAddr::V4(first)) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
            u32::from(address) & mask == u32::from(first) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(first)) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
            u128::from(address) & mask == u128::from(first) & mask
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

fn parse_exempt(entry: &str) -> Option<Exempt> {
    let entry = entry.trim().to_ascii_lowercase();
    if entry.is_empty() {
        return None;
    }
    if entry == "*" {
        return Some(Exempt::All);
    }
    if let Some((first, bits)) = entry.split_once('/')
        && let (Ok(first), Ok(bits)) = (first.parse::<IpAddr>(), bits.parse::<u32>())
    {
        let most = if first.is_ipv4() { 32 } else { 128 };
        return (bits <= most).then_some(Exempt::Net { first, bits });
    }
    let (host, port) = split_port(&entry);
    if host.is_empty() {
        return None;
    }
    if let Ok(address) = host.parse() {
        return Some(Exempt::Address { address, port });
    }
    // `*.example.com` means `.example.com`.
    let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
    let itself = !host.starts_with('.');
    let suffix = if itself { format!(".{host}") } else { host.to_owned() };
    Some(Exempt::Domain { suffix, itself, port })
}

/// Splits `host:port` and `[address]:port`; the port may be absent.
fn split_port(text: &str) -> (&str, Option<u16>) {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((address, behind)) = rest.split_once(']')
    {
        return (address, behind.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match text.split_once(':') {
        // More than one colon: an IPv6 address.
        Some((_, port)) if port.contains(':') => (text, None),
        Some((host, port)) => (host, port.parse().ok()),
        None => (text, None),
    }
}

/// The address without credentials, for messages.
fn without_user(text: &str) -> String {
    text.rsplit_once('@').map_or(text, |(_, place)| place).to_owned()
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxy_of(proxies: &Proxies, scheme: &str, host: &str, port: u16) -> Option<String> {
        let found = proxies.proxy_for(Target::new(scheme, host, Some(port))).unwrap();
        found.map(|proxy| proxy.authority.clone())
    }

    #[test]
    fn selects_proxy_by_scheme() {
        let both = proxies(&[("HTTP_PROXY", "http://one:3128"), ("https_proxy", "two")]);
        assert_eq!(proxy_of(&both, "http", "a.example", 80).as_deref(), Some("one:3128"));
        assert_eq!(proxy_of(&both, "https", "a.example", 443).as_deref(), Some("two:80"));
        let upper = proxies(&[("HTTP_PROXY", "upper:1"), ("http_proxy", "lower:2"), ("ALL_PROXY", "all:3")]);
        assert_eq!(proxy_of(&upper, "http", "a.example", 80).as_deref(), Some("upper:1"));
        assert_eq!(proxy_of(&upper, "https", "a.example", 443), None);
    }

    #[test]
    fn no_proxy_entries_and_loopback_bypass_the_proxy() {
        let table = [
            ("example.com", "example.com", 80, true),
            ("example.com", "www.Example.com", 80, true),
            ("example.com", "notexample.com", 80, false),
            (".example.com", "example.com", 80, false),
            (".example.com", "www.example.com", 80, true),
            ("*.example.com", "www.example.com", 80, true),
            ("*.example.com", "example.com", 80, false),
            ("example.com:81", "example.com", 80, false),
            ("example.com:81", "example.com", 81, true),
            ("10.0.0.0/8, fd00::/16", "10.9.8.7", 80, true),
            ("10.0.0.0/8, fd00::/16", "fd00:1::7", 80, true),
            ("10.0.0.0/8, fd00::/16", "11.9.8.7", 80, false),
            ("192.0.2.1", "192.0.2.1", 80, true),
            ("192.0.2.1:81", "192.0.2.1", 80, false),
            ("[2001:db8::1]:81", "2001:db8::1", 81, true),
            ("*", "anybody", 80, true),
            (" , ", "anybody", 80, false),
            ("", "localhost", 80, true),
            ("", "127.0.0.2", 80, true),
            ("", "::1", 80, true),
        ];
        for (exempt, host, port, direct) in table {
            let proxies = proxies(&[("HTTP_PROXY", "proxy:3128"), ("NO_PROXY", exempt)]);
            assert_eq!(proxy_of(&proxies, "http", host, port).is_none(), direct, "{exempt} {host}:{port}");
        }
    }

    #[test]
    fn parses_proxy_addresses_and_hides_credentials() {
        let read =
            |text: &str| Proxy::parse(text).map(|proxy| (proxy.scheme, proxy.authority.clone(), proxy));
        let (scheme, authority, proxy) = read("http://ann:a%40b@proxy.example:8080/path").unwrap();
        assert_eq!((scheme, authority.as_str()), (ProxyScheme::Http, "proxy.example:8080"));
        assert_eq!(proxy.user, Some(("ann".to_owned(), "a@b".to_owned())));
        assert_eq!(proxy.authorization().as_deref(), Some("Basic YW5uOmFAYg=="));
        assert!(!format!("{proxy:?}").contains("a@b"));
        assert_eq!(read("socks5://[fd00::1]").unwrap().1, "[fd00::1]:1080");
        assert_eq!(read("https://proxy").unwrap().0, ProxyScheme::Https);
        for bad in ["ftp://proxy", "http://", "http://u:p@"] {
            let error = Proxy::parse(bad).unwrap_err();
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
        let bad = proxies(&[("HTTP_PROXY", "ftp://proxy")]);
        assert!(bad.proxy_for(Target::new("http", "a.example", None)).is_err());
        assert!(bad.proxy_for(Target::new("http", "localhost", None)).is_ok());
    }
}

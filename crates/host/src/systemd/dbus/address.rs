use std::io;
use std::path::PathBuf;

/// The first socket of a bus address such as `unix:path=/run/dbus/system_bus_socket`. An abstract socket begins with
/// a zero byte.
pub(crate) fn socket(address: &str) -> io::Result<PathBuf> {
    let mut found = address.split(';').filter_map(|one| one.strip_prefix("unix:"));
    let socket = found.find_map(|one| {
        one.split(',').filter_map(|pair| pair.split_once('=')).find_map(|(key, value)| match key {
            "path" => unescape(value),
            "abstract" => unescape(value).map(|name| format!("\0{name}")),
            _ => None,
        })
    });
    let unusable =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("no socket in bus address {address:?}"));
    socket.map(PathBuf::from).ok_or_else(unusable)
}

/// Decodes `%` and two hexadecimal digits.
fn unescape(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn finds_sockets_in_bus_addresses() {
        for (address, path) in [
            ("unix:path=/run/bus", "/run/bus"),
            ("unix:guid=1,path=/run/bus", "/run/bus"),
            ("unix:path=/a%20b", "/a b"),
            ("tcp:host=h;unix:path=/run/bus", "/run/bus"),
        ] {
            assert_eq!(socket(address).unwrap(), Path::new(path), "{address}");
        }
        assert_eq!(socket("unix:abstract=x").unwrap(), Path::new("\0x"));
        for address in ["", "unix:", "tcp:host=h", "unix:path=%2", "unix:path=%zz", "unix:path=%ff"] {
            assert!(socket(address).is_err(), "{address}");
        }
    }
}

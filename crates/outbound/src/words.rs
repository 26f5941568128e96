//! Texts as Go's standard library writes them: users and their tools read them in events.

use std::io;
use std::time::Duration;

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What the kernel said about a socket.
pub(crate) fn system_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::ConnectionAborted => "software caused connection abort".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::BrokenPipe => "broken pipe".to_owned(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

/// A duration of whole milliseconds or more: `1s`, `1m30s`, `1h0m0s`, `1.5s`.
pub(crate) fn duration(time: Duration) -> String {
    let (hours, minutes) = (time.as_secs() / 3600, time.as_secs() / 60 % 60);
    let seconds = time.as_secs() % 60;
    let seconds = match time.subsec_millis() {
        0 => format!("{seconds}s"),
        millis => format!("{}s", format!("{seconds}.{millis:03}").trim_end_matches('0')),
    };
    match (hours, minutes) {
        (0, 0) if time.as_secs() == 0 && time.subsec_millis() > 0 => format!("{}ms", time.subsec_millis()),
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_gos() {
        for (millis, text) in [
            (0, "0s"),
            (250, "250ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (60_000, "1m0s"),
            (90_000, "1m30s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn six_has_brackets() {
        assert_eq!(host_port("fd00::7", 80), "[fd00::7]:80");
        assert_eq!(host_port("10.0.0.7", 80), "10.0.0.7:80");
    }
}

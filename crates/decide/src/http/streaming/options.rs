use model::StreamChoice;

/// The streams that a query of `/exec` or `/attach` requests. A terminal has no separate stderr.
///
/// # Errors
/// When it requests no stream.
pub fn requested_streams(query: &[(String, String)]) -> Result<StreamChoice, String> {
    let on = |name: &str| query.iter().find(|(key, _)| key == name).is_some_and(|(_, value)| value == "1");
    let tty = on("tty");
    let streams = StreamChoice { stdin: on("input"), stdout: on("output"), stderr: on("error") && !tty, tty };
    if !streams.stdin && !streams.stdout && !streams.stderr {
        return Err("you must specify at least 1 of stdin, stdout, stderr".to_owned());
    }
    Ok(streams)
}

/// The ports in a query of `/portForward`, which only old WebSocket clients send.
///
/// # Errors
/// When the list is empty or has an invalid port.
pub fn forwarded_ports(query: &[(String, String)]) -> Result<Vec<u16>, String> {
    let values: Vec<&str> =
        query.iter().filter(|(key, _)| key == "port").map(|(_, value)| value.as_str()).collect();
    if values.is_empty() {
        return Err("query parameter \"port\" is required".to_owned());
    }
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for text in value.split(',') {
            match text.parse::<u16>() {
                Ok(0) => return Err(format!("port {value:?} must be > 0")),
                Ok(port) if text.bytes().all(|byte| byte.is_ascii_digit()) => ports.push(port),
                _ => return Err(format!("unable to parse {value:?} as a port")),
            }
        }
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parses_requested_streams() {
        let streams = |pairs: &[(&str, &str)]| requested_streams(&query(pairs));
        let all = streams(&[("input", "1"), ("output", "1"), ("error", "1")]).unwrap();
        assert_eq!(all, StreamChoice { stdin: true, stdout: true, stderr: true, tty: false });
        let terminal = streams(&[("output", "1"), ("error", "1"), ("tty", "1")]).unwrap();
        assert_eq!(terminal, StreamChoice { stdin: false, stdout: true, stderr: false, tty: true });
        for none in [&[][..], &[("tty", "1")], &[("output", "true")], &[("error", "1"), ("tty", "1")]] {
            assert!(streams(none).is_err(), "{none:?}");
        }
    }

    #[test]
    fn parses_ports_from_one_or_more_values() {
        let ports = |pairs: &[(&str, &str)]| forwarded_ports(&query(pairs));
        assert_eq!(ports(&[("port", "80"), ("port", "81,443")]), Ok(vec![80, 81, 443]));
        for bad in [&[][..], &[("port", "")], &[("port", "0")], &[("port", "65536")], &[("port", "+1")]] {
            assert!(ports(bad).is_err(), "{bad:?}");
        }
    }
}

//! A plain HTTP answerer: every request gets the pod's name, host name and the given text.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Opens the port and answers on a thread of its own; returns once the port is open.
pub(crate) fn start(port: u16, text: String) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("serving on port {port}");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One bad client must not end the service.
            let _ = answer(&stream, &text);
        }
    });
    Ok(())
}

fn answer(stream: &TcpStream, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut request = BufReader::new(stream);
    let mut line = String::new();
    let mut first = String::new();
    while request.read_line(&mut line)? > 2 {
        if first.is_empty() {
            first = line.trim_end().to_owned();
        }
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or("/");
    let body = body(path, text);
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn body(path: &str, text: &str) -> String {
    let hostname = crate::steps::hostname();
    let pod = std::env::var("POD_NAME").unwrap_or_else(|_| hostname.clone());
    match path {
        "/hostname" => format!("{hostname}\n"),
        "/healthz" => "ok\n".to_owned(),
        _ => format!("{text}\npod {pod} on host name {hostname}\n"),
    }
}

//! An HTTP server that responds with a text, the pod name and the host name.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct ServeOptions {
    pub(crate) text: String,
    pub(crate) status_file: StatusFile,
}

/// A file that contains the HTTP status to respond with. Without it the status is 200.
#[derive(Clone, Default)]
pub(crate) struct StatusFile(pub(crate) Option<String>);

impl StatusFile {
    pub(crate) fn status(&self) -> u16 {
        let text = self.0.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(200)
    }
}

/// Returns once the port is open, and serves requests on background threads.
pub(crate) fn start(port: u16, options: ServeOptions) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("serving on port {port}");
    let options = Arc::new(options);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let options = Arc::clone(&options);
            // A slow or faulty client must not block others.
            std::thread::spawn(move || respond(&stream, &options));
        }
    });
    Ok(())
}

fn respond(stream: &TcpStream, options: &ServeOptions) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut request = BufReader::new(stream);
    let mut line = String::new();
    let mut first = String::new();
    let mut agent = String::new();
    while request.read_line(&mut line)? > 2 {
        if first.is_empty() {
            first = line.trim_end().to_owned();
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("user-agent")
        {
            agent = value.trim().to_owned();
        }
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or("/");
    println!("request {path} from {agent}");
    let (status, location) = match path {
        "/redirect" => (302, "Location: /healthz\r\n"),
        "/away" => (302, "Location: http://192.0.2.1/\r\n"),
        "/slow" => {
            #[expect(
                clippy::disallowed_methods,
                reason = "runs on its own thread, and the delay is intended"
            )]
            std::thread::sleep(Duration::from_secs(5));
            (200, "")
        }
        _ => (options.status_file.status(), ""),
    };
    let body = body(path, &options.text);
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} Answer\r\nContent-Type: text/plain; charset=utf-8\r\n{location}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
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

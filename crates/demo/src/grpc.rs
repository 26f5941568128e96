//! A gRPC health server (`grpc.health.v1`).
//!
//! It implements a minimal subset of HTTP/2 and ignores the content of requests, because all responses are the same.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::serve::StatusFile;

const PREFACE_LENGTH: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns once the port is open, and serves calls on background threads.
pub(crate) fn start(port: u16, status_file: StatusFile) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("serving gRPC on port {port}");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let status_file = status_file.clone();
            std::thread::spawn(move || serve_connection(stream, &status_file));
        }
    });
    Ok(())
}

fn serve_connection(mut stream: TcpStream, status_file: &StatusFile) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.read_exact(&mut [0; PREFACE_LENGTH])?;
    write_frame(&mut stream, SETTINGS, 0, 0, &[])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = head;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        let stream_id = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        match kind {
            SETTINGS if flags & ACK == 0 => write_frame(&mut stream, SETTINGS, ACK, 0, &[])?,
            PING if flags & ACK == 0 => write_frame(&mut stream, PING, ACK, 0, &payload)?,
            DATA | HEADERS if flags & END_STREAM != 0 => respond(&mut stream, stream_id, status_file)?,
            _ => {}
        }
    }
}

fn respond(stream: &mut TcpStream, stream_id: u32, status_file: &StatusFile) -> io::Result<()> {
    // SERVING is 1, NOT_SERVING is 2.
    let status = if status_file.status() == 200 { 1 } else { 2 };
    println!("health check, status {status}");
    // `:status: 200` from the static table, then the content type.
    let mut headers = vec![0x88];
    push_header(&mut headers, "content-type", "application/grpc");
    write_frame(stream, HEADERS, END_HEADERS, stream_id, &headers)?;
    write_frame(stream, DATA, 0, stream_id, &[0, 0, 0, 0, 2, 8, status])?;
    let mut trailers = Vec::new();
    push_header(&mut trailers, "grpc-status", "0");
    write_frame(stream, HEADERS, END_HEADERS | END_STREAM, stream_id, &trailers)
}

/// Appends a literal header without compression. Name and value must be shorter than 128 bytes.
fn push_header(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).unwrap_or(0) & 0x7f);
        block.extend_from_slice(text.as_bytes());
    }
}

fn write_frame(
    stream: &mut TcpStream,
    kind: u8,
    flags: u8,
    stream_id: u32,
    payload: &[u8],
) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = length.get(1..).unwrap_or_default().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream_id.to_be_bytes());
    bytes.extend_from_slice(payload);
    stream.write_all(&bytes)
}

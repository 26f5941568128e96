//! A gRPC server that knows one answer: how healthy it is (`grpc.health.v1`).
//!
//! It speaks just enough HTTP/2: it never reads what a call asks for, because every call gets the same answer.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::serve::Mood;

const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Opens the port and answers on threads of its own; returns once the port is open.
pub(crate) fn start(port: u16, mood: Mood) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("serving gRPC on port {port}");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mood = mood.clone();
            std::thread::spawn(move || converse(stream, &mood));
        }
    });
    Ok(())
}

fn converse(mut stream: TcpStream, mood: &Mood) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.read_exact(&mut [0; PREFACE])?;
    frame(&mut stream, SETTINGS, 0, 0, &[])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = head;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        let number = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        match kind {
            SETTINGS if flags & ACK == 0 => frame(&mut stream, SETTINGS, ACK, 0, &[])?,
            PING if flags & ACK == 0 => frame(&mut stream, PING, ACK, 0, &payload)?,
            DATA | HEADERS if flags & END_STREAM != 0 => answer(&mut stream, number, mood)?,
            _ => {}
        }
    }
}

fn answer(stream: &mut TcpStream, number: u32, mood: &Mood) -> io::Result<()> {
    // SERVING is 1, NOT_SERVING is 2.
    let status = if mood.status() == 200 { 1 } else { 2 };
    println!("health asked, answered {status}");
    // :status 200 from the static table, then the content type.
    let mut headers = vec![0x88];
    header(&mut headers, "content-type", "application/grpc");
    frame(stream, HEADERS, END_HEADERS, number, &headers)?;
    frame(stream, DATA, 0, number, &[0, 0, 0, 0, 2, 8, status])?;
    let mut trailers = Vec::new();
    header(&mut trailers, "grpc-status", "0");
    frame(stream, HEADERS, END_HEADERS | END_STREAM, number, &trailers)
}

/// A literal header without compression; both texts are short.
fn header(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).unwrap_or(0) & 0x7f);
        block.extend_from_slice(text.as_bytes());
    }
}

fn frame(stream: &mut TcpStream, kind: u8, flags: u8, number: u32, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = length.get(1..).unwrap_or_default().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(number.to_be_bytes());
    bytes.extend_from_slice(payload);
    stream.write_all(&bytes)
}

//! `podward exec`: runs a command in a container, with the streams and the exit code of this process.
//!
//! ```text
//!  standard input ─► channel 0 ─┐              ┌─► channel 1 ─► standard output
//!  terminal size ─► channel 4 ──┼─► WebSocket ─┼─► channel 2 ─► standard error
//!  end of input ─► channel 255 ─┘              └─► channel 3 ─► exit status
//! ```

mod exit_status;
mod raw_mode;
mod stdin;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::signal::unix::{SignalKind, signal};
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

use super::arguments::ExecArguments;
use super::client::Client;
use super::pod_names::{container, find, name_of};
use raw_mode::RawMode;
use stdin::Stdin;

/// The protocol that can close a single stream.
const PROTOCOL: &str = "v5.channel.k8s.io";
/// The handshake requires a key. A constant suffices because there is no proxy on a local socket.
const KEY: &str = "cG9kd2FyZCBleGVjIGtleQ==";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

pub(super) async fn run(arguments: ExecArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let container = container(&pod, arguments.container.as_deref())?;
    let (namespace, name) = name_of(&pod);
    let is_terminal = std::io::stdin().is_terminal();
    if arguments.tty && !(arguments.stdin && is_terminal) {
        eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let tty = arguments.tty && arguments.stdin && is_terminal;
    let path = format!("/exec/{namespace}/{name}/{container}?{}", query(&arguments, tty));
    let socket = open(&client, &path).await?;
    // Restores the terminal when dropped, also after an error.
    let _raw = tty.then(RawMode::enter).transpose().context("switch the terminal to raw mode")?;
    let stdin = if arguments.stdin { Stdin::start()? } else { Stdin::none() };
    copy_streams(socket, stdin, tty).await
}

fn query(arguments: &ExecArguments, tty: bool) -> String {
    let mut pairs = vec!["output=1".to_owned()];
    // A terminal merges both outputs into one.
    pairs.push(if tty { "tty=1" } else { "error=1" }.to_owned());
    if arguments.stdin {
        pairs.push("input=1".to_owned());
    }
    pairs.extend(arguments.command.iter().map(|argument| format!("command={}", percent_encode(argument))));
    pairs.join("&")
}

fn percent_encode(argument: &str) -> String {
    let mut text = String::new();
    for byte in argument.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// Opens the WebSocket. An error contains the agent's explanation.
async fn open(client: &Client, path: &str) -> anyhow::Result<Socket> {
    let stream = client.connect().await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.context("connect to the agent")?;
    let upgrade_request = Request::get(path)
        .header(header::HOST, "podward")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, KEY)
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .context("send the request to the agent")?;
    let request = async {
        let response = sender.send_request(upgrade_request).await.context("send the request to the agent")?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
            let text = String::from_utf8_lossy(&body.unwrap_or_default()).trim().to_owned();
            bail!("{}", if text.is_empty() { format!("the agent answered {status}") } else { text });
        }
        hyper::upgrade::on(response).await.context("upgrade the connection")
    };
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let mut request = std::pin::pin!(request);
    let upgraded = tokio::select! {
        upgraded = &mut request => upgraded?,
        ended = &mut connection => {
            ended.context("connect to the agent")?;
            // The connection was upgraded, so the response is complete.
            request.await?
        }
    };
    let limits = Limits::default().max_payload_len(Some(64 * 1024 * 1024));
    Ok(ClientBuilder::new().limits(limits).take_over(TokioIo::new(upgraded)))
}

/// Copies the streams until the command ends.
async fn copy_streams(socket: Socket, mut stdin: Stdin, tty: bool) -> anyhow::Result<ExitCode> {
    let (mut sink, mut source) = socket.split();
    let mut resizes = signal(SignalKind::window_change()).context("watch the size of the terminal")?;
    if let Some(size) = raw_mode::size().filter(|_| tty) {
        sink.send(encode(RESIZE, size.as_bytes())).await.context("send the size of the terminal")?;
    }
    let status = loop {
        tokio::select! {
            message = source.next() => match message {
                None => bail!("the connection to the agent ended before the command did"),
                Some(message) => {
                    let message = message.context("lost the connection to the agent")?;
                    if message.is_close() {
                        bail!("the connection to the agent ended before the command did");
                    }
                    if let Some(status) = process_message(&message.into_payload())? {
                        break status;
                    }
                }
            },
            chunk = stdin.next() => match chunk? {
                Some(chunk) => sink.send(encode(STDIN, &chunk)).await.context("send standard input")?,
                None => sink.send(encode(CLOSE, &[STDIN])).await.context("close standard input")?,
            },
            _ = resizes.recv(), if tty => if let Some(size) = raw_mode::size() {
                sink.send(encode(RESIZE, size.as_bytes())).await.context("send the size of the terminal")?;
            },
        }
    };
    // The exit status is known, so an error of the close does not matter.
    let _ = sink.close().await;
    exit_status::exit_code(&status)
}

fn encode(channel: u8, data: &[u8]) -> Message {
    let mut payload = BytesMut::with_capacity(data.len() + 1);
    payload.put_u8(channel);
    payload.put_slice(data);
    Message::binary(payload)
}

/// Prints output. Returns the status when the command has ended.
fn process_message(payload: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let Some((channel, data)) = payload.split_first() else { return Ok(None) };
    match *channel {
        STDOUT => {
            let mut out = std::io::stdout().lock();
            out.write_all(data).and_then(|()| out.flush()).context("write the output of the command")?;
        }
        STDERR => std::io::stderr().lock().write_all(data).context("write the output of the command")?,
        STATUS => return Ok(Some(data.to_vec())),
        // Closed streams; the status follows.
        _ => {}
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::arguments::{Command, CommandLine};

    #[test]
    fn query_encodes_each_argument() {
        let arguments = ["podward", "exec", "-i", "web", "--", "sh", "-c", "echo a&b=c ü"];
        let Command::Exec(exec) = CommandLine::try_parse_from(arguments).unwrap().command else { panic!() };
        assert_eq!(
            query(&exec, false),
            "output=1&error=1&input=1&command=sh&command=-c&command=echo%20a%26b%3Dc%20%C3%BC"
        );
        assert!(query(&exec, true).starts_with("output=1&tty=1&input=1"));
    }

    #[test]
    fn status_message_ends_command() {
        assert_eq!(process_message(&[]).unwrap(), None);
        assert_eq!(process_message(&[STDERR]).unwrap(), None);
        assert_eq!(process_message(&[CLOSE, STDOUT]).unwrap(), None);
        assert_eq!(process_message(&[STATUS, b'{', b'}']).unwrap(), Some(b"{}".to_vec()));
    }
}

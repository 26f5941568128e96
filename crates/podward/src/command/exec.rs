//! `podward exec`: a command in a container, its streams here, its exit code ours.
//!
//! ```text
//!  standard input ─► channel 0 ─┐              ┌─► channel 1 ─► standard output
//!  terminal's size ─► channel 4 ┼─► WebSocket ─┼─► channel 2 ─► standard error
//!  end of input ─► channel 255 ─┘              └─► channel 3 ─► how it ended
//! ```

mod ending;
mod input;
mod raw_mode;

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
use super::names::{container, find, name_of};
use input::Input;
use raw_mode::RawMode;

/// The protocol whose streams can be closed one by one.
const PROTOCOL: &str = "v5.channel.k8s.io";
/// A key as the handshake wants it; over a local socket it proves nothing.
const KEY: &str = "cG9kd2FyZCBleGVjIGtleQ==";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Runs the command.
pub(super) async fn run(arguments: ExecArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
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
    // Restored when it is dropped, also when something fails.
    let _raw = tty.then(RawMode::enter).transpose().context("set the terminal up")?;
    let input = if arguments.stdin { Input::start()? } else { Input::none() };
    converse(socket, input, tty).await
}

fn query(arguments: &ExecArguments, tty: bool) -> String {
    let mut pairs = vec!["output=1".to_owned()];
    // A terminal has one output.
    pairs.push(if tty { "tty=1" } else { "error=1" }.to_owned());
    if arguments.stdin {
        pairs.push("input=1".to_owned());
    }
    pairs.extend(arguments.command.iter().map(|word| format!("command={}", escaped(word))));
    pairs.join("&")
}

/// A word as a query takes it.
fn escaped(word: &str) -> String {
    let mut text = String::new();
    for byte in word.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// Opens the WebSocket; an agent that refuses says why.
async fn open(client: &Client, path: &str) -> anyhow::Result<Socket> {
    let stream = client.connect().await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.context("talk to the agent")?;
    let request = Request::get(path)
        .header(header::HOST, "podward")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, KEY)
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .context("ask the agent")?;
    let asked = async {
        let answer = sender.send_request(request).await.context("ask the agent")?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = answer.status();
            let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes);
            let text = String::from_utf8_lossy(&body.unwrap_or_default()).trim().to_owned();
            bail!("{}", if text.is_empty() { format!("the agent answered {status}") } else { text });
        }
        hyper::upgrade::on(answer).await.context("take the connection over")
    };
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let mut asked = std::pin::pin!(asked);
    let upgraded = tokio::select! {
        upgraded = &mut asked => upgraded?,
        ended = &mut connection => {
            ended.context("talk to the agent")?;
            // The connection was handed over, so what was asked is there.
            asked.await?
        }
    };
    let limits = Limits::default().max_payload_len(Some(64 * 1024 * 1024));
    Ok(ClientBuilder::new().limits(limits).take_over(TokioIo::new(upgraded)))
}

/// Carries the streams until the command has ended.
async fn converse(socket: Socket, mut input: Input, tty: bool) -> anyhow::Result<ExitCode> {
    let (mut sink, mut source) = socket.split();
    let mut resizes = signal(SignalKind::window_change()).context("listen for the terminal's size")?;
    if let Some(size) = raw_mode::size().filter(|_| tty) {
        sink.send(message(RESIZE, size.as_bytes())).await.context("tell the terminal's size")?;
    }
    let ending = loop {
        tokio::select! {
            news = source.next() => match news {
                None => bail!("the connection to the agent ended before the command did"),
                Some(news) => {
                    let news = news.context("the connection to the agent broke off")?;
                    if news.is_close() {
                        bail!("the connection to the agent ended before the command did");
                    }
                    if let Some(ending) = take(&news.into_payload())? {
                        break ending;
                    }
                }
            },
            piece = input.next() => match piece? {
                Some(piece) => sink.send(message(STDIN, &piece)).await.context("hand the input on")?,
                None => sink.send(message(CLOSE, &[STDIN])).await.context("end the input")?,
            },
            _ = resizes.recv(), if tty => if let Some(size) = raw_mode::size() {
                sink.send(message(RESIZE, size.as_bytes())).await.context("tell the terminal's size")?;
            },
        }
    };
    // How it ended is known; whether the other side hears the good-bye does not matter.
    let _ = sink.close().await;
    ending::exit_code(&ending)
}

fn message(channel: u8, data: &[u8]) -> Message {
    let mut payload = BytesMut::with_capacity(data.len() + 1);
    payload.put_u8(channel);
    payload.put_slice(data);
    Message::binary(payload)
}

/// Shows what came; `Some` when the command has ended.
fn take(payload: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let Some((channel, data)) = payload.split_first() else { return Ok(None) };
    match *channel {
        STDOUT => {
            let mut out = std::io::stdout().lock();
            out.write_all(data).and_then(|()| out.flush()).context("write what the command wrote")?;
        }
        STDERR => std::io::stderr().lock().write_all(data).context("write what the command wrote")?,
        STATUS => return Ok(Some(data.to_vec())),
        // Streams that ended; the status follows.
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
    fn the_command_is_handed_on_word_by_word() {
        let words = ["podward", "exec", "-i", "web", "--", "sh", "-c", "echo a&b=c ü"];
        let Command::Exec(exec) = CommandLine::try_parse_from(words).unwrap().command else { panic!() };
        assert_eq!(
            query(&exec, false),
            "output=1&error=1&input=1&command=sh&command=-c&command=echo%20a%26b%3Dc%20%C3%BC"
        );
        assert!(query(&exec, true).starts_with("output=1&tty=1&input=1"));
    }

    #[test]
    fn the_status_ends_it() {
        assert_eq!(take(&[]).unwrap(), None);
        assert_eq!(take(&[STDERR]).unwrap(), None);
        assert_eq!(take(&[CLOSE, STDOUT]).unwrap(), None);
        assert_eq!(take(&[STATUS, b'{', b'}']).unwrap(), Some(b"{}".to_vec()));
    }
}

//! The server's side of a SPDY connection: one task writes the frames of all streams.

use spdy::{Frame, FrameReader, FrameWriter, SpdyError};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::client::Activity;
use super::websocket::{CLOSE_TIMEOUT, Connection, PING_INTERVAL};

const FRAMES: usize = 8;
const PINGS: usize = 8;

/// Sends frames through the task that writes.
#[derive(Clone)]
pub(super) struct ServerWriter {
    frames: mpsc::Sender<Option<Frame>>,
    pings: mpsc::Sender<u32>,
    activity: Activity,
}

/// Frames on their way to the connection.
pub(super) struct Outgoing {
    frames: mpsc::Receiver<Option<Frame>>,
    pings: mpsc::Receiver<u32>,
}

impl Outgoing {
    pub(super) fn channel(activity: Activity) -> (ServerWriter, Self) {
        let (send_frame, frames) = mpsc::channel(FRAMES);
        let (send_ping, pings) = mpsc::channel(PINGS);
        (ServerWriter { frames: send_frame, pings: send_ping, activity }, Self { frames, pings })
    }
}

impl ServerWriter {
    /// Waits for space. After the end of the connection frames are dropped.
    pub(super) async fn send(&self, frame: Frame) {
        let _ = self.frames.send(Some(frame)).await;
    }

    /// Nothing follows.
    pub(super) async fn finish(&self) {
        let _ = self.frames.send(None).await;
    }

    /// Answers a ping of the client; the others are answers to the server's.
    pub(super) fn answer_ping(&self, id: u32) {
        if id % 2 == 1 {
            // If the channel is full, answers to earlier pings are under way.
            let _ = self.pings.try_send(id);
        }
    }

    pub(super) fn record_activity(&self) {
        self.activity.record();
    }
}

/// Writes frames until the last one, or until the client has left.
pub(super) async fn write_frames<C: Connection>(
    writer: &mut FrameWriter<WriteHalf<C>>,
    mut outgoing: Outgoing,
    gone: &CancellationToken,
) {
    let writing = async {
        let mut ticks = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ping = 0;
        loop {
            let frame = tokio::select! {
                frame = outgoing.frames.recv() => match frame.flatten() {
                    Some(frame) => frame,
                    None => return Ok::<_, SpdyError>(()),
                },
                Some(id) = outgoing.pings.recv() => Frame::Ping(id),
                _ = ticks.tick() => {
                    ping += 2;
                    Frame::Ping(ping)
                }
            };
            writer.send(&frame).await?;
        }
    };
    tokio::select! {
        () = gone.cancelled() => {}
        written = writing => {
            if written.is_err() {
                gone.cancel();
            }
        }
    }
}

/// Ends a connection, and waits a short time for the client to end it, too, unless that is `gone`: a connection that is closed with unread data is reset, and
/// the client could lose the last frames.
pub(super) async fn close<C: Connection>(
    mut reader: FrameReader<ReadHalf<C>>,
    mut writer: FrameWriter<WriteHalf<C>>,
    gone: &CancellationToken,
) {
    let closed = async {
        if writer.shutdown().await.is_ok() {
            while let Ok(Some(_)) = reader.next().await {}
        }
    };
    // A client that does not answer is left to the kernel.
    let _ = gone.run_until_cancelled(timeout(CLOSE_TIMEOUT, closed)).await;
}

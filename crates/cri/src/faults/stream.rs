//! Changes the messages of a response while they arrive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame};
use prost::bytes::{Buf, Bytes, BytesMut};
use tonic::Status;

use super::Fault;

/// The prefix of a gRPC message: a flag and four bytes of length.
const PREFIX_BYTES: usize = 5;

pub(super) struct FaultyStream {
    body: tonic::body::Body,
    faults: Vec<StreamFault>,
    /// Bytes of an incomplete message.
    incoming: BytesMut,
    ready: VecDeque<Bytes>,
    has_ended: bool,
    /// The frame after the last message, with the status of the call.
    trailers: Option<Frame<Bytes>>,
}

enum StreamFault {
    Cut {
        left: u64,
    },
    Duplicate,
    /// Holds every second message back until the next one.
    Reorder {
        held: Option<Bytes>,
    },
}

impl StreamFault {
    pub(super) fn of(fault: &Fault) -> Option<Self> {
        match fault {
            Fault::CutStream { after } => Some(Self::Cut { left: *after }),
            Fault::DuplicateMessages => Some(Self::Duplicate),
            Fault::ReorderMessages => Some(Self::Reorder { held: None }),
            Fault::Delay(_) | Fault::Error { .. } | Fault::Hang | Fault::LoseAnswer { .. } => None,
        }
    }
}

impl FaultyStream {
    /// The body itself if none of the faults concerns streams.
    pub(super) fn wrap(body: tonic::body::Body, faults: &[Fault]) -> tonic::body::Body {
        let faults: Vec<StreamFault> = faults.iter().filter_map(StreamFault::of).collect();
        if faults.is_empty() {
            return body;
        }
        tonic::body::Body::new(Self {
            body,
            faults,
            incoming: BytesMut::new(),
            ready: VecDeque::new(),
            has_ended: false,
            trailers: None,
        })
    }

    fn split_messages(&mut self) {
        while let Some(length) = message_length(&self.incoming)
            && self.incoming.len() >= length
        {
            let message = self.incoming.split_to(length).freeze();
            self.pass(message);
        }
    }

    fn pass(&mut self, message: Bytes) {
        let mut messages = vec![message];
        for fault in &mut self.faults {
            messages = match fault {
                StreamFault::Cut { .. } => messages,
                StreamFault::Duplicate => messages.into_iter().flat_map(|one| [one.clone(), one]).collect(),
                StreamFault::Reorder { held } => {
                    let mut out = Vec::new();
                    for message in messages {
                        match held.take() {
                            None => *held = Some(message),
                            Some(first) => out.extend([message, first]),
                        }
                    }
                    out
                }
            };
        }
        self.ready.extend(messages);
    }

    /// The end of a stream releases a message that is held back.
    fn end(&mut self) {
        self.has_ended = true;
        for fault in &mut self.faults {
            if let StreamFault::Reorder { held } = fault {
                self.ready.extend(held.take());
            }
        }
    }

    /// Whether the stream breaks before its next message.
    fn is_cut(&mut self) -> bool {
        self.faults.iter_mut().any(|fault| match fault {
            StreamFault::Cut { left: 0 } => true,
            StreamFault::Cut { left } => {
                *left -= 1;
                false
            }
            StreamFault::Duplicate | StreamFault::Reorder { .. } => false,
        })
    }
}

fn message_length(bytes: &[u8]) -> Option<usize> {
    let mut prefix = bytes.get(..PREFIX_BYTES)?;
    prefix.advance(1);
    PREFIX_BYTES.checked_add(usize::try_from(prefix.get_u32()).ok()?)
}

impl Body for FaultyStream {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        loop {
            if let Some(message) = this.ready.pop_front() {
                return Poll::Ready(Some(match this.is_cut() {
                    true => Err(Status::unavailable("injected: the stream was cut")),
                    false => Ok(Frame::data(message)),
                }));
            }
            if this.has_ended {
                return Poll::Ready(this.trailers.take().map(Ok));
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                None => this.end(),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        this.incoming.extend_from_slice(&data);
                        this.split_messages();
                    }
                    Err(trailers) => {
                        this.trailers = Some(trailers);
                        this.end();
                    }
                },
            }
        }
    }
}

//! A fake CRI runtime: a real gRPC server, on a Unix socket or in memory, with a simulated machine behind it.
//!
//! The [`Machine`] handles CRI requests and keeps sandboxes, containers and images like containerd (name reservations,
//! states, idempotence, events), but runs nothing. Tests control how processes behave, which calls fail, hang or lose
//! their response, and when the runtime is down. They read the [`RuntimeState`], the journal of calls and the
//! [`Violation`]s: operations that a correct agent never requests.
//!
//! Invariant: the machine lives longer than its server and every client, so that either side can be restarted.
//!
//! Not simulated: logs, files, streaming (exec, attach, port forward), real statistics.

mod behaviour;
mod container;
mod event;
mod exec;
mod fault;
mod image;
mod image_service;
mod machine;
mod record;
mod rpc;
mod runtime_service;
mod runtime_state;
mod sandbox;
mod stats;
mod transport;
mod violation;

#[cfg(test)]
mod tests;

pub use behaviour::{BehaviourHook, ContainerBehaviour, KILLED, Life, OnStop, TERMINATED};
pub use event::EventStream;
pub use exec::{ExecHook, ExecOutcome};
pub use fault::{Fault, Injected, Injection};
pub use machine::{Machine, NanoClock};
pub use record::{Container, Exit, Sandbox};
pub use rpc::{Call, Rpc, Subject};
pub use runtime_state::RuntimeState;
pub use violation::Violation;

use parking_lot::Mutex;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use cri::v1::image_service_server::ImageServiceServer;
use cri::v1::runtime_service_server::RuntimeServiceServer;
use ports::clock::{Clock, SystemClock};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Server};

use image_service::FakeImageService;
use runtime_service::FakeRuntimeService;
use transport::{Address, Breakable, Incoming};

/// The largest message in either direction, as in real runtimes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// A serving fake runtime. Dropping it stops the server.
#[derive(Debug)]
pub struct FakeRuntime {
    machine: Arc<Machine>,
    address: Address,
    serving: Option<Serving>,
    /// Ends processes when they are due, even without a call.
    reaper: JoinHandle<()>,
}

#[derive(Debug)]
struct Serving {
    gone: CancellationToken,
    server: JoinHandle<()>,
}

impl FakeRuntime {
    /// Starts a runtime on a Unix socket, with the system clock.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn start(socket: impl AsRef<Path>) -> io::Result<Self> {
        Self::start_with(system_clock(), socket)
    }

    /// Starts a runtime on a Unix socket, with the test's clock.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn start_with(clock: NanoClock, socket: impl AsRef<Path>) -> io::Result<Self> {
        Self::serve(clock, Address::Socket(socket.as_ref().to_owned()))
    }

    /// Starts a runtime that is reachable only by [`Self::channel`]. It uses no sockets, so it works with paused time.
    ///
    /// # Errors
    /// None at present.
    pub fn start_in_memory(clock: NanoClock) -> io::Result<Self> {
        Self::serve(clock, Address::Memory(Arc::new(Mutex::new(None))))
    }

    fn serve(clock: NanoClock, address: Address) -> io::Result<Self> {
        let machine = Arc::new(Machine::new(clock));
        let serving = Some(start_server(&machine, address.listen()?));
        let reaper = tokio::spawn(reap(machine.clone()));
        Ok(Self { machine, address, serving, reaper })
    }

    /// A client connection. It connects lazily, and again after a restart.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.address.channel()
    }

    /// The machine, for use in other tasks of the test.
    #[must_use]
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Stops the server as if it was killed: every connection breaks and every call in flight fails. The pods stay.
    ///
    /// # Errors
    /// When the socket cannot be removed.
    pub async fn stop_serving(&mut self) -> io::Result<()> {
        if let Some(serving) = self.serving.take() {
            serving.gone.cancel();
            serving.server.await.map_err(io::Error::other)?;
        }
        self.machine.cut_events(None);
        self.address.close()
    }

    /// Serves again, with the same state.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn serve_again(&mut self) -> io::Result<()> {
        if self.serving.is_none() {
            self.serving = Some(start_server(&self.machine, self.address.listen()?));
        }
        Ok(())
    }

    /// Stops the runtime permanently.
    ///
    /// # Errors
    /// When the socket cannot be removed.
    pub async fn stop(mut self) -> io::Result<()> {
        self.stop_serving().await
    }
}

impl Deref for FakeRuntime {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.reaper.abort();
        if let Some(serving) = self.serving.take() {
            serving.gone.cancel();
            // An error of `drop` cannot be reported.
            let _ = self.address.close();
        }
    }
}

#[must_use]
pub fn system_clock() -> NanoClock {
    Arc::new(|| SystemClock.now().as_nanos())
}

/// A clock that starts at `start` and advances with tokio's, so that paused time affects both.
#[must_use]
pub fn tokio_clock(start: i64) -> NanoClock {
    let origin = tokio::time::Instant::now();
    Arc::new(move || start.saturating_add(i64::try_from(origin.elapsed().as_nanos()).unwrap_or(i64::MAX)))
}

fn start_server(machine: &Arc<Machine>, incoming: Incoming) -> Serving {
    let gone = CancellationToken::new();
    let runtime = RuntimeServiceServer::new(FakeRuntimeService(machine.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let images = ImageServiceServer::new(FakeImageService(machine.clone()));
    let broken = gone.clone();
    let incoming = incoming.map(move |stream| stream.map(|stream| Breakable::new(stream, broken.clone())));
    let router = Server::builder().add_service(runtime).add_service(images);
    let until = gone.clone().cancelled_owned();
    let server = tokio::spawn(async move {
        // A transport error means that the test removed the socket; its calls show that.
        let _ = router.serve_with_incoming_shutdown(incoming, until).await;
    });
    Serving { gone, server }
}

/// Wakes when the next process is due, and after every change.
async fn reap(machine: Arc<Machine>) {
    let mut changes = machine.watch_changes();
    loop {
        match machine.next_exit_in() {
            None => {
                if changes.changed().await.is_err() {
                    return;
                }
            }
            Some(wait) => tokio::select! {
                () = tokio::time::sleep(wait) => machine.settle(),
                _ = changes.changed() => {}
            },
        }
    }
}

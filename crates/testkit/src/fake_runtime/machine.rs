use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cri::v1::{CgroupDriver, ContainerConfig, Image, RuntimeHandler};
use tokio::sync::watch;
use tonic::Status;

use super::behaviour::ContainerBehaviour;
use super::event::EventStream;
use super::exec::{Exec, ExecOutcome};
use super::fault::{Answering, Faults, Injected, Injection};
use super::record::{Container, Exit};
use super::rpc::{Call, Rpc, Subject};
use super::runtime_state::RuntimeState;
use super::violation::Violation;

/// Returns the time in nanoseconds since the epoch.
pub type NanoClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The simulated machine behind the fake runtime, with its test controls. It survives every server and client.
pub struct Machine {
    state: Mutex<RuntimeState>,
    exec: Mutex<Exec>,
    faults: Faults,
    clock: NanoClock,
    /// Counter of changes, so that tests can wait for one.
    changes: watch::Sender<u64>,
}

impl Machine {
    #[must_use]
    pub fn new(clock: NanoClock) -> Self {
        Self {
            state: Mutex::default(),
            exec: Mutex::default(),
            faults: Faults::default(),
            clock,
            changes: watch::Sender::new(0),
        }
    }

    /// Reads the current state.
    pub fn read<T>(&self, read: impl FnOnce(&RuntimeState) -> T) -> T {
        self.change_quietly(|state, _| read(state))
    }

    /// Waits until the state satisfies the condition.
    pub async fn wait_until(&self, mut condition: impl FnMut(&RuntimeState) -> bool) {
        let mut changes = self.changes.subscribe();
        while !self.read(&mut condition) {
            // The sender lives as long as `self`, so this cannot fail.
            let _ = changes.changed().await;
        }
    }

    /// Every call so far, in order of arrival.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.read(|state| state.calls().to_vec())
    }

    #[must_use]
    pub fn count(&self, rpc: Rpc) -> usize {
        self.read(|state| state.count(rpc))
    }

    /// Clears the journal and the counters.
    pub fn clear_calls(&self) {
        self.change(|state, _| state.clear_calls());
    }

    /// Operations that a correct agent never requests, in order.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.read(|state| state.violations().to_vec())
    }

    pub fn inject(&self, injection: Injection) -> Injected {
        self.faults.inject(injection)
    }

    /// Removes all faults; releases hanging calls.
    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    pub fn exit_container(&self, id: &str, exit: Exit) {
        self.change(|state, now| state.end_container(id, exit, now));
    }

    /// Ends a sandbox as if its first process was killed; its containers keep running.
    pub fn kill_sandbox(&self, id: &str) {
        self.change(|state, now| state.end_sandbox(id, now));
    }

    /// Sets the behaviour of containers of this image that are created from now on.
    pub fn set_behaviour(&self, image: &str, behaviour: ContainerBehaviour) {
        self.change(|state, _| state.behaviours.by_image.insert(image.to_owned(), behaviour));
    }

    /// Sets a hook that selects the behaviour of new containers; if it returns `None`, the image decides.
    pub fn set_behaviour_hook(
        &self,
        hook: impl FnMut(&ContainerConfig) -> Option<ContainerBehaviour> + Send + 'static,
    ) {
        self.change(|state, _| state.behaviours.hook = Some(Box::new(hook)));
    }

    /// Sets the results of commands. By default every command succeeds at once.
    pub fn set_exec(&self, hook: impl FnMut(&Container, &[String]) -> ExecOutcome + Send + 'static) {
        self.exec.lock().0 = Some(Box::new(hook));
    }

    pub fn add_image(&self, name: &str) -> Image {
        self.change(|state, _| state.images.add(name))
    }

    /// Changes an image, such as its size or user.
    pub fn edit_image(&self, name: &str, change: impl FnOnce(&mut Image)) {
        self.change(|state, _| state.images.edit(name, change));
    }

    pub fn remove_image(&self, name: &str) {
        self.change(|state, _| state.images.remove(name));
    }

    pub fn set_runtime_ready(&self, ready: bool) {
        self.change(|state, _| state.settings.runtime_ready = ready);
    }

    /// Sets the condition NetworkReady. Without it only host network pods start.
    pub fn set_network_ready(&self, ready: bool) {
        self.change(|state, _| state.settings.network_ready = ready);
    }

    pub fn set_handlers(&self, handlers: Vec<RuntimeHandler>) {
        self.change(|state, _| state.settings.handlers = handlers);
    }

    /// Sets the response to RuntimeConfig; `None`: unimplemented.
    pub fn set_cgroup_driver(&self, driver: Option<CgroupDriver>) {
        self.change(|state, _| state.settings.cgroup_driver = driver);
    }

    /// Whether the streaming list calls are supported.
    pub fn set_lists_in_pieces(&self, can: bool) {
        self.change(|state, _| state.settings.lists_in_pieces = can);
    }

    /// Whether event streams are supported, from the next call on.
    pub fn set_event_stream(&self, stream: EventStream) {
        self.change(|state, _| state.subscribers.stream = stream);
    }

    /// Number of open event streams.
    #[must_use]
    pub fn open_event_streams(&self) -> usize {
        self.change_quietly(|state, _| state.subscribers.count())
    }

    /// Ends every event stream, with this status or normally.
    pub fn cut_events(&self, status: Option<&Status>) {
        self.change(|state, _| state.subscribers.cut(status));
    }

    /// Ends the processes that are due. Needed only with a clock that the test advances.
    pub fn settle(&self) {
        self.change(|_, _| ());
    }

    /// Time until the next process is due to exit.
    pub(crate) fn next_exit_in(&self) -> Option<Duration> {
        self.change_quietly(|state, now| {
            let at = state.due.peek().map(|std::cmp::Reverse((at, _))| *at)?;
            Some(Duration::from_nanos(u64::try_from(at.saturating_sub(now)).unwrap_or(0)))
        })
    }

    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn exec_outcome(&self, container: &Container, command: &[String]) -> ExecOutcome {
        self.exec.lock().outcome(container, command)
    }

    /// Records the call and applies the faults.
    pub(crate) async fn enter(&self, rpc: Rpc, subject: Subject) -> Result<Answering, Status> {
        self.change(|state, now| state.record(rpc, subject.clone(), now));
        self.faults.enter(rpc, &subject).await
    }

    /// Handles a call that completes without delay.
    pub(crate) async fn call<T>(
        &self,
        rpc: Rpc,
        subject: Subject,
        work: impl FnOnce(&mut RuntimeState, i64) -> Result<T, Status>,
    ) -> Result<tonic::Response<T>, Status> {
        let answering = self.enter(rpc, subject).await?;
        answering.answer(self.change(work)).await.map(tonic::Response::new)
    }

    pub(crate) fn subject(&self, id: &str) -> Subject {
        self.read(|state| state.subject(id))
    }

    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut RuntimeState, i64) -> T) -> T {
        let done = self.change_quietly(work);
        self.changes.send_modify(|count| *count += 1);
        done
    }

    fn change_quietly<T>(&self, work: impl FnOnce(&mut RuntimeState, i64) -> T) -> T {
        let mut state = self.state.lock();
        let now = (self.clock)();
        state.settle(now);
        work(&mut state, now)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("state", &self.state).finish_non_exhaustive()
    }
}

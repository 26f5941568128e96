use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
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
use super::violation::Violation;
use super::world::World;

/// Tells the time in nanoseconds since the epoch.
pub type NanoClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The pretend machine behind the fake runtime, with the levers that tests pull. It outlives every server and client.
pub struct Machine {
    world: Mutex<World>,
    exec: Mutex<Exec>,
    faults: Faults,
    clock: NanoClock,
    /// Counts the changes, so that tests can wait for one.
    changes: watch::Sender<u64>,
}

impl Machine {
    /// An empty machine under this clock.
    #[must_use]
    pub fn new(clock: NanoClock) -> Self {
        Self {
            world: Mutex::default(),
            exec: Mutex::default(),
            faults: Faults::default(),
            clock,
            changes: watch::Sender::new(0),
        }
    }

    /// Looks at the state as it is now.
    pub fn read<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        self.change_quietly(|world, _| look(world))
    }

    /// Waits until the state is as `wanted` says.
    pub async fn wait_until(&self, mut wanted: impl FnMut(&World) -> bool) {
        let mut changes = self.changes.subscribe();
        while !self.read(&mut wanted) {
            // The sender lives as long as self: the wait cannot fail.
            let _ = changes.changed().await;
        }
    }

    /// Every call so far, in the order of arrival.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.read(|world| world.calls().to_vec())
    }

    /// How many calls of this name arrived.
    #[must_use]
    pub fn count(&self, rpc: Rpc) -> usize {
        self.read(|world| world.count(rpc))
    }

    /// Empties the journal and the counters.
    pub fn forget_calls(&self) {
        self.change(|world, _| world.forget_calls());
    }

    /// What a correct agent would not have done, in order.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.read(|world| world.violations().to_vec())
    }

    /// Makes calls go wrong.
    pub fn inject(&self, injection: Injection) -> Injected {
        self.faults.inject(injection)
    }

    /// Ends every injection; hanging calls go on.
    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    /// Ends the process of a running container.
    pub fn exit_container(&self, id: &str, exit: Exit) {
        self.change(|world, now| world.end_container(id, exit, now));
    }

    /// Lets a sandbox die as if its first process was killed: its containers live on.
    pub fn kill_sandbox(&self, id: &str) {
        self.change(|world, now| world.end_sandbox(id, now));
    }

    /// Says what containers of this image do, from the next creation on.
    pub fn set_behaviour(&self, image: &str, behaviour: ContainerBehaviour) {
        self.change(|world, _| world.behaviours.by_image.insert(image.to_owned(), behaviour));
    }

    /// Asks `hook` first what a container does, from the next creation on; `None` leaves it to the image.
    pub fn set_behaviour_hook(
        &self,
        hook: impl FnMut(&ContainerConfig) -> Option<ContainerBehaviour> + Send + 'static,
    ) {
        self.change(|world, _| world.behaviours.hook = Some(Box::new(hook)));
    }

    /// Says what commands do. Without it every command succeeds at once.
    pub fn set_exec(&self, hook: impl FnMut(&Container, &[String]) -> ExecOutcome + Send + 'static) {
        self.exec.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(Box::new(hook));
    }

    /// Puts an image on the disk.
    pub fn add_image(&self, name: &str) -> Image {
        self.change(|world, _| world.images.add(name))
    }

    /// Changes an image on the disk, such as its size or user.
    pub fn edit_image(&self, name: &str, change: impl FnOnce(&mut Image)) {
        self.change(|world, _| world.images.edit(name, change));
    }

    /// Takes an image off the disk.
    pub fn remove_image(&self, name: &str) {
        self.change(|world, _| world.images.remove(name));
    }

    /// Sets the condition RuntimeReady.
    pub fn set_runtime_ready(&self, ready: bool) {
        self.change(|world, _| world.settings.runtime_ready = ready);
    }

    /// Sets the condition NetworkReady. Without it only pods of the host network start.
    pub fn set_network_ready(&self, ready: bool) {
        self.change(|world, _| world.settings.network_ready = ready);
    }

    /// The handlers it names.
    pub fn set_handlers(&self, handlers: Vec<RuntimeHandler>) {
        self.change(|world, _| world.settings.handlers = handlers);
    }

    /// Sets the answer to RuntimeConfig; `None`: unimplemented.
    pub fn set_cgroup_driver(&self, driver: Option<CgroupDriver>) {
        self.change(|world, _| world.settings.cgroup_driver = driver);
    }

    /// Whether lists can be had in pieces.
    pub fn set_lists_in_pieces(&self, can: bool) {
        self.change(|world, _| world.settings.lists_in_pieces = can);
    }

    /// Whether there is an event stream, from the next call on.
    pub fn set_event_stream(&self, stream: EventStream) {
        self.change(|world, _| world.subscribers.stream = stream);
    }

    /// How many event streams are open.
    #[must_use]
    pub fn open_event_streams(&self) -> usize {
        self.change_quietly(|world, _| world.subscribers.count())
    }

    /// Ends every event stream: with this status, or as if all was said.
    pub fn cut_events(&self, status: Option<&Status>) {
        self.change(|world, _| world.subscribers.cut(status));
    }

    /// Ends the processes whose time has come. Needed only under a clock that the test moves by hand.
    pub fn settle(&self) {
        self.change(|_, _| ());
    }

    /// Time until the next process ends by itself.
    pub(crate) fn next_exit_in(&self) -> Option<Duration> {
        self.change_quietly(|world, now| {
            let at = world.due.peek().map(|std::cmp::Reverse((at, _))| *at)?;
            Some(Duration::from_nanos(u64::try_from(at.saturating_sub(now)).unwrap_or(0)))
        })
    }

    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn exec_outcome(&self, container: &Container, command: &[String]) -> ExecOutcome {
        self.exec.lock().unwrap_or_else(PoisonError::into_inner).outcome(container, command)
    }

    /// Writes the call down and lets the faults have their way with it.
    pub(crate) async fn enter(&self, rpc: Rpc, subject: Subject) -> Result<Answering, Status> {
        self.change(|world, now| world.record(rpc, subject.clone(), now));
        self.faults.enter(rpc, &subject).await
    }

    /// A whole call that takes no time of its own.
    pub(crate) async fn call<T>(
        &self,
        rpc: Rpc,
        subject: Subject,
        work: impl FnOnce(&mut World, i64) -> Result<T, Status>,
    ) -> Result<tonic::Response<T>, Status> {
        let answering = self.enter(rpc, subject).await?;
        answering.answer(self.change(work)).await.map(tonic::Response::new)
    }

    /// The pod and container that an id stands for.
    pub(crate) fn subject(&self, id: &str) -> Subject {
        self.read(|world| world.subject(id))
    }

    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut World, i64) -> T) -> T {
        let done = self.change_quietly(work);
        self.changes.send_modify(|count| *count += 1);
        done
    }

    fn change_quietly<T>(&self, work: impl FnOnce(&mut World, i64) -> T) -> T {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        world.settle(now);
        work(&mut world, now)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("world", &self.world).finish_non_exhaustive()
    }
}

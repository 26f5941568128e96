//! Runs an agent one task poll at a time, so that it can be stopped between any two polls.
//!
//! On a `current_thread` runtime with an event interval of 1, the root future is polled after every poll of a task if it always wakes
//! itself. A sentinel task that also wakes itself detects idleness: when it is polled twice in a row, there was nothing else to poll,
//! and both sleep until something happens. Dropping the runtime then drops every task at its current await.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Controls a stepped runtime.
#[derive(Debug)]
pub(crate) struct Switch {
    budget: usize,
    killed: AtomicBool,
    asleep: AtomicBool,
    sentinel_ran: AtomicBool,
    polls: AtomicUsize,
    root: Mutex<Option<Waker>>,
    sentinel: Mutex<Option<Waker>>,
}

impl Switch {
    /// Stops the runtime after this many task polls.
    pub(crate) fn after(budget: usize) -> Arc<Self> {
        Arc::new(Self {
            budget,
            killed: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            sentinel_ran: AtomicBool::new(false),
            polls: AtomicUsize::new(0),
            root: Mutex::default(),
            sentinel: Mutex::default(),
        })
    }

    /// Stops the runtime now.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        wake(&self.root);
    }

    /// Number of task polls so far.
    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    /// A runtime that is driven by [`Steps`].
    pub(crate) fn runtime(self: &Arc<Self>) -> tokio::runtime::Runtime {
        let switch = Arc::clone(self);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(1)
            .global_queue_interval(1)
            .on_thread_unpark(move || {
                if switch.asleep.swap(false, Ordering::SeqCst) {
                    wake(&switch.sentinel);
                    wake(&switch.root);
                }
            })
            .build()
            .unwrap();
        runtime.spawn(Sentinel(Arc::clone(self)));
        runtime
    }
}

fn wake(waker: &Mutex<Option<Waker>>) {
    if let Some(waker) = &*waker.lock() {
        waker.wake_by_ref();
    }
}

struct Sentinel(Arc<Switch>);

impl Future for Sentinel {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.sentinel.lock().get_or_insert_with(|| cx.waker().clone());
        self.0.sentinel_ran.store(true, Ordering::SeqCst);
        if !self.0.asleep.load(Ordering::SeqCst) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Ends when the switch stops; for `block_on` of the switch's runtime.
pub(crate) struct Steps {
    switch: Arc<Switch>,
    quiet: usize,
}

impl Steps {
    pub(crate) fn new(switch: Arc<Switch>) -> Self {
        Self { switch, quiet: 0 }
    }
}

impl Future for Steps {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let switch = Arc::clone(&self.switch);
        switch.root.lock().get_or_insert_with(|| cx.waker().clone());
        if switch.killed.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        if switch.sentinel_ran.swap(false, Ordering::SeqCst) {
            self.quiet += 1;
            if self.quiet > 1 {
                self.quiet = 0;
                switch.asleep.store(true, Ordering::SeqCst);
                return Poll::Pending;
            }
        } else {
            self.quiet = 0;
            if switch.polls.fetch_add(1, Ordering::SeqCst) + 1 >= switch.budget {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn stops_between_any_two_polls() {
    for budget in [1, 2, 3, 7, 10] {
        let switch = Switch::after(budget);
        let runtime = switch.runtime();
        let polled = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&polled);
        let task = runtime.spawn(std::future::poll_fn(move |cx| {
            count.fetch_add(1, Ordering::SeqCst);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        runtime.block_on(Steps::new(Arc::clone(&switch)));
        task.abort();
        assert_eq!(switch.polls(), budget);
        assert!(polled.load(Ordering::SeqCst).abs_diff(budget) <= 1, "{polled:?} polls for {budget}");
    }
}

#[test]
fn sleeps_while_there_is_nothing_to_poll() {
    let switch = Switch::after(usize::MAX);
    let runtime = switch.runtime();
    let end = Arc::clone(&switch);
    runtime.spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        end.kill();
    });
    runtime.block_on(Steps::new(Arc::clone(&switch)));
    assert!(switch.polls() < 20, "{} polls", switch.polls());
}

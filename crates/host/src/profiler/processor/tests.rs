use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

use ports::host::profiler::Profiler;

use crate::OwnProfiler;

use std::hint::black_box;
use std::time::Instant;

/// Burns processor time until `stop` is set.
#[inline(never)]
fn spin_for_the_profile(stop: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        sum = (0..1000).fold(black_box(sum), |sum, number| sum.rotate_left(3) ^ number);
    }
    sum
}

/// A busy thread, stopped when dropped.
struct BusyThread(Arc<AtomicBool>, Option<std::thread::JoinHandle<u64>>);

impl BusyThread {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = stop.clone();
        let thread = std::thread::Builder::new().name("busy".to_owned());
        Self(stop, Some(thread.spawn(move || spin_for_the_profile(&own)).unwrap()))
    }
}

impl Drop for BusyThread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(std::thread::JoinHandle::join);
    }
}

/// `None` if the kernel does not permit sampling, as in some containers.
fn if_permitted<T>(profile: Result<T, ProfilerError>) -> Option<T> {
    match profile {
        Err(ProfilerError::Refused { source, .. }) => {
            eprintln!("skipped: {source}");
            None
        }
        other => Some(other.unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_contains_busy_function_with_its_callers() {
    let _busy = BusyThread::start();
    let result = OwnProfiler::default().processor_time(Duration::from_millis(600)).await;
    let Some(profile) = if_permitted(result) else { return };
    let name = |frame: &usize| {
        profile.frames[*frame].function.as_ref().map(|function| function.name.clone()).unwrap_or_default()
    };
    let names = profile.stacks.iter().map(|stack| (stack, stack.frames.iter().map(name).collect::<Vec<_>>()));
    let all: Vec<_> = names.collect();
    let is_busy = |names: &[String]| names.iter().any(|name| name.ends_with("spin_for_the_profile"));
    let (found, others): (Vec<_>, Vec<_>) = all.iter().partition(|(_, names)| is_busy(names));
    let seen: u64 = found.iter().map(|(stack, _)| stack.count).sum();
    // Up to sixty samples are possible; a loaded machine runs the thread less.
    assert!(seen >= 3, "{all:?}");
    assert!(found.iter().all(|(stack, _)| stack.thread == "busy"), "{found:?}");
    // Complete stacks reach the thread start of the C library.
    let is_complete = |names: &[String]| names.iter().any(|name| name.contains("thread_start"));
    let complete: u64 =
        found.iter().filter(|(_, names)| is_complete(names)).map(|(stack, _)| stack.count).sum();
    assert!(complete * 2 > seen, "{found:?} {others:?}");
    assert!(profile.modules[0].is_named && profile.period == Duration::from_millis(10));
}

#[tokio::test]
async fn allows_one_profile_at_a_time_and_dropping_it_ends_it() {
    let profiler = OwnProfiler::default();
    let long = Duration::from_secs(600);
    let begun = Instant::now();
    let mut first = Box::pin(profiler.processor_time(long));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut first).await;
    if let Ok(result) = early {
        assert!(if_permitted(result).is_none());
        return;
    }
    let second = profiler.processor_time(long).await;
    assert!(matches!(second, Err(ProfilerError::InUse)), "{second:?}");
    drop(first);
    while matches!(profiler.processor_time(Duration::from_millis(1)).await, Err(ProfilerError::InUse)) {
        assert!(begun.elapsed() < Duration::from_secs(30), "the dropped profile still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

//! Collects samples of all threads into a profile.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, Instant};

use ports::host::profiler::{Frame, ProcessorProfile, ProfilerError, Stack};

use super::events::{self, Scope, ThreadEvents};
use super::modules::{self, Module};
use super::records::{Record, records};
use super::registers;
use super::symbols::FunctionNames;
use super::unwind::Unwinder;
use crate::profiler::threads;

/// How often the rings are emptied; a busy thread needs longer to fill one.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// How often new threads are looked up.
const THREAD_SCAN_INTERVAL: Duration = Duration::from_millis(200);

/// Each sampled thread needs a ring.
const MAX_THREADS: usize = 256;

const MAX_STACKS: usize = 20_000;

pub(super) struct Sampling {
    scope: Scope,
    threads: BTreeMap<u32, SampledThread>,
    unsampled_threads: usize,
    start: Instant,
    last_thread_scan: Instant,
    unwinder: Unwinder,
    stacks: HashMap<StackKey, u64>,
    lost: u64,
    ring: Vec<u8>,
    addresses: Vec<u64>,
}

/// Thread name, and addresses from the innermost frame outwards.
type StackKey = (String, Vec<u64>);

struct SampledThread {
    name: String,
    events: ThreadEvents,
}

impl Sampling {
    /// Starts to sample every thread of this process.
    pub(super) fn start() -> Result<Self, ProfilerError> {
        check_architecture(registers::SAMPLED)?;
        let scope = allowed_scope()?;
        let unreadable =
            |error| ProfilerError::Failed("failed to read the mapped code from /proc/self", error);
        let mut sampling = Self {
            scope,
            threads: BTreeMap::new(),
            unsampled_threads: 0,
            start: Instant::now(),
            last_thread_scan: Instant::now(),
            unwinder: Unwinder::new(modules::read().map_err(unreadable)?),
            stacks: HashMap::new(),
            lost: 0,
            ring: Vec::new(),
            addresses: Vec::new(),
        };
        sampling.scan_threads();
        Ok(sampling)
    }

    /// Collects new samples. Call it every [`TICK`].
    pub(super) fn tick(&mut self) {
        self.collect();
        if self.last_thread_scan.elapsed() >= THREAD_SCAN_INTERVAL {
            self.last_thread_scan = Instant::now();
            self.scan_threads();
        }
    }

    pub(super) fn finish(mut self) -> ProcessorProfile {
        self.collect();
        self.threads.clear();
        let mut profile = ProcessorProfile {
            period: Duration::from_nanos(events::PERIOD_NANOS),
            sampled: self.start.elapsed(),
            lost: self.lost,
            unseen_threads: self.unsampled_threads,
            ..ProcessorProfile::default()
        };
        let frames = add_stacks(&mut profile, self.stacks);
        add_modules(&mut profile, &frames, modules::program_first(self.unwinder.into_modules()));
        profile
    }

    fn collect(&mut self) {
        for thread in self.threads.values_mut() {
            thread.events.take(&mut self.ring);
            for record in records(&self.ring) {
                match record {
                    Record::Sample { registers, stack } => {
                        self.unwinder.unwind(*registers, stack, &mut self.addresses);
                        let key = (thread.name.clone(), self.addresses.clone());
                        self.lost += count(&mut self.stacks, key);
                    }
                    Record::Lost(count) => self.lost += count,
                }
            }
        }
    }

    fn scan_threads(&mut self) {
        let Ok(current) = threads::names() else { return };
        let scope = self.scope;
        let unsampled = update_threads(&mut self.threads, current, |id, name| {
            Ok(SampledThread { name, events: ThreadEvents::open(id, scope)? })
        });
        self.unsampled_threads = self.unsampled_threads.max(unsampled);
    }
}

/// Starts sampling new threads and drops finished ones. Returns the number of threads that cannot be sampled.
fn update_threads<T>(
    threads: &mut BTreeMap<u32, T>,
    current: BTreeMap<u32, String>,
    start: impl Fn(u32, String) -> io::Result<T>,
) -> usize {
    threads.retain(|id, _| current.contains_key(id));
    let mut unsampled = 0;
    for (id, name) in current {
        if threads.contains_key(&id) {
            continue;
        }
        if threads.len() >= MAX_THREADS {
            unsampled += 1;
            continue;
        }
        match start(id, name) {
            Ok(sampled) => {
                threads.insert(id, sampled);
            }
            // The thread has finished meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            // The rings may exceed the limits of locked memory or open files.
            Err(_) => unsampled += 1,
        }
    }
    unsampled
}

fn check_architecture(sampled_registers: u64) -> Result<(), ProfilerError> {
    if sampled_registers != 0 {
        return Ok(());
    }
    Err(ProfilerError::Refused {
        what: "stacks cannot be unwound on this architecture",
        remedy: "profiles are supported on x86_64 and aarch64",
        source: io::ErrorKind::Unsupported.into(),
    })
}

/// Counts a stack; returns the number of samples lost because of [`MAX_STACKS`].
fn count(stacks: &mut HashMap<StackKey, u64>, key: StackKey) -> u64 {
    if stacks.len() >= MAX_STACKS && !stacks.contains_key(&key) {
        return 1;
    }
    *stacks.entry(key).or_default() += 1;
    0
}

/// The widest scope that the kernel permits, tried on the current thread.
fn allowed_scope() -> Result<Scope, ProfilerError> {
    let own = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or_default();
    let try_scope = |scope| ThreadEvents::open(own, scope).map(|_| scope);
    let is_denied = |error: &io::Error| matches!(error.kind(), io::ErrorKind::PermissionDenied);
    match try_scope(Scope::All) {
        Err(error) if is_denied(&error) => try_scope(Scope::OwnCode).map_err(with_remedy),
        other => other.map_err(with_remedy),
    }
}

fn with_remedy(source: io::Error) -> ProfilerError {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "give the agent CAP_PERFMON, or set the sysctl kernel.perf_event_paranoid to 2 or less"
        }
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => "this needs a kernel with CONFIG_PERF_EVENTS",
        Some(libc::EMFILE | libc::ENFILE) => "raise the agent's limit of open files",
        _ => "see the kernel log",
    };
    ProfilerError::Refused { what: "the kernel refused perf_event_open", remedy, source }
}

/// Adds the stacks, most frequent first; returns the address of each frame.
fn add_stacks(profile: &mut ProcessorProfile, stacks: HashMap<StackKey, u64>) -> Vec<u64> {
    let mut stacks: Vec<(StackKey, u64)> = stacks.into_iter().collect();
    stacks.sort_by(|(key, count), (other, other_count)| other_count.cmp(count).then_with(|| key.cmp(other)));
    let (mut addresses, mut indexes) = (Vec::new(), HashMap::new());
    for ((thread, stack), count) in stacks {
        let mut frame = |address: u64| {
            *indexes.entry(address).or_insert_with(|| {
                addresses.push(address);
                addresses.len() - 1
            })
        };
        let frames = stack.into_iter().map(&mut frame).collect();
        profile.stacks.push(Stack { thread, frames, count });
    }
    addresses
}

/// Adds the frames with their function names, and the modules.
fn add_modules(profile: &mut ProcessorProfile, addresses: &[u64], modules: Vec<Module>) {
    profile.frames =
        addresses.iter().map(|address| Frame { address: *address, ..Frame::default() }).collect();
    for (number, module) in modules.into_iter().enumerate() {
        let range = module.facts.start..module.facts.end;
        let mut frames_in_module: Vec<&mut Frame> =
            profile.frames.iter_mut().filter(|frame| range.contains(&frame.address)).collect();
        // Symbols take megabytes: read one file at a time, and only files with samples.
        let names = if frames_in_module.is_empty() { None } else { FunctionNames::read(&module).ok() };
        for frame in &mut frames_in_module {
            frame.module = Some(number);
            frame.function = names.as_ref().and_then(|names| names.at(frame.address - module.bias));
        }
        let mut facts = module.facts;
        facts.is_named = names.is_some();
        profile.modules.push(facts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_threads_that_cannot_be_sampled() {
        let names = |ids: std::ops::Range<u32>| ids.map(|id| (id, "t".to_owned())).collect();
        let start = |id: u32, _| match id {
            1 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            2 => Err(io::Error::from_raw_os_error(libc::EPERM)),
            3 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            id => Ok(id),
        };
        let mut threads = BTreeMap::from([(77, 77)]);
        assert_eq!(update_threads(&mut threads, names(0..5), start), 2);
        assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [0, 4]);
        // The same threads are not counted twice.
        assert_eq!(update_threads(&mut threads, names(0..5), start), 2);
        let more = MAX_THREADS as u32 + 10;
        assert_eq!(update_threads(&mut threads, names(4..more + 4), start), 10);
        assert_eq!(threads.len(), MAX_THREADS);
    }

    #[test]
    fn other_architectures_are_rejected_with_a_reason() {
        let refused = check_architecture(0).unwrap_err().to_string();
        assert!(refused.contains("architecture") && refused.contains("x86_64"), "{refused}");
        let is_supported = matches!(std::env::consts::ARCH, "x86_64" | "aarch64");
        assert_eq!(check_architecture(registers::SAMPLED).is_ok(), is_supported);
    }
}

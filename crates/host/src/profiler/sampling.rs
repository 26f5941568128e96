//! A profile while it is taken.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, Instant};

use ports::profiler::{Frame, ProcessorProfile, ProfilerError, Stack};

use super::events::{self, Scope, ThreadEvents};
use super::modules::{self, Module};
use super::records::{Record, records};
use super::registers;
use super::symbols::Names;
use super::threads;
use super::unwind::Unwinder;

/// How often the rings are emptied: before a thread that never rests can fill one.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// How often it is looked for threads that began since.
const LOOK: Duration = Duration::from_millis(200);

/// So many threads are sampled; each needs a ring.
const MOST_THREADS: usize = 256;

/// So many different stacks are kept.
const MOST_STACKS: usize = 20_000;

/// Samples of all threads, each stack once.
pub(super) struct Sampling {
    scope: Scope,
    threads: BTreeMap<u32, Sampled>,
    unseen_threads: usize,
    begun: Instant,
    looked: Instant,
    unwinder: Unwinder,
    stacks: HashMap<StackKey, u64>,
    lost: u64,
    ring: Vec<u8>,
    addresses: Vec<u64>,
}

/// The thread's name and the addresses, what ran first.
type StackKey = (String, Vec<u64>);

struct Sampled {
    name: String,
    events: ThreadEvents,
}

impl Sampling {
    /// Begins to sample every thread of this process.
    pub(super) fn start() -> Result<Self, ProfilerError> {
        machine_is_known(registers::WANTED)?;
        let scope = allowed_scope()?;
        let unread =
            |error| ProfilerError::Failed("the process's code cannot be read from /proc/self", error);
        let mut sampling = Self {
            scope,
            threads: BTreeMap::new(),
            unseen_threads: 0,
            begun: Instant::now(),
            looked: Instant::now(),
            unwinder: Unwinder::new(modules::read().map_err(unread)?),
            stacks: HashMap::new(),
            lost: 0,
            ring: Vec::new(),
            addresses: Vec::new(),
        };
        sampling.look_for_threads();
        Ok(sampling)
    }

    /// Takes what was sampled since the last time.
    pub(super) fn tick(&mut self) {
        self.collect();
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.look_for_threads();
        }
    }

    /// Ends the sampling.
    pub(super) fn finish(mut self) -> ProcessorProfile {
        self.collect();
        self.threads.clear();
        let mut profile = ProcessorProfile {
            period: Duration::from_nanos(events::PERIOD),
            sampled: self.begun.elapsed(),
            lost: self.lost,
            unseen_threads: self.unseen_threads,
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

    fn look_for_threads(&mut self) {
        let Ok(now) = threads::names() else { return };
        let scope = self.scope;
        let unseen = follow(&mut self.threads, now, |id, name| {
            Ok(Sampled { name, events: ThreadEvents::open(id, scope)? })
        });
        self.unseen_threads = self.unseen_threads.max(unseen);
    }
}

/// Begins with threads that are new, and lets go of those that ended; says how many go unseen.
fn follow<T>(
    threads: &mut BTreeMap<u32, T>,
    now: BTreeMap<u32, String>,
    begin: impl Fn(u32, String) -> io::Result<T>,
) -> usize {
    threads.retain(|id, _| now.contains_key(id));
    let mut unseen = 0;
    for (id, name) in now {
        if threads.contains_key(&id) {
            continue;
        }
        if threads.len() >= MOST_THREADS {
            unseen += 1;
            continue;
        }
        match begin(id, name) {
            Ok(sampled) => {
                threads.insert(id, sampled);
            }
            // One that ended meanwhile is not there to be sampled.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            // The rings may take more memory than this process may lock, or more files than it may open.
            Err(_) => unseen += 1,
        }
    }
    unseen
}

/// Refuses to begin where nobody knows which registers to ask for.
fn machine_is_known(wanted: u64) -> Result<(), ProfilerError> {
    if wanted != 0 {
        return Ok(());
    }
    Err(ProfilerError::Refused {
        what: "stacks cannot be followed on this architecture",
        remedy: "it can be done on x86_64 and aarch64",
        source: io::ErrorKind::Unsupported.into(),
    })
}

/// Counts a stack; says how many samples were lost by it.
fn count(stacks: &mut HashMap<StackKey, u64>, key: StackKey) -> u64 {
    if stacks.len() >= MOST_STACKS && !stacks.contains_key(&key) {
        return 1;
    }
    *stacks.entry(key).or_default() += 1;
    0
}

/// What the kernel lets this process see of itself, tried on this very thread.
fn allowed_scope() -> Result<Scope, ProfilerError> {
    let own = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or_default();
    let try_it = |scope| ThreadEvents::open(own, scope).map(|_| scope);
    let refused = |error: &io::Error| matches!(error.kind(), io::ErrorKind::PermissionDenied);
    match try_it(Scope::All) {
        Err(error) if refused(&error) => try_it(Scope::OwnCode).map_err(explained),
        other => other.map_err(explained),
    }
}

fn explained(source: io::Error) -> ProfilerError {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "give the agent CAP_PERFMON, or set the sysctl kernel.perf_event_paranoid to 2 or less"
        }
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => "this needs a kernel with CONFIG_PERF_EVENTS",
        Some(libc::EMFILE | libc::ENFILE) => "let the agent have more open files",
        _ => "see the kernel's log",
    };
    ProfilerError::Refused { what: "the kernel refused perf_event_open", remedy, source }
}

/// Adds the stacks, those that were seen most first; gives the address of each frame.
fn add_stacks(profile: &mut ProcessorProfile, stacks: HashMap<StackKey, u64>) -> Vec<u64> {
    let mut stacks: Vec<(StackKey, u64)> = stacks.into_iter().collect();
    stacks.sort_by(|(key, count), (other, seen)| seen.cmp(count).then_with(|| key.cmp(other)));
    let (mut addresses, mut known) = (Vec::new(), HashMap::new());
    for ((thread, stack), count) in stacks {
        let mut frame = |address: u64| {
            *known.entry(address).or_insert_with(|| {
                addresses.push(address);
                addresses.len() - 1
            })
        };
        let frames = stack.into_iter().map(&mut frame).collect();
        profile.stacks.push(Stack { thread, frames, count });
    }
    addresses
}

/// Adds the frames with their names, and the modules they are in.
fn add_modules(profile: &mut ProcessorProfile, addresses: &[u64], modules: Vec<Module>) {
    profile.frames =
        addresses.iter().map(|address| Frame { address: *address, ..Frame::default() }).collect();
    for (number, module) in modules.into_iter().enumerate() {
        let range = module.facts.start..module.facts.end;
        let mut inside: Vec<&mut Frame> =
            profile.frames.iter_mut().filter(|frame| range.contains(&frame.address)).collect();
        // Names are megabytes: read one file at a time, and only of those that ran.
        let names = if inside.is_empty() { None } else { Names::read(&module).ok() };
        for frame in &mut inside {
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
    fn threads_that_the_kernel_does_not_let_be_sampled_are_counted() {
        let names = |ids: std::ops::Range<u32>| ids.map(|id| (id, "t".to_owned())).collect();
        let begin = |id: u32, _| match id {
            1 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            2 => Err(io::Error::from_raw_os_error(libc::EPERM)),
            3 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            id => Ok(id),
        };
        let mut threads = BTreeMap::from([(77, 77)]);
        assert_eq!(follow(&mut threads, names(0..5), begin), 2);
        assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [0, 4]);
        // The same ones are not counted twice.
        assert_eq!(follow(&mut threads, names(0..5), begin), 2);
        let more = MOST_THREADS as u32 + 10;
        assert_eq!(follow(&mut threads, names(4..more + 4), begin), 10);
        assert_eq!(threads.len(), MOST_THREADS);
    }

    #[test]
    fn other_architectures_are_refused_with_a_reason() {
        let refused = machine_is_known(0).unwrap_err().to_string();
        assert!(refused.contains("architecture") && refused.contains("x86_64"), "{refused}");
        let is_known = matches!(std::env::consts::ARCH, "x86_64" | "aarch64");
        assert_eq!(machine_is_known(registers::WANTED).is_ok(), is_known);
    }
}

//! Hints about changed files, through inotify.

#[cfg(test)]
mod tests;
mod watched_folders;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use inotify::{Event, EventMask, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use ports::host::folder_watch::{ChangeHint, ChangeHints, FolderWatch};
use rustix::io::Errno;
use timing::{Backoff, BackoffPolicy, Debounce, random};
use tokio::time::sleep;

use watched_folders::{Interest, WatchedFolders, folders_to_watch};

/// A burst ends if no event occurs for this long.
const DEBOUNCE: Duration = Duration::from_millis(3);
/// The maximum length of a burst.
const MAX_BURST: Duration = Duration::from_millis(50);
const BACKOFF: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(20));
/// How often the folders are resolved again while they keep changing.
const MAX_WALKS: usize = 8;

const ENTRY_EVENTS: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR)
    .union(WatchMask::MASK_ADD);

/// [`FolderWatch`] through inotify.
///
/// The first item is sent once the watches are active, so that a reader that lists after every item misses nothing. A
/// content change is reported when the writer closes the file, so half-written manifests produce no hint. Mounts over
/// a watched path are invisible to inotify. If the kernel refuses watches (limits), the stream returns an `Err` item
/// and retries after 1 s, doubling up to 20 s.
#[derive(Clone, Copy, Debug, Default)]
pub struct InotifyFolderWatch;

impl FolderWatch for InotifyFolderWatch {
    fn watch(&self, path: &Path) -> ChangeHints {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let hints = HintStream {
            path,
            open: ActiveWatch::new,
            active: None,
            backoff: Backoff::new(BACKOFF),
            delay: None,
        };
        stream::unfold(hints, |mut hints| async move {
            let item = hints.next().await;
            Some((item, hints))
        })
        .boxed()
    }
}

struct HintStream {
    path: PathBuf,
    open: fn() -> io::Result<ActiveWatch>,
    active: Option<ActiveWatch>,
    backoff: Backoff,
    /// Delay before the next attempt, after a failure.
    delay: Option<Duration>,
}

impl HintStream {
    async fn next(&mut self) -> io::Result<ChangeHint> {
        let result = self.advance().await.map_err(explain_limit);
        self.delay = match &result {
            Ok(_) => {
                self.backoff.reset();
                None
            }
            Err(_) => Some(self.backoff.next(random())),
        };
        result
    }

    async fn advance(&mut self) -> io::Result<ChangeHint> {
        let mut hint = ChangeHint::default();
        let mut active = match self.active.take() {
            Some(mut active) => {
                active.wait_for_burst(&mut hint).await?;
                active
            }
            None => {
                if let Some(delay) = self.delay {
                    sleep(delay).await;
                }
                (self.open)()?
            }
        };
        active.update_watches(&self.path).await?;
        self.active = Some(active);
        Ok(hint)
    }
}

/// The kernel's errors for inotify limits ("too many open files", "no space left on device") are misleading.
fn explain_limit(error: io::Error) -> io::Error {
    let setting = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "fs.inotify.max_user_instances, or the limit of open files",
        Some(Errno::NOSPC) => "fs.inotify.max_user_watches",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("limit of file watches reached, raise {setting}: {error}"))
}

type Watched = HashMap<WatchDescriptor, Interest>;

struct ActiveWatch {
    events: EventStream<Vec<u8>>,
    watched: Watched,
}

impl ActiveWatch {
    fn new() -> io::Result<Self> {
        const EVENT_BUFFER_BYTES: usize = 16 * 1024;
        let events = Inotify::init()?.into_event_stream(vec![0; EVENT_BUFFER_BYTES])?;
        Ok(Self { events, watched: HashMap::new() })
    }

    /// Waits for a relevant event and for the end of its burst.
    async fn wait_for_burst(&mut self, hint: &mut ChangeHint) -> io::Result<()> {
        while !self.next_event_is_relevant(hint).await? {}
        let mut debounce = Debounce::new(DEBOUNCE, MAX_BURST);
        debounce.event();
        loop {
            tokio::select! {
                // First, or a flood of events would prolong the burst.
                biased;
                () = debounce.ended() => return Ok(()),
                is_relevant = self.next_event_is_relevant(hint) => if is_relevant? {
                    debounce.event();
                },
            }
        }
    }

    async fn next_event_is_relevant(&mut self, hint: &mut ChangeHint) -> io::Result<bool> {
        let Some(event) = self.events.next().await else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        };
        let Event { wd, mask, name, .. } = event?;
        if mask.contains(EventMask::Q_OVERFLOW) {
            return Ok(true);
        }
        // Unknown descriptors belong to removed watches.
        let Some(interest) = self.watched.get(&wd) else { return Ok(false) };
        let is_relevant = interest.covers(name.as_deref());
        if interest.everything && mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            hint.removed.extend(name);
        }
        Ok(is_relevant)
    }

    /// Adds watches for the folders that are relevant now, and removes the others.
    async fn update_watches(&mut self, path: &Path) -> io::Result<()> {
        let (watches, path) = (self.events.watches(), path.to_path_buf());
        let watched = tokio::task::spawn_blocking(move || add_watches(watches, &path))
            .await
            .map_err(io::Error::other)??;
        let mut watches = self.events.watches();
        for descriptor in std::mem::replace(&mut self.watched, watched).into_keys() {
            if !self.watched.contains_key(&descriptor) {
                // Fails if the folder was removed, which removes the watch, too.
                let _ = watches.remove(descriptor);
            }
        }
        Ok(())
    }
}

/// Adds watches until the set of folders is stable: only a set that was computed while its folders were watched cannot
/// have missed a change.
fn add_watches(mut watches: Watches, path: &Path) -> io::Result<Watched> {
    let mut desired = folders_to_watch(path);
    for _ in 0..MAX_WALKS {
        let watched = add_all(&mut watches, &desired)?;
        let current = folders_to_watch(path);
        if current == desired {
            return Ok(watched);
        }
        desired = current;
    }
    Err(io::Error::other(format!("the folders of {} change too fast to watch", path.display())))
}

fn add_all(watches: &mut Watches, folders: &WatchedFolders) -> io::Result<Watched> {
    let mut watched = Watched::new();
    for (folder, interest) in folders {
        let mask = if interest.content { ENTRY_EVENTS | WatchMask::CLOSE_WRITE } else { ENTRY_EVENTS };
        match watches.add(folder, mask) {
            Ok(descriptor) => watched.entry(descriptor).or_default().merge(interest),
            Err(error) => match error.kind() {
                // Removed since it was found; its parent reports the change.
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                // A parent may be searchable but not readable.
                io::ErrorKind::PermissionDenied if !interest.everything => {}
                _ => return Err(error),
            },
        }
    }
    Ok(watched)
}

//! Change hints by inotify.

mod places;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use inotify::{Event, EventMask, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use ports::folder_watch::{ChangeHints, FolderWatch};
use rustix::io::Errno;
use tokio::time::{Instant, sleep, timeout_at};

use places::{Interest, Places, places};

/// A burst ends when nothing happened for this long.
const QUIET: Duration = Duration::from_millis(3);
/// A burst is never longer than this.
const LONGEST_BURST: Duration = Duration::from_millis(50);
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LAST_BACK_OFF: Duration = Duration::from_secs(20);
/// How often the watched folders are followed again while they keep changing under our hands.
const MOST_WALKS: usize = 8;

const ENTRIES: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR)
    .union(WatchMask::MASK_ADD);

/// [`FolderWatch`] by inotify.
///
/// The first item comes as soon as the watches stand, so that a reader who lists after every item misses
/// nothing. Content is reported when its writer closes the file: half-written manifests are not announced.
/// Mounting over a watched path is invisible to inotify. When the kernel refuses watches (limits), the
/// stream says so in an `Err` item and tries again after 1 s, doubling up to 20 s.
#[derive(Clone, Copy, Debug, Default)]
pub struct InotifyFolderWatch;

impl FolderWatch for InotifyFolderWatch {
    fn watch(&self, path: &Path) -> ChangeHints {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let hints = Hints { path, open: Live::new, live: None, back_off: None };
        stream::unfold(hints, |mut hints| async move {
            let item = hints.next().await;
            Some((item, hints))
        })
        .boxed()
    }
}

struct Hints {
    path: PathBuf,
    open: fn() -> io::Result<Live>,
    live: Option<Live>,
    back_off: Option<Duration>,
}

impl Hints {
    async fn next(&mut self) -> io::Result<()> {
        let result = self.advance().await.map_err(name_limit);
        self.back_off = match (&result, self.back_off) {
            (Ok(()), _) => None,
            (Err(_), None) => Some(FIRST_BACK_OFF),
            (Err(_), Some(last)) => Some((last * 2).min(LAST_BACK_OFF)),
        };
        result
    }

    async fn advance(&mut self) -> io::Result<()> {
        let mut live = match self.live.take() {
            Some(mut live) => {
                live.burst().await?;
                live
            }
            None => {
                if let Some(delay) = self.back_off {
                    sleep(delay).await;
                }
                (self.open)()?
            }
        };
        live.follow(&self.path).await?;
        self.live = Some(live);
        Ok(())
    }
}

/// The kernel's own words for its inotify limits ("too many open files", "no space left on device") mislead.
fn name_limit(error: io::Error) -> io::Error {
    let setting = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "fs.inotify.max_user_instances, or the limit of open files",
        Some(Errno::NOSPC) => "fs.inotify.max_user_watches",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("limit of file watches reached, raise {setting}: {error}"))
}

type Watched = HashMap<WatchDescriptor, Interest>;

struct Live {
    events: EventStream<Vec<u8>>,
    watched: Watched,
}

impl Live {
    fn new() -> io::Result<Self> {
        const BUFFER: usize = 16 * 1024;
        let events = Inotify::init()?.into_event_stream(vec![0; BUFFER])?;
        Ok(Self { events, watched: HashMap::new() })
    }

    /// Waits for a change that concerns us and for the end of its burst.
    async fn burst(&mut self) -> io::Result<()> {
        while !self.concerning_event().await? {}
        let end = Instant::now() + LONGEST_BURST;
        let mut quiet = Instant::now() + QUIET;
        loop {
            let until = quiet.min(end);
            if Instant::now() >= until {
                return Ok(());
            }
            match timeout_at(until, self.concerning_event()).await {
                Ok(Ok(true)) => quiet = Instant::now() + QUIET,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => return Ok(()),
            }
        }
    }

    async fn concerning_event(&mut self) -> io::Result<bool> {
        let Some(event) = self.events.next().await else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        };
        let Event { wd, mask, name, .. } = event?;
        if mask.contains(EventMask::Q_OVERFLOW) {
            return Ok(true);
        }
        // Unknown descriptors are of watches that we gave up.
        Ok(self.watched.get(&wd).is_some_and(|interest| interest.covers(name.as_deref())))
    }

    /// Watches the folders that matter now and gives up those that no longer do.
    async fn follow(&mut self, path: &Path) -> io::Result<()> {
        let (watches, path) = (self.events.watches(), path.to_path_buf());
        let watched = tokio::task::spawn_blocking(move || watch_places(watches, &path))
            .await
            .map_err(io::Error::other)??;
        let mut watches = self.events.watches();
        for descriptor in std::mem::replace(&mut self.watched, watched).into_keys() {
            if !self.watched.contains_key(&descriptor) {
                // Fails when the folder is gone, and its watch with it.
                let _ = watches.remove(descriptor);
            }
        }
        Ok(())
    }
}

/// Adds watches until a walk finds nothing new: only a walk over folders that are watched already cannot
/// miss a later change.
fn watch_places(mut watches: Watches, path: &Path) -> io::Result<Watched> {
    let mut wanted = places(path);
    for _ in 0..MOST_WALKS {
        let watched = add_all(&mut watches, &wanted)?;
        let again = places(path);
        if again == wanted {
            return Ok(watched);
        }
        wanted = again;
    }
    Err(io::Error::other(format!("the folders of {} change too fast to be watched", path.display())))
}

fn add_all(watches: &mut Watches, wanted: &Places) -> io::Result<Watched> {
    let mut watched = Watched::new();
    for (folder, interest) in wanted {
        let mask = if interest.content { ENTRIES | WatchMask::CLOSE_WRITE } else { ENTRIES };
        match watches.add(folder, mask) {
            Ok(descriptor) => watched.entry(descriptor).or_default().merge(interest),
            Err(error) => match error.kind() {
                // Gone since the walk; the next walk or an event of its parent tells.
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                // A parent may be passable but not readable.
                io::ErrorKind::PermissionDenied if !interest.everything => {}
                _ => return Err(error),
            },
        }
    }
    Ok(watched)
}

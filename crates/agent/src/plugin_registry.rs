//! Plugins that announce themselves by a socket below `plugins_registry`.
//!
//! A socket that appears is asked who it is and handed to the type of plugin it names; one that disappears is let go.
//! Each plugin is registered by a task of its own: one that does not answer holds up nobody.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ports::folder_watch::{ChangeHints, FolderWatch};
use ports::plugin_registry::{
    PluginError, PluginInfo, PluginRegistration, PluginSocket, PluginSockets, PluginType,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// The safety net below the hints of the file system.
const RELIST: Duration = Duration::from_secs(10);
/// Folders below the folder that are watched; in more than so many the clock has to do.
const WATCHED_BELOW: usize = 16;
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(122);

/// Upstream's words for sockets that are there, and for those that are registered.
const ANNOUNCED: &str = "desired_state_of_world";
const REGISTERED: &str = "actual_state_of_world";

/// What the stage needs.
pub struct Parts {
    /// Where sockets appear.
    pub sockets: Arc<dyn PluginSockets>,
    /// Hints that they did.
    pub watch: Arc<dyn FolderWatch>,
    /// How plugins are talked to.
    pub registration: Arc<dyn PluginRegistration>,
    /// The types of plugins by their names, such as `CSIPlugin`.
    pub types: BTreeMap<String, Arc<dyn PluginType>>,
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// Counts a socket.
    fn count(&self, socket: &Path, state: &str) {
        self.metrics.storage.plugins.get([&socket.to_string_lossy(), state]).set(1.0);
    }

    fn uncount(&self, socket: &Path, state: &str) {
        self.metrics.storage.plugins.remove([&socket.to_string_lossy(), state]);
    }
}

/// A socket that is being or was registered.
struct Known {
    identity: PluginSocket,
    cancel: CancellationToken,
}

/// Runs until cancelled. Plugins stay registered then: the next agent asks them again.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let parts = Arc::new(parts);
    let mut hints = parts.watch.watch(parts.sockets.folder());
    let mut below: BTreeMap<PathBuf, ChangeHints> = BTreeMap::new();
    let mut known: HashMap<PathBuf, Known> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        match parts.sockets.list().await {
            Ok(found) => {
                watch_below(&parts, &found.folders, &mut below);
                follow(&parts, found.sockets, &mut known, &mut tasks, &cancel);
            }
            Err(error) => tracing::warn!(%error, source = %error.source, "plugins cannot be listed"),
        }
        tokio::select! {
            () = cancel.cancelled() => break,
            hint = hints.next() => by_the_clock(hint),
            hint = next_below(&mut below) => by_the_clock(hint),
            () = tokio::time::sleep(RELIST) => {}
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

fn by_the_clock(hint: Option<Result<(), std::io::Error>>) {
    if let Some(Err(error)) = hint {
        tracing::warn!(%error, "plugins are looked for by the clock");
    }
}

/// Watches the folders below the folder as they come and go.
fn watch_below(parts: &Parts, folders: &[PathBuf], below: &mut BTreeMap<PathBuf, ChangeHints>) {
    let watched = folders.get(..WATCHED_BELOW).unwrap_or(folders);
    below.retain(|folder, _| watched.contains(folder));
    for folder in watched {
        below.entry(folder.clone()).or_insert_with(|| parts.watch.watch(folder));
    }
}

async fn next_below(below: &mut BTreeMap<PathBuf, ChangeHints>) -> Option<Result<(), std::io::Error>> {
    match below.is_empty() {
        true => std::future::pending().await,
        false => futures::stream::select_all(below.values_mut()).next().await,
    }
}

fn follow(
    parts: &Arc<Parts>,
    found: Vec<PluginSocket>,
    known: &mut HashMap<PathBuf, Known>,
    tasks: &mut JoinSet<()>,
    cancel: &CancellationToken,
) {
    known.retain(|path, known| {
        let stays = found.iter().any(|socket| socket.path == *path && *socket == known.identity);
        if !stays {
            known.cancel.cancel();
            parts.uncount(path, ANNOUNCED);
        }
        stays
    });
    for socket in found {
        if known.contains_key(&socket.path) {
            continue;
        }
        parts.count(&socket.path, ANNOUNCED);
        let gone = CancellationToken::new();
        known.insert(socket.path.clone(), Known { identity: socket.clone(), cancel: gone.clone() });
        tasks.spawn(keep_registered(parts.clone(), socket.path, gone, cancel.clone()));
    }
}

/// Registers one plugin, trying until it succeeds, and lets it go when its socket is gone.
async fn keep_registered(
    parts: Arc<Parts>,
    socket: PathBuf,
    gone: CancellationToken,
    cancel: CancellationToken,
) {
    let mut wait = FIRST_RETRY;
    let plugin = loop {
        let attempt = tokio::select! {
            () = cancel.cancelled() => return,
            attempt = register(&parts, &socket, &gone) => attempt,
        };
        match attempt {
            Ok(plugin) => break plugin,
            Err(_) if gone.is_cancelled() => return,
            Err(error) => {
                tracing::warn!(socket = %socket.display(), %error, "a plugin is not registered; trying again");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = gone.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(LONGEST_RETRY);
    };
    parts.count(&socket, REGISTERED);
    tracing::info!(plugin = %plugin.name, kind = %plugin.kind, "a plugin is registered");
    tokio::select! {
        () = cancel.cancelled() => {}
        () = gone.cancelled() => {
            parts.uncount(&socket, REGISTERED);
            let_go(&parts, &plugin).await;
            tracing::info!(plugin = %plugin.name, kind = %plugin.kind, "a plugin is gone");
        }
    }
}

/// Ends early when the socket is gone; the plugin is not registered then.
async fn register(parts: &Parts, socket: &Path, gone: &CancellationToken) -> Result<PluginInfo, PluginError> {
    let plugin = tokio::select! {
        () = gone.cancelled() => return Err(is_gone()),
        asked = parts.registration.get_info(socket) => asked?,
    };
    let registered = tokio::select! {
        () = gone.cancelled() => {
            if let Some(kind) = parts.types.get(&plugin.kind) {
                kind.abandon(&plugin).await;
            }
            return Err(is_gone());
        }
        registered = take_in(parts, &plugin, socket) => registered,
    };
    let registered = registered.map_err(|reason| PluginError(format!("RegisterPlugin error -- {reason}")));
    let outcome = match &registered {
        Ok(()) => Ok(()),
        Err(error) => Err(error.0.as_str()),
    };
    let told = tokio::select! {
        () = gone.cancelled() => Err(is_gone()),
        told = parts.registration.notify(socket, outcome) => told,
    };
    registered?;
    if let Err(error) = told {
        // It does not know that it is registered and would wait for that.
        let_go(parts, &plugin).await;
        return Err(error);
    }
    Ok(plugin)
}

async fn let_go(parts: &Parts, plugin: &PluginInfo) {
    if let Some(kind) = parts.types.get(&plugin.kind) {
        kind.deregister(plugin).await;
    }
}

fn is_gone() -> PluginError {
    PluginError("its socket is gone".to_owned())
}

/// Hands a plugin to its type; an error is upstream's words.
async fn take_in(parts: &Parts, plugin: &PluginInfo, socket: &Path) -> Result<(), String> {
    let Some(kind) = parts.types.get(&plugin.kind) else {
        let (kind, socket) = (&plugin.kind, socket.display());
        return Err(format!("no handler registered for plugin type: {kind} at socket {socket}"));
    };
    kind.validate(plugin).map_err(|error| format!("plugin validation failed with err: {error}"))?;
    kind.register(plugin).await.map_err(|error| format!("plugin registration failed with err: {error}"))
}

#[cfg(test)]
mod tests;

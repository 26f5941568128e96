//! Registers plugins that create a socket below `plugins_registry`.
//!
//! Each plugin is registered in a separate task, so that one that does not answer blocks no other.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ports::host::folder_watch::{ChangeHint, ChangeHints, FolderWatch};
use ports::plugins::plugin_registry::{
    PluginError, PluginInfo, PluginRegistration, PluginSocket, PluginSockets, PluginType,
};
use timing::{Backoff, BackoffPolicy, random};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Safety net for missed file system events.
const RELIST: Duration = Duration::from_secs(10);
/// Maximum number of watched subfolders; others are found by the relist.
const MAX_WATCHED_SUBFOLDERS: usize = 16;
const BACKOFF: BackoffPolicy = BackoffPolicy::doubling(Duration::from_millis(500), Duration::from_secs(122));

/// Upstream's label values for discovered and for registered plugins.
const DISCOVERED: &str = "desired_state_of_world";
const REGISTERED: &str = "actual_state_of_world";

pub struct PluginRegistryDeps {
    pub sockets: Arc<dyn PluginSockets>,
    pub watch: Arc<dyn FolderWatch>,
    pub registration: Arc<dyn PluginRegistration>,
    /// By type, such as `CSIPlugin`.
    pub types: BTreeMap<String, Arc<dyn PluginType>>,
    pub metrics: Arc<Metrics>,
}

impl PluginRegistryDeps {
    fn count(&self, socket: &Path, state: &str) {
        self.metrics.storage.plugins.get([&socket.to_string_lossy(), state]).set(1.0);
    }

    fn uncount(&self, socket: &Path, state: &str) {
        self.metrics.storage.plugins.remove([&socket.to_string_lossy(), state]);
    }
}

struct Known {
    identity: PluginSocket,
    cancel: CancellationToken,
}

/// Runs until cancelled. Plugins stay registered; the next run registers them again.
pub async fn run(deps: PluginRegistryDeps, cancel: CancellationToken) {
    let deps = Arc::new(deps);
    let mut hints = deps.watch.watch(deps.sockets.folder());
    let mut below: BTreeMap<PathBuf, ChangeHints> = BTreeMap::new();
    let mut known: HashMap<PathBuf, Known> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        match deps.sockets.list().await {
            Ok(found) => {
                watch_below(&deps, &found.folders, &mut below);
                follow(&deps, found.sockets, &mut known, &mut tasks, &cancel);
            }
            Err(error) => tracing::warn!(%error, source = %error.source, "failed to list plugin sockets"),
        }
        tokio::select! {
            () = cancel.cancelled() => break,
            hint = hints.next() => log_watch_failure(hint),
            hint = next_below(&mut below) => log_watch_failure(hint),
            () = tokio::time::sleep(RELIST) => {}
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

fn log_watch_failure(hint: Option<Result<ChangeHint, std::io::Error>>) {
    if let Some(Err(error)) = hint {
        tracing::warn!(%error, "failed to watch the plugin folder, relying on the relist");
    }
}

/// Watches new subfolders and drops removed ones.
fn watch_below(deps: &PluginRegistryDeps, folders: &[PathBuf], below: &mut BTreeMap<PathBuf, ChangeHints>) {
    let watched = folders.get(..MAX_WATCHED_SUBFOLDERS).unwrap_or(folders);
    below.retain(|folder, _| watched.contains(folder));
    for folder in watched {
        below.entry(folder.clone()).or_insert_with(|| deps.watch.watch(folder));
    }
}

async fn next_below(
    below: &mut BTreeMap<PathBuf, ChangeHints>,
) -> Option<Result<ChangeHint, std::io::Error>> {
    match below.is_empty() {
        true => std::future::pending().await,
        false => futures::stream::select_all(below.values_mut()).next().await,
    }
}

fn follow(
    deps: &Arc<PluginRegistryDeps>,
    found: Vec<PluginSocket>,
    known: &mut HashMap<PathBuf, Known>,
    tasks: &mut JoinSet<()>,
    cancel: &CancellationToken,
) {
    known.retain(|path, known| {
        let stays = found.iter().any(|socket| socket.path == *path && *socket == known.identity);
        if !stays {
            known.cancel.cancel();
            deps.uncount(path, DISCOVERED);
        }
        stays
    });
    for socket in found {
        if known.contains_key(&socket.path) {
            continue;
        }
        deps.count(&socket.path, DISCOVERED);
        let gone = CancellationToken::new();
        known.insert(socket.path.clone(), Known { identity: socket.clone(), cancel: gone.clone() });
        tasks.spawn(keep_registered(deps.clone(), socket.path, gone, cancel.clone()));
    }
}

/// Registers one plugin, with retries, and deregisters it when its socket is removed.
async fn keep_registered(
    deps: Arc<PluginRegistryDeps>,
    socket: PathBuf,
    gone: CancellationToken,
    cancel: CancellationToken,
) {
    let mut backoff = Backoff::new(BACKOFF);
    let plugin = loop {
        let attempt = cancel.run_until_cancelled(register(&deps, &socket, &gone)).await;
        let Some(attempt) = attempt else { return };
        match attempt {
            Ok(plugin) => break plugin,
            Err(_) if gone.is_cancelled() => return,
            Err(error) => {
                tracing::warn!(socket = %socket.display(), %error, "failed to register plugin, retrying");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = gone.cancelled() => return,
            () = tokio::time::sleep(backoff.next(random())) => {}
        }
    };
    deps.count(&socket, REGISTERED);
    tracing::info!(plugin = %plugin.name, kind = %plugin.kind, "registered plugin");
    tokio::select! {
        () = cancel.cancelled() => {}
        () = gone.cancelled() => {
            deps.uncount(&socket, REGISTERED);
            deregister(&deps, &plugin).await;
            tracing::info!(plugin = %plugin.name, kind = %plugin.kind, "deregistered plugin");
        }
    }
}

/// Returns early, without a registration, when the socket is removed.
async fn register(
    deps: &PluginRegistryDeps,
    socket: &Path,
    gone: &CancellationToken,
) -> Result<PluginInfo, PluginError> {
    let plugin = gone.run_until_cancelled(deps.registration.get_info(socket)).await.ok_or_else(is_gone)??;
    let registered = gone.run_until_cancelled(register_with_type(deps, &plugin, socket)).await;
    let Some(registered) = registered else {
        if let Some(kind) = deps.types.get(&plugin.kind) {
            kind.abandon(&plugin).await;
        }
        return Err(is_gone());
    };
    let registered = registered.map_err(|reason| PluginError(format!("RegisterPlugin error -- {reason}")));
    let outcome = registered.as_ref().copied().map_err(|error| error.0.as_str());
    let notified = gone.run_until_cancelled(deps.registration.notify(socket, outcome)).await;
    registered?;
    if let Err(error) = notified.unwrap_or_else(|| Err(is_gone())) {
        // The plugin was not notified and would wait for it.
        deregister(deps, &plugin).await;
        return Err(error);
    }
    Ok(plugin)
}

async fn deregister(deps: &PluginRegistryDeps, plugin: &PluginInfo) {
    if let Some(kind) = deps.types.get(&plugin.kind) {
        kind.deregister(plugin).await;
    }
}

fn is_gone() -> PluginError {
    PluginError("its socket is gone".to_owned())
}

/// Registers a plugin with its type; the error is upstream's message.
async fn register_with_type(
    deps: &PluginRegistryDeps,
    plugin: &PluginInfo,
    socket: &Path,
) -> Result<(), String> {
    let Some(kind) = deps.types.get(&plugin.kind) else {
        let (kind, socket) = (&plugin.kind, socket.display());
        return Err(format!("no handler registered for plugin type: {kind} at socket {socket}"));
    };
    kind.validate(plugin).map_err(|error| format!("plugin validation failed with err: {error}"))?;
    kind.register(plugin).await.map_err(|error| format!("plugin registration failed with err: {error}"))
}

#[cfg(test)]
mod tests;

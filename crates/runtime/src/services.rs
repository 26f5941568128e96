//! The services of CRI v1, and their transports.
//!
//! [`RuntimeServices::open`] reads the records and adopts running keepers; after it everything is in memory. Requests that change
//! something run to their end also if the caller leaves: what a caller cannot know of is undone.

mod cpu_rates;
mod filters;
mod metrics;
mod recovery;
mod runtime_service;
mod statistics;
mod status;
mod streams;
mod transport;
mod verbose;

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use cpu_rates::CpuRates;
pub use transport::Serving;

use crate::cgroups::CgroupLayout;
use crate::errors::ServiceError;
use crate::images::{ImageStore, Images, PullTable};
use crate::sandboxes::{PodNetworking, remove_sandbox};
use crate::shared::{Shared, blocking};
use crate::streaming::{StreamTimeouts, StreamingServer};

pub use crate::errors::ServiceError as RuntimeError;
pub use crate::shared::{RuntimeOptions, SharedImages};

/// The runtime. Clones share everything; when the last one is dropped, keepers and containers continue.
#[derive(Clone)]
pub struct RuntimeServices {
    shared: Arc<Shared>,
    streaming: Arc<StreamingServer>,
    pulls: PullTable,
    _guard: Arc<TaskGuard>,
}

/// Ends the tasks, which hold the shared state themselves.
struct TaskGuard(Arc<Shared>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.end_tasks();
    }
}

impl RuntimeServices {
    /// Opens the runtime: adopts what runs, and undoes what was left half done.
    ///
    /// # Errors
    /// If folders or the image store cannot be opened, or cgroups are not mounted. A damaged record is only logged.
    pub async fn open(options: RuntimeOptions) -> Result<Self, ServiceError> {
        let shared = blocking(move || open_shared(options)).await?;
        let shared = Arc::new(shared);
        recovery::recover(&shared).await?;
        let address = shared.options.streaming_address;
        let backend = Arc::new(streams::Streams(shared.clone()));
        let streaming = StreamingServer::bind(address, backend, StreamTimeouts::default()).await;
        let streaming = streaming
            .map_err(|source| ServiceError::io(format!("listen for streams on {address}"), source))?;
        let streaming = Arc::new(streaming);
        shared.spawn(streaming.clone().serve(CancellationToken::new()));
        let pulls = PullTable::default();
        Ok(Self { _guard: Arc::new(TaskGuard(shared.clone())), streaming, pulls, shared })
    }

    /// The image service of the same store.
    #[must_use]
    pub fn images(&self) -> Images {
        let options = &self.shared.options;
        Images::new(self.shared.store.clone(), options.hosts_folder.clone(), options.now.clone())
            .with_progress(self.pulls.clone())
    }

    /// The pulls that are under way.
    #[must_use]
    pub fn pulls(&self) -> &PullTable {
        &self.pulls
    }

    /// Kills and removes all sandboxes with their containers, and what they share of the network. Images stay.
    ///
    /// # Errors
    /// The first failure, after everything else was removed.
    pub async fn remove_everything(&self) -> Result<(), ServiceError> {
        let mut result = Ok(());
        for sandbox in self.shared.sandboxes() {
            let removed = remove_sandbox(&self.shared, &sandbox).await;
            result = result.and(removed);
        }
        result.and(self.shared.network.remove_unused().await)
    }

    /// Runs work to its end, also if the caller leaves. `undo` gets the result if the caller has left.
    async fn complete<T: Send + 'static, U: Future<Output = ()> + Send>(
        &self,
        work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
        undo: impl FnOnce(T) -> U + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (sender, receiver) = oneshot::channel();
        self.shared.spawn(async move {
            let result = work.await;
            if let Err(Ok(result)) = sender.send(result) {
                undo(result).await;
            }
        });
        receiver.await.map_err(|_| ServiceError::Panicked)?
    }
}

fn open_shared(options: RuntimeOptions) -> Result<Shared, ServiceError> {
    // The kernel's limit, without the name of the socket and of the sandbox's folder.
    const MAX_STATE_PATH: usize = 107 - "/0123456789abcdef/keeper.sock".len();
    if options.state.as_os_str().len() > MAX_STATE_PATH {
        let problem = format!("{} has more than {MAX_STATE_PATH} bytes", options.state.display());
        return Err(ServiceError::setting("state folder", problem));
    }
    crate::records::make_folder(&options.root)?;
    crate::records::make_folder(&options.state)?;
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|source| ServiceError::io(format!("read {path}"), source))
    };
    let boot_id = read("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    let layout = CgroupLayout::parse(&read("/proc/self/mountinfo")?)
        .ok_or_else(|| ServiceError::State("cgroups are not mounted".to_owned()))?;
    let network = PodNetworking::open(options.network.clone())?;
    let store = match &options.shared_images {
        Some(shared) => ImageStore::open_as_guest(&shared.folder, &shared.guest)?,
        None => ImageStore::open(&options.root.join("images"), options.pinned_images.clone())?,
    };
    Ok(Shared::new(options, boot_id, store, layout, network))
}

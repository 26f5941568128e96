use parking_lot::Mutex;

use async_trait::async_trait;
use ports::host::pod_folders::FileError;
use ports::plugins::plugin_registry::PluginFolder;

use super::*;

/// A plugin that records notifications, and its plugin type.
#[derive(Default)]
struct Plugin {
    kind: &'static str,
    name: &'static str,
    notifications: Mutex<Vec<Result<(), String>>>,
    let_go: Mutex<usize>,
    abandoned: Mutex<usize>,
}

#[async_trait]
impl PluginRegistration for Plugin {
    async fn get_info(&self, socket: &Path) -> Result<PluginInfo, PluginError> {
        Ok(PluginInfo {
            kind: self.kind.to_owned(),
            name: self.name.to_owned(),
            endpoint: socket.to_path_buf(),
            versions: Vec::new(),
        })
    }

    async fn notify(&self, _: &Path, outcome: Result<(), &str>) -> Result<(), PluginError> {
        if self.name == "deaf" {
            std::future::pending::<()>().await;
        }
        self.notifications.lock().push(outcome.map_err(str::to_owned));
        Ok(())
    }
}

#[async_trait]
impl PluginType for Plugin {
    fn validate(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        if plugin.name == "old" { Err(PluginError("too old".to_owned())) } else { Ok(()) }
    }

    async fn register(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        match plugin.name.as_str() {
            "silent" => Err(PluginError("no answer".to_owned())),
            "slow" => std::future::pending().await,
            _ => Ok(()),
        }
    }

    async fn deregister(&self, _: &PluginInfo) {
        *self.let_go.lock() += 1;
    }

    async fn abandon(&self, _: &PluginInfo) {
        *self.abandoned.lock() += 1;
    }
}

struct Nothing;

#[async_trait]
impl PluginSockets for Nothing {
    async fn list(&self) -> Result<PluginFolder, FileError> {
        Ok(PluginFolder::default())
    }

    fn folder(&self) -> &Path {
        Path::new("/")
    }
}

impl FolderWatch for Nothing {
    fn watch(&self, _: &Path) -> ChangeHints {
        futures::stream::pending().boxed()
    }
}

fn deps(plugin: &Arc<Plugin>, kind: Arc<Plugin>) -> PluginRegistryDeps {
    PluginRegistryDeps {
        sockets: Arc::new(Nothing),
        watch: Arc::new(Nothing),
        registration: plugin.clone(),
        types: [("Known".to_owned(), kind as Arc<dyn PluginType>)].into(),
        metrics: Arc::default(),
    }
}

#[tokio::test]
async fn plugin_is_notified_of_its_registration() {
    let cases = [
        ("Known", "good", Ok(())),
        ("Other", "good", Err("no handler registered for plugin type: Other at socket /s")),
        ("Known", "old", Err("plugin validation failed with err: too old")),
        ("Known", "silent", Err("plugin registration failed with err: no answer")),
    ];
    for (kind, name, expected) in cases {
        let plugin = Arc::new(Plugin { kind, name, ..Plugin::default() });
        let deps = deps(&plugin, Arc::default());
        let registered = register(&deps, Path::new("/s"), &CancellationToken::new()).await;
        let expected = expected.map_err(|reason| format!("RegisterPlugin error -- {reason}"));
        assert_eq!(*plugin.notifications.lock(), std::slice::from_ref(&expected), "{kind} {name}");
        assert_eq!(registered.map(drop), expected.map_err(PluginError));
    }
}

#[tokio::test(start_paused = true)]
async fn deregisters_plugin_removed_before_notification() {
    let kind = went_within_a_second("deaf").await;
    assert_eq!((*kind.let_go.lock(), *kind.abandoned.lock()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn abandons_registration_when_the_socket_is_removed() {
    let kind = went_within_a_second("slow").await;
    assert_eq!((*kind.let_go.lock(), *kind.abandoned.lock()), (0, 1));
}

/// The plugin type after its socket was removed within a second.
async fn went_within_a_second(name: &'static str) -> Arc<Plugin> {
    let plugin = Arc::new(Plugin { kind: "Known", name, ..Plugin::default() });
    let kind = Arc::new(Plugin::default());
    let gone = CancellationToken::new();
    let kept = keep_registered(
        Arc::new(deps(&plugin, kind.clone())),
        "/s".into(),
        gone.clone(),
        CancellationToken::new(),
    );
    let goes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        gone.cancel();
    };
    tokio::join!(kept, goes);
    kind
}

#[tokio::test(start_paused = true)]
async fn counts_plugin_while_registered() {
    let plugin = Arc::new(Plugin { kind: "Known", name: "good", ..Plugin::default() });
    let deps = Arc::new(deps(&plugin, Arc::default()));
    let (gone, metrics) = (CancellationToken::new(), deps.metrics.clone());
    let counted = || {
        let text = metrics.encode(crate::metrics::Format::Text);
        let lines = text.lines().filter(|line| line.starts_with("plugin_manager_total_plugins"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let kept = keep_registered(deps, "/s".into(), gone.clone(), CancellationToken::new());
    let goes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let line = "plugin_manager_total_plugins{socket_path=\"/s\",state=\"actual_state_of_world\"} 1";
        assert_eq!(counted(), [line]);
        gone.cancel();
    };
    tokio::join!(kept, goes);
    assert_eq!(counted(), Vec::<String>::new());
}

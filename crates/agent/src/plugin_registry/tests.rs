use std::sync::Mutex;

use async_trait::async_trait;
use ports::plugin_registry::PluginFolder;
use ports::pod_folders::FileError;

use super::*;

/// A plugin that says what it is and keeps what it is told; also the type of such plugins.
#[derive(Default)]
struct Plugin {
    kind: &'static str,
    name: &'static str,
    told: Mutex<Vec<Result<(), String>>>,
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
        self.told.lock().unwrap().push(outcome.map_err(str::to_owned));
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
        *self.let_go.lock().unwrap() += 1;
    }

    async fn abandon(&self, _: &PluginInfo) {
        *self.abandoned.lock().unwrap() += 1;
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

fn parts(plugin: &Arc<Plugin>, kind: Arc<Plugin>) -> Parts {
    Parts {
        sockets: Arc::new(Nothing),
        watch: Arc::new(Nothing),
        registration: plugin.clone(),
        types: [("Known".to_owned(), kind as Arc<dyn PluginType>)].into(),
        metrics: Arc::default(),
    }
}

#[tokio::test]
async fn a_plugin_is_told_what_became_of_it() {
    let cases = [
        ("Known", "good", Ok(())),
        ("Other", "good", Err("no handler registered for plugin type: Other at socket /s")),
        ("Known", "old", Err("plugin validation failed with err: too old")),
        ("Known", "silent", Err("plugin registration failed with err: no answer")),
    ];
    for (kind, name, expected) in cases {
        let plugin = Arc::new(Plugin { kind, name, ..Plugin::default() });
        let parts = parts(&plugin, Arc::default());
        let registered = register(&parts, Path::new("/s"), &CancellationToken::new()).await;
        let expected = expected.map_err(|reason| format!("RegisterPlugin error -- {reason}"));
        assert_eq!(*plugin.told.lock().unwrap(), std::slice::from_ref(&expected), "{kind} {name}");
        assert_eq!(registered.map(drop), expected.map_err(PluginError));
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_socket_goes_before_it_was_told_is_let_go() {
    let kind = went_within_a_second("deaf").await;
    assert_eq!((*kind.let_go.lock().unwrap(), *kind.abandoned.lock().unwrap()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_registration_told_before_the_socket_went_is_taken_back() {
    let kind = went_within_a_second("slow").await;
    assert_eq!((*kind.let_go.lock().unwrap(), *kind.abandoned.lock().unwrap()), (0, 1));
}

/// What the type of a plugin is asked for when its socket goes within a second.
async fn went_within_a_second(name: &'static str) -> Arc<Plugin> {
    let plugin = Arc::new(Plugin { kind: "Known", name, ..Plugin::default() });
    let kind = Arc::new(Plugin::default());
    let gone = CancellationToken::new();
    let kept = keep_registered(
        Arc::new(parts(&plugin, kind.clone())),
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
async fn a_plugin_counts_while_it_is_registered() {
    let plugin = Arc::new(Plugin { kind: "Known", name: "good", ..Plugin::default() });
    let parts = Arc::new(parts(&plugin, Arc::default()));
    let (gone, metrics) = (CancellationToken::new(), parts.metrics.clone());
    let counted = || {
        let text = metrics.encode(crate::metrics::Format::Text);
        let lines = text.lines().filter(|line| line.starts_with("plugin_manager_total_plugins"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let kept = keep_registered(parts, "/s".into(), gone.clone(), CancellationToken::new());
    let goes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let line = "plugin_manager_total_plugins{socket_path=\"/s\",state=\"actual_state_of_world\"} 1";
        assert_eq!(counted(), [line]);
        gone.cancel();
    };
    tokio::join!(kept, goes);
    assert_eq!(counted(), Vec::<String>::new());
}

use std::fmt;

macro_rules! rpcs {
    ($($name:ident),+ $(,)?) => {
        /// The calls that the fake runtime answers, by their names on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rpc {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                $name,
            )+
        }

        impl Rpc {
            /// The name on the wire.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

rpcs!(
    Version,
    Status,
    RuntimeConfig,
    RunPodSandbox,
    StopPodSandbox,
    RemovePodSandbox,
    PodSandboxStatus,
    ListPodSandbox,
    StreamPodSandboxes,
    CreateContainer,
    StartContainer,
    StopContainer,
    RemoveContainer,
    ListContainers,
    StreamContainers,
    ContainerStatus,
    UpdateContainerResources,
    ReopenContainerLog,
    ExecSync,
    ListContainerStats,
    StreamContainerStats,
    GetContainerEvents,
    ListImages,
    StreamImages,
    ImageStatus,
    PullImage,
    RemoveImage,
    ImageFsInfo,
);

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whom a call is about. Unknown parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The id or image in the request; for creations the id is not known yet and this is empty.
    pub id: String,
    /// The pod's UID, where the request or the id leads to one.
    pub pod_uid: String,
    /// The container's name, where the request or the id leads to one.
    pub container: String,
}

impl Subject {
    /// Whether any part is `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.id == text || self.pod_uid == text || self.container == text
    }
}

/// One call that reached the runtime, whether or not it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which call.
    pub rpc: Rpc,
    /// Whom it was about.
    pub subject: Subject,
    /// When it arrived, in nanoseconds of the fake's clock.
    pub at: i64,
}

use std::fmt;

macro_rules! rpcs {
    ($($name:ident),+ $(,)?) => {
        /// The calls that the fake runtime implements, by their names on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rpc {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                $name,
            )+
        }

        impl Rpc {
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

/// The object of a call. Unknown fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// ID or image in the request; empty for creations.
    pub id: String,
    /// Empty unless the request or the ID determines it.
    pub pod_uid: String,
    /// Empty unless the request or the ID determines it.
    pub container: String,
}

impl Subject {
    /// Whether any field is `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.id == text || self.pod_uid == text || self.container == text
    }
}

/// A received call, whether or not it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub rpc: Rpc,
    pub subject: Subject,
    /// Arrival time in nanoseconds of the fake's clock.
    pub at: i64,
}

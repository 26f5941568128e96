use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use cri::v1::ContainerConfig;

/// Exit code of a process killed by SIGKILL.
pub const KILLED: i32 = 137;
/// Exit code of a process ended by SIGTERM.
pub const TERMINATED: i32 = 143;

/// What the process in a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerBehaviour {
    /// When it ends by itself.
    pub life: Life,
    /// What it does on the stop signal.
    pub on_stop: OnStop,
}

/// When a process ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Never: it is stopped, or told to end by the test.
    UntilStopped,
    /// Some time after its start.
    Ends {
        /// How long it runs.
        after: Duration,
        /// With which exit code it ends.
        code: i32,
    },
}

/// What a process does on the stop signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// It ends, perhaps some time later.
    Exits {
        /// How long it takes.
        after: Duration,
        /// With which exit code it ends.
        code: i32,
    },
    /// Nothing: it lives until the grace period ends and it is killed.
    Ignores,
}

impl ContainerBehaviour {
    /// Runs until stopped; the stop signal ends it at once with 143.
    #[must_use]
    pub fn runs_forever() -> Self {
        Self { life: Life::UntilStopped, on_stop: OnStop::Exits { after: Duration::ZERO, code: TERMINATED } }
    }

    /// Ends at once with `code`.
    #[must_use]
    pub fn exits(code: i32) -> Self {
        Self::exits_after(Duration::ZERO, code)
    }

    /// Ends with `code` when it ran for `after`.
    #[must_use]
    pub fn exits_after(after: Duration, code: i32) -> Self {
        Self { life: Life::Ends { after, code }, ..Self::runs_forever() }
    }

    /// The same, but deaf to the stop signal.
    #[must_use]
    pub fn ignoring_stop(self) -> Self {
        Self { on_stop: OnStop::Ignores, ..self }
    }

    /// The same, but the stop signal takes `after` to end it, with `code`.
    #[must_use]
    pub fn stopping_with(self, after: Duration, code: i32) -> Self {
        Self { on_stop: OnStop::Exits { after, code }, ..self }
    }
}

/// Chooses the behaviour of a container that is being created.
pub type BehaviourHook = Box<dyn FnMut(&ContainerConfig) -> Option<ContainerBehaviour> + Send>;

/// Who behaves how: the hook decides first, then the image, then the default.
#[derive(Default)]
pub(crate) struct Behaviours {
    pub(crate) by_image: HashMap<String, ContainerBehaviour>,
    pub(crate) hook: Option<BehaviourHook>,
}

impl Behaviours {
    /// The behaviour of a container whose image has these names.
    pub(crate) fn choose(&mut self, config: &ContainerConfig, image_names: &[String]) -> ContainerBehaviour {
        let hooked = self.hook.as_mut().and_then(|hook| hook(config));
        hooked
            .or_else(|| image_names.iter().find_map(|name| self.by_image.get(name)).cloned())
            .unwrap_or_else(ContainerBehaviour::runs_forever)
    }
}

impl fmt::Debug for Behaviours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behaviours").field("by_image", &self.by_image).finish_non_exhaustive()
    }
}

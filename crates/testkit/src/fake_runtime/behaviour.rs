use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use cri::v1::ContainerConfig;

/// Exit code of a process killed by SIGKILL.
pub const KILLED: i32 = 137;
/// Exit code of a process terminated by SIGTERM.
pub const TERMINATED: i32 = 143;

/// Simulated behaviour of a container's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerBehaviour {
    pub life: Life,
    /// Reaction to the stop signal.
    pub on_stop: OnStop,
}

/// When a process exits without being stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Runs until the agent stops it or the test ends it.
    UntilStopped,
    /// Exits some time after its start.
    Ends { after: Duration, code: i32 },
}

/// Reaction of a process to the stop signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// Exits, after a delay if set.
    Exits { after: Duration, code: i32 },
    /// Keeps running until it is killed at the end of the grace period.
    Ignores,
}

impl ContainerBehaviour {
    /// Runs until stopped; exits with 143 at once on the stop signal.
    #[must_use]
    pub fn runs_forever() -> Self {
        Self { life: Life::UntilStopped, on_stop: OnStop::Exits { after: Duration::ZERO, code: TERMINATED } }
    }

    /// Exits at once with `code`.
    #[must_use]
    pub fn exits(code: i32) -> Self {
        Self::exits_after(Duration::ZERO, code)
    }

    /// Exits with `code` after running for `after`.
    #[must_use]
    pub fn exits_after(after: Duration, code: i32) -> Self {
        Self { life: Life::Ends { after, code }, ..Self::runs_forever() }
    }

    /// The same, but ignores the stop signal.
    #[must_use]
    pub fn ignoring_stop(self) -> Self {
        Self { on_stop: OnStop::Ignores, ..self }
    }

    /// The same, but exits with `code` only `after` that time on the stop signal.
    #[must_use]
    pub fn stopping_with(self, after: Duration, code: i32) -> Self {
        Self { on_stop: OnStop::Exits { after, code }, ..self }
    }
}

/// Selects the behaviour of a container that is being created.
pub type BehaviourHook = Box<dyn FnMut(&ContainerConfig) -> Option<ContainerBehaviour> + Send>;

/// Selects behaviours: the hook has precedence, then the image, then the default.
#[derive(Default)]
pub(crate) struct Behaviours {
    pub(crate) by_image: HashMap<String, ContainerBehaviour>,
    pub(crate) hook: Option<BehaviourHook>,
}

impl Behaviours {
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

/// Which streams of a process a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamChoice {
    pub stdin: bool,
    pub stdout: bool,
    /// Its error output; never with a terminal.
    pub stderr: bool,
    /// Whether it has a terminal.
    pub tty: bool,
}

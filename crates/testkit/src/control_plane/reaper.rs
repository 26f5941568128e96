//! Cleans up after a test process that cannot do it itself.
//!
//! Statics are not dropped at process exit, and a killed process drops nothing. So a shell process waits for the end of
//! a pipe that only the test process holds open, kills the last reported processes and removes the folder.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The last line before the end of the pipe lists the processes to kill.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
while read -r line; do pids=$line; done
[ -z "$pids" ] || kill -9 $pids
[ -z "$PODWARD_KEEP" ] || exit 0
umount -l "$0/etcd"
rm -rf "$0"
"#;

#[derive(Debug)]
pub(super) struct Reaper(Child);

impl Reaper {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(SCRIPT)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Self(shell.context("start the reaper")?))
    }

    /// Replaces the list of processes to kill.
    pub(super) fn watch(&mut self, pids: &[u32]) -> Result<()> {
        let words: Vec<String> = pids.iter().map(ToString::to_string).collect();
        let pipe = self.0.stdin.as_mut().context("the reaper's pipe")?;
        pipe.write_all(format!("{}\n", words.join(" ")).as_bytes()).context("update the reaper")
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let _ = self.watch(&[]);
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

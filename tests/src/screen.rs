//! A command on a new terminal: reads its output and sends input.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Long enough for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program whose standard streams are a terminal. Dropping it kills the program.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    master: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Screen {
    /// Starts a program on a terminal with this many columns.
    pub fn start(program: &Path, arguments: &[&str], columns: u16) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("open a terminal")?;
        grantpt(&master).context("open a terminal")?;
        unlockpt(&master).context("open a terminal")?;
        let name = ptsname(&master, Vec::new()).context("name the terminal")?;
        let path = name.to_str().context("name the terminal")?.to_owned();
        let slave =
            File::options().read(true).write(true).open(&path).context("open the terminal's other end")?;
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).context("set the terminal's size")?;
        let stdio = || slave.try_clone().map(Stdio::from);
        let child = Command::new(program)
            .args(arguments)
            .env_remove("COLUMNS")
            .env("TERM", "xterm")
            .stdin(stdio()?)
            .stdout(stdio()?)
            .stderr(stdio()?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        drop(slave);
        let master = File::from(master);
        let mut source = master.try_clone().context("share the terminal")?;
        let shown = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading a terminal whose other end is closed fails.
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                sink.lock().extend_from_slice(&buffer[..count]);
            }
        });
        Ok(Self { child, master, shown, reader: Some(reader) })
    }

    /// The output so far, with line feeds as line breaks.
    pub fn text(&self) -> String {
        let shown = self.shown.lock();
        String::from_utf8_lossy(&shown).replace('\r', "")
    }

    pub fn keys(&mut self, text: &str) -> Result<()> {
        self.master.write_all(text.as_bytes()).context("type")
    }

    /// Resizes the terminal and signals the program.
    pub fn resize(&self, columns: u16) -> Result<()> {
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).context("set the terminal's size")?;
        // The terminal is not the controlling terminal of the program, so the kernel sends no signal.
        testkit::instance::kill(self.child.id(), rustix::process::Signal::WINCH)
    }

    pub async fn wait_for(&self, text: &str) -> Result<String> {
        let start = Instant::now();
        loop {
            let shown = self.text();
            if shown.contains(text) {
                return Ok(shown);
            }
            if start.elapsed() > TIMEOUT {
                bail!("{text:?} was not shown within {TIMEOUT:?}; shown was\n{shown}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for the program to exit; returns its status and its output.
    pub async fn end(mut self) -> Result<(ExitStatus, String)> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().context("wait for the command")? {
                break status;
            }
            if start.elapsed() > TIMEOUT {
                bail!("the command did not end within {TIMEOUT:?}; shown was\n{}", self.text());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        if let Some(reader) = self.reader.take() {
            // The last end of the terminal is closed, so the thread ends.
            let _ = reader.join();
        }
        Ok((status, self.text()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

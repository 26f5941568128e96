//! The steps of a command line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use crate::{
    grpc, serve,
    signals::{self, Event},
};

pub(crate) enum Outcome {
    /// Run the next step, or exit with 0 after the last one.
    Next,
    Exit(u8),
}

const HELP: &str = "usage: demo STEP [-- STEP]...

  pause                               reap children, exit 0 on SIGTERM
  pause -v                            print a version, as the pause image of Kubernetes does
  serve [--port 8080] [--text TEXT] [--status-file FILE] [--linger SECONDS]
                                      serve HTTP with the status in FILE (default 200) and log requests; /redirect,
                                      /away and /slow are special; after SIGTERM, serve for SECONDS, then exit 0
  serve-grpc [--port 8080] [--status-file FILE]
                                      serve grpc.health.v1: SERVING if FILE contains 200 or is missing
  sleep SECONDS|forever [--ignore-term] [--exit CODE]
                                      wait; exit with CODE (default 143) on SIGTERM
  exit CODE [--after SECONDS]         exit with CODE; with 143 on an earlier SIGTERM
  crash-until FILE                    exit with 1 unless FILE exists
  write FILE TEXT | append FILE TEXT  write TEXT and a newline
  cat FILE | ls DIRECTORY             print a file, or the names in a directory
  fill MIB                            allocate that much memory and keep it
  burn PERCENT                        use that share of one CPU until SIGTERM
  env | pwd | hostname | mounts | id  print the environment of the process
  effective-uid                       print the user that the kernel checks
  print TEXT | warn TEXT              print a line to stdout, or to stderr";

pub(crate) fn run(step: &[String]) -> Result<Outcome, String> {
    let arguments: Vec<&str> = step.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] | ["--help"] => println!("{HELP}"),
        ["pause"] => return Ok(wait(None, &OnStop::Exit(0))),
        ["pause", "-v"] => println!("pause {}", env!("CARGO_PKG_VERSION")),
        ["serve", options @ ..] => {
            let port = option(options, "--port").map_or(Ok(8080), number)?;
            let text = option(options, "--text").unwrap_or("hello from podward").to_owned();
            let linger = option(options, "--linger").map_or(Ok(Duration::ZERO), seconds)?;
            serve::start(port, serve::ServeOptions { text, status_file: status_file(options) })
                .map_err(|error| format!("serve on port {port}: {error}"))?;
            wait(None, &OnStop::Exit(0));
            println!("asked to stop");
            return Ok(match wait(Some(linger), &OnStop::Ignore) {
                Outcome::Next | Outcome::Exit(_) => Outcome::Exit(0),
            });
        }
        ["serve-grpc", options @ ..] => {
            let port = option(options, "--port").map_or(Ok(8080), number)?;
            grpc::start(port, status_file(options))
                .map_err(|error| format!("serve on port {port}: {error}"))?;
            return Ok(wait(None, &OnStop::Exit(0)));
        }
        ["sleep", time, options @ ..] => {
            let limit = if *time == "forever" { None } else { Some(seconds(time)?) };
            let stop = match option(options, "--exit") {
                Some(code) => OnStop::Exit(number(code)?),
                None if options.contains(&"--ignore-term") => OnStop::Ignore,
                None => OnStop::Exit(143),
            };
            return Ok(wait(limit, &stop));
        }
        ["exit", code, options @ ..] => {
            let code = number(code)?;
            let limit = option(options, "--after").map_or(Ok(Duration::ZERO), seconds)?;
            return Ok(match wait(Some(limit), &OnStop::Exit(143)) {
                Outcome::Next => Outcome::Exit(code),
                stopped @ Outcome::Exit(_) => stopped,
            });
        }
        ["crash-until", file] if !fs::exists(file).unwrap_or(false) => return Ok(Outcome::Exit(1)),
        ["crash-until", _] => {}
        ["write", file, text] => {
            fs::write(file, format!("{text}\n")).map_err(|error| format!("write {file}: {error}"))?;
        }
        ["append", file, text] => append(file, text)?,
        ["cat", file] => {
            let content = fs::read_to_string(file).map_err(|error| format!("read {file}: {error}"))?;
            print!("{content}");
        }
        ["ls", folder] => list(folder)?,
        ["fill", mib] => fill(number(mib)?),
        ["burn", percent] => return Ok(burn(number(percent)?)),
        ["env"] => std::env::vars().for_each(|(name, value)| println!("{name}={value}")),
        ["pwd"] => println!("{}", std::env::current_dir().unwrap_or_default().display()),
        ["hostname"] => println!("{}", hostname()),
        ["mounts"] => return run(&["cat".to_owned(), "/proc/self/mounts".to_owned()]),
        ["id"] => return run(&["cat".to_owned(), "/proc/self/status".to_owned()]),
        ["effective-uid"] => println!("Effective uid: {}", effective_uid()),
        ["print", text] => println!("{text}"),
        ["warn", text] => eprintln!("{text}"),
        other => return Err(format!("unknown step {other:?}; see demo --help")),
    }
    Ok(Outcome::Next)
}

/// Reads the host name from the kernel.
pub(crate) fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
}

/// Reads the second user ID of `/proc/self/status`.
fn effective_uid() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    users.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

enum OnStop {
    Exit(u8),
    Ignore,
}

fn wait(limit: Option<Duration>, stop: &OnStop) -> Outcome {
    let start = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Outcome::Next;
        }
        match (signals::next(left), stop) {
            (Event::Stop, OnStop::Exit(code)) => return Outcome::Exit(*code),
            (Event::Stop, OnStop::Ignore) | (Event::Child | Event::Timeout, _) => {}
        }
    }
}

fn append(file: &str, text: &str) -> Result<(), String> {
    let open = OpenOptions::new().create(true).append(true).open(file);
    open.and_then(|mut file| writeln!(file, "{text}")).map_err(|error| format!("append to {file}: {error}"))
}

fn list(folder: &str) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("list {folder}: {error}"))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names.iter().for_each(|name| println!("{}", name.to_string_lossy()));
    Ok(())
}

/// Writes to every page, so that the kernel provides it. The memory is never freed.
fn fill(mib: usize) {
    for _ in 0..mib {
        std::mem::forget(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}

/// Alternates between work and sleep in periods of about 100 ms.
fn burn(percent: u64) -> Outcome {
    let work = Duration::from_millis(percent.min(100));
    loop {
        let start = Instant::now();
        while start.elapsed() < work {
            std::hint::black_box(start);
        }
        // At least 1 ms, because this also checks for signals.
        let rest = Duration::from_millis(101).saturating_sub(work);
        if let Event::Stop = signals::next(Some(rest)) {
            return Outcome::Exit(0);
        }
    }
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let index = options.iter().position(|option| *option == name)?;
    options.get(index + 1).copied()
}

fn status_file(options: &[&str]) -> serve::StatusFile {
    serve::StatusFile(option(options, "--status-file").map(str::to_owned))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("not a number in range: {text}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = number(text)?;
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn exit_step_exits_with_its_code() {
        assert!(matches!(run(&arguments("exit 7")), Ok(Outcome::Exit(7))));
    }

    #[test]
    fn unknown_step_is_an_error() {
        assert!(run(&arguments("fly away")).is_err());
        assert!(run(&arguments("exit 300")).is_err());
    }

    #[test]
    fn crash_until_step_depends_on_the_file() {
        assert!(matches!(run(&arguments("crash-until /nonexistent/x")), Ok(Outcome::Exit(1))));
        assert!(matches!(run(&arguments("crash-until /")), Ok(Outcome::Next)));
    }
}

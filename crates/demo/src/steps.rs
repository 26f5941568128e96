//! The steps a command line can name.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use crate::{
    grpc, serve,
    signals::{self, Arrival},
};

/// What follows a step.
pub(crate) enum Outcome {
    /// The next step, or the end with code 0.
    Next,
    /// The process ends with this code.
    Exit(u8),
}

const HELP: &str = "usage: demo STEP [-- STEP]...

  pause                               reap children, exit 0 on SIGTERM
  serve [--port 8080] [--text TEXT] [--mood FILE] [--linger SECONDS]
                                      answer HTTP with the status that FILE names (200 without it) and log requests;
                                      /redirect, /away and /slow do that; on SIGTERM go on for SECONDS, then exit 0
  serve-grpc [--port 8080] [--mood FILE]
                                      answer grpc.health.v1: SERVING when FILE names 200 or is missing
  sleep SECONDS|forever [--ignore-term] [--exit CODE]
                                      wait; CODE (143 without it) on SIGTERM
  exit CODE [--after SECONDS]         end with CODE; 143 on SIGTERM before that
  crash-until FILE                    end with 1 unless FILE exists
  write FILE TEXT | append FILE TEXT  write TEXT and a line end
  cat FILE | ls DIRECTORY             show a file, or names in a folder
  fill MIB                            take that much memory, and keep it
  burn PERCENT                        keep one CPU busy for that share of the time, until SIGTERM
  env | pwd | hostname | mounts | id  show what the process sees
  print TEXT | warn TEXT              a line on stdout, stderr";

/// Runs one step.
pub(crate) fn run(step: &[String]) -> Result<Outcome, String> {
    let words: Vec<&str> = step.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["--help"] => println!("{HELP}"),
        ["pause"] => return Ok(wait(None, &Stop::Exit(0))),
        ["serve", options @ ..] => {
            let port = option(options, "--port").map_or(Ok(8080), number)?;
            let text = option(options, "--text").unwrap_or("hello from podward").to_owned();
            let linger = option(options, "--linger").map_or(Ok(Duration::ZERO), seconds)?;
            serve::start(port, serve::Answers { text, mood: mood(options) })
                .map_err(|error| format!("serve on port {port}: {error}"))?;
            wait(None, &Stop::Exit(0));
            println!("asked to stop");
            return Ok(match wait(Some(linger), &Stop::Ignore) {
                Outcome::Next | Outcome::Exit(_) => Outcome::Exit(0),
            });
        }
        ["serve-grpc", options @ ..] => {
            let port = option(options, "--port").map_or(Ok(8080), number)?;
            grpc::start(port, mood(options)).map_err(|error| format!("serve on port {port}: {error}"))?;
            return Ok(wait(None, &Stop::Exit(0)));
        }
        ["sleep", time, options @ ..] => {
            let limit = if *time == "forever" { None } else { Some(seconds(time)?) };
            let stop = match option(options, "--exit") {
                Some(code) => Stop::Exit(number(code)?),
                None if options.contains(&"--ignore-term") => Stop::Ignore,
                None => Stop::Exit(143),
            };
            return Ok(wait(limit, &stop));
        }
        ["exit", code, options @ ..] => {
            let code = number(code)?;
            let limit = option(options, "--after").map_or(Ok(Duration::ZERO), seconds)?;
            return Ok(match wait(Some(limit), &Stop::Exit(143)) {
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
        ["print", text] => println!("{text}"),
        ["warn", text] => eprintln!("{text}"),
        other => return Err(format!("unknown step {other:?}; see demo --help")),
    }
    Ok(Outcome::Next)
}

/// The host name as the kernel knows it.
pub(crate) fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
}

enum Stop {
    Exit(u8),
    Ignore,
}

fn wait(limit: Option<Duration>, stop: &Stop) -> Outcome {
    let start = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Outcome::Next;
        }
        match (signals::next(left), stop) {
            (Arrival::Stop, Stop::Exit(code)) => return Outcome::Exit(*code),
            (Arrival::Stop, Stop::Ignore) | (Arrival::Child | Arrival::Timeout, _) => {}
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

/// Written to, page by page, so that the kernel has to provide it; never freed.
fn fill(mib: usize) {
    for _ in 0..mib {
        std::mem::forget(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}

/// Works and rests in turns of a tenth of a second together.
fn burn(percent: u64) -> Outcome {
    let work = Duration::from_millis(percent.min(100));
    loop {
        let start = Instant::now();
        while start.elapsed() < work {
            std::hint::black_box(start);
        }
        // A rest of no length still looks for a signal.
        let rest = Duration::from_millis(101).saturating_sub(work);
        if let Arrival::Stop = signals::next(Some(rest)) {
            return Outcome::Exit(0);
        }
    }
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let at = options.iter().position(|option| *option == name)?;
    options.get(at + 1).copied()
}

fn mood(options: &[&str]) -> serve::Mood {
    serve::Mood(option(options, "--mood").map(str::to_owned))
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

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn exit_ends_with_its_code() {
        assert!(matches!(run(&words("exit 7")), Ok(Outcome::Exit(7))));
    }

    #[test]
    fn unknown_step_is_an_error() {
        assert!(run(&words("fly away")).is_err());
        assert!(run(&words("exit 300")).is_err());
    }

    #[test]
    fn crash_until_follows_the_file() {
        assert!(matches!(run(&words("crash-until /nonexistent/x")), Ok(Outcome::Exit(1))));
        assert!(matches!(run(&words("crash-until /")), Ok(Outcome::Next)));
    }
}

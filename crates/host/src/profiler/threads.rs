//! The threads of this process, from `/proc/self/task`.

#[cfg(feature = "profiler")]
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use ports::host::profiler::ThreadFacts;

const TASKS: &str = "/proc/self/task";

/// All threads with their processor time, ordered by ID.
pub(super) fn read() -> io::Result<Vec<ThreadFacts>> {
    let facts =
        |id: u32| thread(id, &std::fs::read_to_string(Path::new(TASKS).join(format!("{id}/stat"))).ok()?);
    Ok(ids()?.into_iter().filter_map(facts).collect())
}

#[cfg(feature = "profiler")]
pub(super) fn names() -> io::Result<BTreeMap<u32, String>> {
    let name = |id: u32| {
        let name = std::fs::read_to_string(Path::new(TASKS).join(format!("{id}/comm"))).ok()?;
        Some((id, name.trim_end().to_owned()))
    };
    Ok(ids()?.into_iter().filter_map(name).collect())
}

fn ids() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(TASKS)? {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Parses a thread's `stat` file.
fn thread(id: u32, stat: &str) -> Option<ThreadFacts> {
    // The name may contain spaces and parentheses.
    let (front, rest) = stat.rsplit_once(')')?;
    let (_, name) = front.split_once('(')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let time = |field: usize| Some(Duration::from_millis(10 * fields.get(field)?.parse::<u64>().ok()?));
    Some(ThreadFacts {
        id,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        user: time(11)?,
        system: time(12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_stat_with_any_thread_name() {
        let line = "7 (a) (b c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0";
        let expected = ThreadFacts {
            id: 7,
            name: "a) (b c".to_owned(),
            state: 'S',
            user: Duration::from_millis(1500),
            system: Duration::from_millis(250),
        };
        assert_eq!(thread(7, line), Some(expected));
        assert_eq!(thread(7, "7 (cut S"), None);
        assert_eq!(thread(7, "7 (cut) S 1"), None);
    }

    #[test]
    fn lists_a_running_thread() {
        let thread_handle = std::thread::Builder::new().name("own-thread".to_owned()).spawn(read).unwrap();
        let threads = thread_handle.join().unwrap().unwrap();
        assert!(
            threads.iter().any(|thread| thread.name == "own-thread" && thread.state == 'R'),
            "{threads:?}"
        );
    }
}

//! The pages below `/debug/pprof/`.

use super::memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    #[cfg(feature = "profiler")]
    Processor,
    /// A page about threads, with its name.
    Threads(&'static str),
    /// A page about memory, with its name.
    Memory(&'static str),
    /// A profile that exists only in Go: its name, and why it is missing.
    Missing(&'static str, &'static str),
}

const WAITING: &str = "a waiting tokio task occupies no thread, so waits are not sampled; \
    use goroutine?debug=1 for the tasks, or `perf trace -s -p PID` for waits of threads";
const TRACE: &str = "the program has no execution tracer; use `perf sched record -p PID`, or the setting `tracing` \
    for spans of requests";
#[cfg(not(feature = "profiler"))]
const NO_PROFILER: &str = "this program was built without the cargo feature profiler; \
    use `perf record -g -p PID`, or a build with that feature";

pub(super) fn page(name: &str) -> Option<Page> {
    let page = match name {
        #[cfg(feature = "profiler")]
        "profile" => Page::Processor,
        #[cfg(not(feature = "profiler"))]
        "profile" => Page::Missing("profile", NO_PROFILER),
        "goroutine" => Page::Threads("goroutine"),
        "threadcreate" => Page::Threads("threadcreate"),
        "heap" => Page::Memory("heap"),
        "allocs" => Page::Memory("allocs"),
        "block" => Page::Missing("block", WAITING),
        "mutex" => Page::Missing("mutex", WAITING),
        "trace" => Page::Missing("trace", TRACE),
        _ => return None,
    };
    Some(page)
}

/// The HTML page that lists the others.
pub(super) fn index(threads: usize, tasks: usize) -> String {
    let rows = [
        row("", "cmdline", "the command line"),
        #[cfg(feature = "profiler")]
        row("", "profile", "processor time for ?seconds= (30), for `go tool pprof`"),
        #[cfg(not(feature = "profiler"))]
        missing("profile", NO_PROFILER),
        row(
            &threads.to_string(),
            "goroutine?debug=1",
            &format!("the threads, and {tasks} tasks of tokio; debug=2: each"),
        ),
        row(&threads.to_string(), "threadcreate?debug=1", "the threads"),
        row("", "heap?debug=1", &format!("sums of the memory; {}", memory::NO_PROFILE)),
        row("", "allocs?debug=1", "the same"),
        missing("block", WAITING),
        missing("mutex", WAITING),
        missing("trace", TRACE),
    ];
    format!(
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n<h1>/debug/pprof/</h1>\n<table>\n\
         <tr><th>Count</th><th>Profile</th><th></th></tr>\n{}</table>\n</body>\n</html>\n",
        rows.concat()
    )
}

fn row(count: &str, path: &str, text: &str) -> String {
    let name = path.split('?').next().unwrap_or(path);
    format!("<tr><td>{count}</td><td><a href=\"{path}\">{name}</a></td><td>{text}</td></tr>\n")
}

fn missing(name: &str, reason: &str) -> String {
    format!("<tr><td></td><td>{name}</td><td>not served: {reason}</td></tr>\n")
}

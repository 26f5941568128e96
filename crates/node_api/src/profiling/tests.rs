use super::*;

use std::io::{self, Read};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use ports::host::profiler::{
    Frame, Function, MemoryFacts, ModuleFacts, ProcessorProfile, ProfilerError, Stack, ThreadFacts,
};
use prost::Message;
use testkit::fake_clock::FakeClock;
use tower::ServiceExt;

use super::encoding::proto;

/// Returns a fixed profile, or this error.
#[derive(Default)]
struct FakeProfiler(Option<fn() -> ProfilerError>);

#[async_trait]
impl Profiler for FakeProfiler {
    async fn processor_time(&self, length: Duration) -> Result<ProcessorProfile, ProfilerError> {
        match self.0 {
            Some(failure) => Err(failure()),
            None => Ok(profile_of(length)),
        }
    }

    fn threads(&self) -> io::Result<Vec<ThreadFacts>> {
        let thread = |id, name: &str, state| ThreadFacts {
            id,
            name: name.to_owned(),
            state,
            user: Duration::from_millis(1500),
            system: Duration::from_millis(20),
        };
        Ok(vec![thread(7, "podward", 'S'), thread(8, "worker", 'R'), thread(9, "worker", 'S')])
    }

    fn memory(&self) -> io::Result<MemoryFacts> {
        Ok(MemoryFacts { mapped: vec![("Rss".to_owned(), 4096)], allocator: vec![("in use", 100)] })
    }
}

/// One stack of two functions, with one sample per second.
fn profile_of(length: Duration) -> ProcessorProfile {
    let function = |name: &str| Some(Function { name: name.to_owned(), symbol: format!("_{name}") });
    let frame = |address, function| Frame { address, module: Some(0), function };
    ProcessorProfile {
        period: Duration::from_millis(10),
        sampled: length,
        modules: vec![ModuleFacts {
            start: 0x1000,
            end: 0x2000,
            offset: 0x100,
            path: "/bin/podward".to_owned(),
            build_id: "ab01".to_owned(),
            is_named: true,
        }],
        frames: vec![frame(0x1010, function("inner")), frame(0x1020, function("outer")), frame(0x1030, None)],
        stacks: vec![Stack { thread: "worker".to_owned(), frames: vec![0, 1, 2], count: length.as_secs() }],
        lost: 4,
        unseen_threads: 0,
    }
}

async fn send(profiler: Option<FakeProfiler>, method: &str, path: &str) -> (u16, String, Vec<u8>) {
    let deps = ProfilingDeps {
        log_level: None,
        profiles: profiler.map(|profiler| Arc::new(profiler) as Arc<dyn Profiler>),
        command: Arc::new(["podward".to_owned(), "agent".to_owned()]),
        clock: Arc::new(FakeClock::fixed(43_200)),
    };
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = routes(deps).oneshot(request).await.unwrap();
    let media = response.headers().get("content-type").map(|media| media.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    (status, media.unwrap_or_default(), body)
}

async fn get_text(path: &str) -> (u16, String) {
    let (status, _, body) = send(Some(FakeProfiler::default()), "GET", path).await;
    (status, String::from_utf8(body).unwrap())
}

async fn decoded(path: &str) -> proto::Profile {
    let (status, media, body) = send(Some(FakeProfiler::default()), "GET", path).await;
    assert_eq!((status, media.as_str()), (200, "application/octet-stream"), "{path}");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut bytes).unwrap();
    proto::Profile::decode(bytes.as_slice()).unwrap()
}

fn text_at(profile: &proto::Profile, index: i64) -> &str {
    &profile.string_table[usize::try_from(index).unwrap()]
}

#[cfg(feature = "profiler")]
#[tokio::test]
async fn cpu_profile_is_valid_pprof() {
    for (path, samples) in [
        ("/debug/pprof/profile?seconds=5", 5),
        ("/debug/pprof/profile", 30),
        ("/debug/pprof/profile?seconds=0", 30),
        ("/debug/pprof/profile?seconds=x", 30),
        ("/debug/pprof/profile?seconds=14399", 14399),
    ] {
        assert_eq!(decoded(path).await.sample[0].value, [samples, samples * 10_000_000], "{path}");
    }
    let profile = decoded("/debug/pprof/profile?seconds=1").await;
    let types: Vec<_> = profile
        .sample_type
        .iter()
        .map(|kind| (text_at(&profile, kind.r#type), text_at(&profile, kind.unit)))
        .collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert_eq!((profile.period, profile.time_nanos), (10_000_000, 43_200_000_000_000));
    assert_eq!(profile.duration_nanos, 1_000_000_000);
    assert_eq!(profile.string_table[0], "");
    let mapping = &profile.mapping[0];
    assert_eq!((mapping.id, mapping.memory_start, mapping.file_offset), (1, 0x1000, 0x100));
    assert_eq!(
        (text_at(&profile, mapping.filename), text_at(&profile, mapping.build_id)),
        ("/bin/podward", "ab01")
    );
    assert!(mapping.has_functions);
    assert_eq!(profile.sample[0].location_id, [1, 2, 3]);
    let name = |location: &proto::Location| {
        let line = location.line.first()?;
        let function = profile.function.iter().find(|function| function.id == line.function_id)?;
        Some((text_at(&profile, function.name), text_at(&profile, function.system_name)))
    };
    let names: Vec<_> = profile.location.iter().map(name).collect();
    assert_eq!(names, [Some(("inner", "_inner")), Some(("outer", "_outer")), None]);
    let label = &profile.sample[0].label[0];
    assert_eq!((text_at(&profile, label.key), text_at(&profile, label.str)), ("thread", "worker"));
    assert_eq!(text_at(&profile, profile.comment[0]), "4 samples were lost");
}

#[cfg(feature = "profiler")]
#[tokio::test]
async fn reports_why_no_profile_was_taken() {
    let (status, text) = get_text("/debug/pprof/profile?seconds=14400").await;
    assert_eq!((status, text.as_str()), (400, "profile duration exceeds server's WriteTimeout\n"));
    let refused =
        || ProfilerError::Refused { what: "it refused", remedy: "do so", source: io::Error::other("no") };
    for (failure, expected) in [
        ((|| ProfilerError::InUse) as fn() -> ProfilerError, "cpu profiling already in use\n"),
        (refused, "it refused; do so (no)\n"),
    ] {
        let (status, media, body) =
            send(Some(FakeProfiler(Some(failure))), "GET", "/debug/pprof/profile").await;
        let text = String::from_utf8(body).unwrap();
        assert_eq!((status, media.as_str()), (500, "text/plain; charset=utf-8"));
        assert_eq!(text, format!("Could not enable CPU profiling: {expected}"));
    }
}

#[cfg(not(feature = "profiler"))]
#[tokio::test]
async fn profile_answers_501_without_the_profiler_feature() {
    let (status, text) = get_text("/debug/pprof/profile").await;
    assert_eq!(status, 501, "{text}");
    assert!(text.starts_with("podward has no profile profile: this program was built without"), "{text}");
}

#[tokio::test]
async fn goroutine_profile_lists_threads() {
    for name in ["goroutine", "threadcreate"] {
        let profile = decoded(&format!("/debug/pprof/{name}")).await;
        assert_eq!(text_at(&profile, profile.sample_type[0].r#type), name);
        let samples: Vec<_> = profile
            .sample
            .iter()
            .zip(&profile.function)
            .map(|(sample, function)| (text_at(&profile, function.name), sample.value[0]))
            .collect();
        assert_eq!(samples, [("podward", 1), ("worker", 2)]);
        assert!(text_at(&profile, profile.comment[0]).starts_with("tokio: 1 workers, "));

        let (_, grouped) = get_text(&format!("/debug/pprof/{name}?debug=1")).await;
        assert!(grouped.starts_with(&format!("{name} profile: total 3\n")), "{grouped}");
        assert!(grouped.contains("\n2 @ worker [1 R, 1 S]: 3.00s user, 0.04s system\n"), "{grouped}");
        let (_, each) = get_text(&format!("/debug/pprof/{name}?debug=2")).await;
        assert!(each.contains("\nthread 9 \"worker\" [S]: 1.50s user, 0.02s system\n"), "{each}");
        assert!(each.contains(" tasks in the global queue\n"), "{each}");
    }
}

#[tokio::test]
async fn missing_profiles_answer_501_with_a_reason() {
    for name in ["heap", "allocs", "block", "mutex", "trace"] {
        let (status, text) = get_text(&format!("/debug/pprof/{name}")).await;
        assert_eq!(status, 501, "{text}");
        assert!(text.starts_with(&format!("podward has no {name} profile: ")), "{text}");
        assert!(text.contains("; use "), "{text}");
    }
    let (status, text) = get_text("/debug/pprof/heap?debug=1").await;
    assert_eq!(status, 200);
    assert!(text.contains("\nRss = 4096\n") && text.contains("\nin use = 100\n"), "{text}");
    assert_eq!(get_text("/debug/pprof/none").await, (404, "Unknown profile\n".to_owned()));
    assert_eq!(get_text("/debug/pprof/a/none").await, (404, "Unknown profile\n".to_owned()));
}

#[tokio::test]
async fn index_lists_profiles_with_counts() {
    let (status, media, body) = send(Some(FakeProfiler::default()), "GET", "/debug/pprof/").await;
    assert_eq!((status, media.as_str()), (200, "text/html; charset=utf-8"));
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains("<td>3</td><td><a href=\"goroutine?debug=1\">goroutine</a>"), "{text}");
    for name in ["allocs", "block", "cmdline", "heap", "mutex", "profile", "threadcreate", "trace"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert_eq!(get_text("/debug/pprof/cmdline").await, (200, "podward\0agent".to_owned()));
    assert_eq!(get_text("/debug/pprof/symbol").await, (200, "num_symbols: 0\n".to_owned()));
}

#[tokio::test]
async fn disabled_profiling_returns_405() {
    for path in ["/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/cmdline"] {
        let (status, _, body) = send(None, "GET", path).await;
        assert_eq!((status, body.as_slice()), (405, &b"profiling endpoint is disabled.\n"[..]), "{path}");
    }
    assert_eq!(send(Some(FakeProfiler::default()), "PUT", "/debug/pprof/profile").await.0, 405);
}

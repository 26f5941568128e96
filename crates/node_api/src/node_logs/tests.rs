use std::collections::BTreeMap;
use std::io::Read;

use async_trait::async_trait;
use axum::http::Request;
use http_body_util::BodyExt;
use model::Timestamp;
use ports::host::log_files::FileIdentity;
use ports::host::node_logs::Output;
use ports::host::pod_folders::FileError;
use tower::util::ServiceExt;

use super::*;

struct FakeLogs(BTreeMap<&'static str, &'static str>);

struct FakeFile(&'static str);

#[async_trait]
impl LogFile for FakeFile {
    fn identity(&self) -> FileIdentity {
        FileIdentity { device: 0, number: 0 }
    }

    async fn size(&self) -> Result<u64, FileError> {
        Ok(self.0.len() as u64)
    }

    async fn read_at(&self, position: u64, max: usize) -> Result<Vec<u8>, FileError> {
        let from = usize::try_from(position).unwrap().min(self.0.len());
        Ok(self.0.as_bytes()[from..].iter().copied().take(max).collect())
    }
}

#[async_trait]
impl NodeLogs for FakeLogs {
    async fn open(&self, path: &str) -> Result<NodeLog, FileError> {
        let path = path.trim_start_matches('/');
        Ok(match self.0.get(path) {
            Some(text) => NodeLog::File(Arc::new(FakeFile(text)), Timestamp::from_secs(784_111_777)),
            None if path.is_empty() => NodeLog::Folder(self.0.keys().map(ToString::to_string).collect()),
            None => NodeLog::Missing,
        })
    }

    fn journal(&self, arguments: Vec<String>) -> Output {
        let text = match arguments.first().map(String::as_str) {
            Some("--field") => "ssh.service\n".to_owned(),
            _ => format!("{}\n", arguments.join(" ")),
        };
        stream::iter([Ok(text.into_bytes())]).boxed()
    }
}

async fn get(queries_enabled: bool, path: &str) -> (u16, HeaderMap, Vec<u8>) {
    let files = BTreeMap::from([("sys.log", "words"), ("nginx.log", "hits")]);
    let router = routes(NodeLogDeps { logs: Arc::new(FakeLogs(files)), queries_enabled });
    let request = Request::get(path).header("accept-encoding", if path.contains("gz") { "gzip" } else { "" });
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    (head.status.as_u16(), head.headers, body)
}

async fn check(queries_enabled: bool, path: &str, code: u16, text: &str) {
    let (found, _, body) = get(queries_enabled, path).await;
    let body = String::from_utf8_lossy(&body).into_owned();
    assert_eq!(found, code, "{path}: {body}");
    assert!(body.contains(text), "{path}: {body}");
}

#[tokio::test]
async fn serves_files_and_folders() {
    check(false, "/logs/", 200, "<a href=\"sys.log\">sys.log</a>\n").await;
    check(false, "/logs/sys.log", 200, "words").await;
    check(false, "/logs/gone", 404, "").await;
    check(false, "/logs/?query=ssh", 200, "<pre>").await;
}

async fn with_header(name: &str, value: &str) -> (u16, HeaderMap, Vec<u8>) {
    let router = routes(NodeLogDeps {
        logs: Arc::new(FakeLogs(BTreeMap::from([("sys.log", "words")]))),
        queries_enabled: false,
    });
    let request = Request::get("/logs/sys.log").header(name, value).body(Body::empty()).unwrap();
    let (head, body) = router.oneshot(request).await.unwrap().into_parts();
    (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test]
async fn serves_byte_ranges() {
    let (code, headers, body) = with_header("range", "bytes=-4").await;
    assert_eq!((code, body.as_slice()), (206, b"ords".as_slice()));
    assert_eq!(headers["content-range"], "bytes 1-4/5");
    assert_eq!(headers["content-length"], "4");
    let (code, headers, _) = with_header("range", "bytes=5-").await;
    assert_eq!(code, 416);
    assert_eq!(headers["content-range"], "bytes */5");
    let (code, headers, body) = with_header("accept", "*/*").await;
    assert_eq!((code, body.as_slice()), (200, b"words".as_slice()));
    assert_eq!(headers["accept-ranges"], "bytes");
    assert_eq!(headers["content-length"], "5");
}

#[tokio::test]
async fn returns_not_modified_for_current_copy() {
    let (code, headers, body) = with_header("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT").await;
    assert_eq!((code, body.len()), (304, 0));
    assert_eq!(headers["last-modified"], "Sun, 06 Nov 1994 08:49:37 GMT");
}

#[tokio::test]
async fn queries_read_journal_or_files() {
    let ssh = "--utc --no-pager --output=short-precise --pager-end --lines=3 --unit=ssh\n";
    check(true, "/logs/?query=ssh&tailLines=3", 200, ssh).await;
    check(true, "/logs/?query=nginx", 200, "hits").await;
    check(true, "/logs/?query=nginx&tailLines=3", 200, "try without specifying options").await;
    check(true, "/logs/?query=gone", 200, "log not found for gone").await;
    check(true, "/logs/?query=/sys.log", 200, "words").await;
    check(true, "/logs/sys.log", 200, "words").await;
}

#[tokio::test]
async fn rejects_bad_queries_with_upstream_status_codes() {
    check(true, "/logs/?query=%20", 400, "may not be empty").await;
    check(true, "/logs/?query=ssh&sinceTime=x", 400, "sinceTime").await;
    check(true, "/logs/?query=ssh&boot=1", 406, "boot").await;
    check(true, "/logs/?query=a;b", 406, "unsupported characters").await;
    check(true, "/logs/?query=/gone", 406, "query").await;
    check(true, "/logs/sys.log?query=ssh", 406, "path not allowed").await;
}

#[tokio::test]
async fn compresses_query_response_when_accepted() {
    let (code, headers, body) = get(true, "/logs/?query=ssh&pattern=gz").await;
    assert_eq!((code, headers["content-encoding"].to_str().unwrap()), (200, "gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
    assert!(text.ends_with("--unit=ssh --grep=gz\n"), "{text}");
}

//! Pairs of streams by the id of their request.

use std::collections::HashMap;
use std::time::Duration;

use spdy::{Headers, StreamId};
use tokio::time::Instant;

/// Both streams of a forwarded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompletePair {
    pub(super) error: StreamId,
    pub(super) data: StreamId,
    pub(super) port: u16,
}

/// The stream cannot be part of a pair.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidStream;

/// Pairs that are not complete yet.
pub(super) struct StreamPairs {
    pairs: HashMap<String, Pair>,
    timeout: Duration,
}

struct Pair {
    error: Option<StreamId>,
    data: Option<StreamId>,
    port: u16,
    until: Instant,
}

impl StreamPairs {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { pairs: HashMap::new(), timeout }
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Adds a stream. Returns whether it carries data, and the pair that it completes.
    pub(super) fn add(
        &mut self,
        stream: StreamId,
        headers: &Headers,
    ) -> Result<(bool, Option<CompletePair>), InvalidStream> {
        let value =
            |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let is_data = match value("streamtype") {
            Some("data") => true,
            Some("error") => false,
            Some(_) | None => return Err(InvalidStream),
        };
        let port = value("port").and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
        let port = port.ok_or(InvalidStream)?;
        let request = match value("requestid") {
            Some(id) => id.to_owned(),
            // Old clients open the data stream directly after the error stream.
            None if is_data => stream.checked_sub(2).ok_or(InvalidStream)?.to_string(),
            None => stream.to_string(),
        };
        let until = Instant::now() + self.timeout;
        let pair = self.pairs.entry(request.clone()).or_insert(Pair { error: None, data: None, port, until });
        let slot = if is_data { &mut pair.data } else { &mut pair.error };
        if slot.is_some() || pair.port != port {
            return Err(InvalidStream);
        }
        *slot = Some(stream);
        let (Some(error), Some(data)) = (pair.error, pair.data) else { return Ok((is_data, None)) };
        self.pairs.remove(&request);
        Ok((is_data, Some(CompletePair { error, data, port })))
    }

    /// Forgets a stream that was reset.
    pub(super) fn remove(&mut self, stream: StreamId) {
        self.pairs.retain(|_, pair| pair.error != Some(stream) && pair.data != Some(stream));
    }

    /// The streams that waited too long for the other one.
    pub(super) fn take_expired(&mut self) -> Vec<StreamId> {
        let now = Instant::now();
        let mut expired = Vec::new();
        self.pairs.retain(|_, pair| {
            if pair.until <= now {
                expired.extend([pair.error, pair.data].into_iter().flatten());
            }
            pair.until > now
        });
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(kind: &str, port: &str, request: Option<&str>) -> Headers {
        let mut headers =
            vec![("streamtype".to_owned(), kind.to_owned()), ("port".to_owned(), port.to_owned())];
        headers.extend(request.map(|id| ("requestid".to_owned(), id.to_owned())));
        headers
    }

    #[tokio::test(start_paused = true)]
    async fn streams_of_one_request_are_a_pair_in_any_order() {
        let mut pairs = StreamPairs::new(Duration::from_secs(30));
        assert_eq!(pairs.add(1, &headers("error", "80", Some("a"))), Ok((false, None)));
        assert_eq!(pairs.add(3, &headers("data", "81", Some("b"))), Ok((true, None)));
        let first = CompletePair { error: 1, data: 5, port: 80 };
        assert_eq!(pairs.add(5, &headers("data", "80", Some("a"))), Ok((true, Some(first))));
        let second = CompletePair { error: 7, data: 3, port: 81 };
        assert_eq!(pairs.add(7, &headers("error", "81", Some("b"))), Ok((false, Some(second))));
        assert_eq!(pairs.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_without_request_id_are_paired_by_their_numbers() {
        let mut pairs = StreamPairs::new(Duration::from_secs(30));
        pairs.add(1, &headers("error", "80", None)).unwrap();
        let pair = CompletePair { error: 1, data: 3, port: 80 };
        assert_eq!(pairs.add(3, &headers("data", "80", None)), Ok((true, Some(pair))));
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_streams_are_refused() {
        let mut pairs = StreamPairs::new(Duration::from_secs(30));
        for (kind, port) in [("other", "80"), ("data", "0"), ("data", "65536"), ("data", "x")] {
            assert_eq!(pairs.add(1, &headers(kind, port, Some("a"))), Err(InvalidStream), "{kind} {port}");
        }
        pairs.add(1, &headers("data", "80", Some("a"))).unwrap();
        assert_eq!(pairs.add(3, &headers("data", "80", Some("a"))), Err(InvalidStream));
        assert_eq!(pairs.add(5, &headers("error", "81", Some("a"))), Err(InvalidStream));
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_pair_expires() {
        let mut pairs = StreamPairs::new(Duration::from_secs(30));
        pairs.add(1, &headers("data", "80", Some("a"))).unwrap();
        assert_eq!(pairs.take_expired(), Vec::<StreamId>::new());
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(pairs.take_expired(), [1]);
        assert_eq!(pairs.len(), 0);
    }
}

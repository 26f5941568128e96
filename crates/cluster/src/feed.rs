//! From kube's watcher to [`Feed`].

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use serde::de::DeserializeOwned;

use crate::errors::{api_error, status_error};
use crate::pauses::Pauses;

/// The first pause after a failure, and the longest. The Go client's are 0.8 s and 30 s; a node that hears of its pods
/// late after an outage is worse than one more question.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Watches all objects of `api` that `config` selects. Resumes from bookmarks, lists again when its place is too old,
/// and pauses between failures (0.2 s doubling to 10 s).
pub(crate) fn feed<K>(api: Api<K>, config: watcher::Config) -> FeedStream<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    feed_with(api, config, Pauses::new(FIRST_PAUSE, LONGEST_PAUSE))
}

/// As [`feed`], with pauses of one's own.
pub(crate) fn feed_with<K>(api: Api<K>, config: watcher::Config, pauses: Pauses) -> FeedStream<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut listed: Option<Vec<K>> = None;
    watcher::watcher(api, config)
        .backoff(pauses)
        .filter_map(move |event| std::future::ready(step(&mut listed, event)))
        .boxed()
}

fn step<K>(listed: &mut Option<Vec<K>>, event: Result<Event<K>, watcher::Error>) -> Option<Feed<K>> {
    match event {
        Ok(Event::Init) => {
            *listed = Some(Vec::new());
            None
        }
        Ok(Event::InitApply(object)) => {
            listed.get_or_insert_with(Vec::new).push(object);
            None
        }
        Ok(Event::InitDone) => Some(Feed::Listed(listed.take().unwrap_or_default())),
        Ok(Event::Apply(object)) => Some(Feed::Applied(object)),
        Ok(Event::Delete(object)) => Some(Feed::Deleted(object)),
        Err(error) => Some(Feed::Failed(watch_error(&error))),
    }
}

fn watch_error(error: &watcher::Error) -> ApiError {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => api_error(error),
        watcher::Error::WatchError(status) => status_error(status),
        watcher::Error::NoResourceVersion => {
            ApiError { kind: ApiErrorKind::Server, message: error.to_string(), retry_after: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_told_once_it_is_whole() {
        let mut listed = None;
        let mut told = Vec::new();
        for event in [Event::Init, Event::InitApply(1), Event::InitApply(2), Event::InitDone, Event::Apply(3)]
        {
            told.extend(step(&mut listed, Ok(event)));
        }
        told.extend(step(&mut listed, Ok(Event::Delete(1))));
        // A list that is cut short is forgotten.
        for event in [Event::Init, Event::InitApply(7), Event::Init, Event::InitDone] {
            told.extend(step(&mut listed, Ok(event)));
        }
        let expected = [Feed::Listed(vec![1, 2]), Feed::Applied(3), Feed::Deleted(1), Feed::Listed(vec![])];
        assert_eq!(told, expected);
    }
}

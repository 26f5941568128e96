//! Converts kube's watcher to a [`FeedStream`].

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use serde::de::DeserializeOwned;

use crate::errors::{api_error, failure, status_error};
use crate::watch_backoff::WatchBackoff;

/// client-go uses 0.8 s and 30 s. Shorter, because a node must learn about its pods soon after an outage.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Watches all objects of `api` that `config` selects. Resumes from bookmarks, lists again when its resource version is
/// too old, and backs off after failures.
pub(crate) fn feed<K>(api: Api<K>, config: watcher::Config) -> FeedStream<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    feed_with_backoff(api, config, WatchBackoff::new(INITIAL_BACKOFF, MAX_BACKOFF))
}

/// Like [`feed`], with a different backoff.
pub(crate) fn feed_with_backoff<K>(
    api: Api<K>,
    config: watcher::Config,
    backoff: WatchBackoff,
) -> FeedStream<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut listed: Option<Vec<K>> = None;
    watcher::watcher(api, config)
        .backoff(backoff)
        .filter_map(move |event| std::future::ready(convert(&mut listed, event)))
        .boxed()
}

/// Converts the objects of a watch.
pub(crate) fn converted<T: 'static, U>(
    items: FeedStream<T>,
    convert: impl Fn(T) -> U + Send + 'static,
) -> FeedStream<U> {
    let convert_item = move |item| match item {
        Feed::Listed(objects) => Feed::Listed(objects.into_iter().map(&convert).collect()),
        Feed::Applied(object) => Feed::Applied(convert(object)),
        Feed::Deleted(object) => Feed::Deleted(convert(object)),
        Feed::Failed(error) => Feed::Failed(error),
    };
    items.map(convert_item).boxed()
}

fn convert<K>(listed: &mut Option<Vec<K>>, event: Result<Event<K>, watcher::Error>) -> Option<Feed<K>> {
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
        Err(error) => Some(Feed::Failed(watch_error(error))),
    }
}

fn watch_error(error: watcher::Error) -> ApiError {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => api_error(error),
        watcher::Error::WatchError(status) => status_error(&status),
        watcher::Error::NoResourceVersion => failure(ApiErrorKind::Server, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivers_a_list_only_when_complete() {
        let mut listed = None;
        let mut delivered = Vec::new();
        for event in [Event::Init, Event::InitApply(1), Event::InitApply(2), Event::InitDone, Event::Apply(3)]
        {
            delivered.extend(convert(&mut listed, Ok(event)));
        }
        delivered.extend(convert(&mut listed, Ok(Event::Delete(1))));
        // Discards an interrupted list.
        for event in [Event::Init, Event::InitApply(7), Event::Init, Event::InitDone] {
            delivered.extend(convert(&mut listed, Ok(event)));
        }
        let expected = [Feed::Listed(vec![1, 2]), Feed::Applied(3), Feed::Deleted(1), Feed::Listed(vec![])];
        assert_eq!(delivered, expected);
    }
}

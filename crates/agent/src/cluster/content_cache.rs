//! Saves cluster content in the offline cache, so that pods can start while the API server is unreachable.
//!
//! At the start, the saved ConfigMaps, Secrets, tokens, services, runtime classes and trust bundles seed their stores, which
//! use them only while the server is unreachable. After that, the stores are compared with the last saved state every few
//! seconds, without reading the content of objects, and saved when they changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use model::{ConfigObject, IssuedToken, Service, TokenRequest, TrustBundle};
use ports::api::runtime_classes::RuntimeClass;
use ports::clock::Clock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::cluster_content::ClusterContent;
use crate::cluster::cluster_objects::ClusterObjects;
use crate::cluster::offline_cache::OfflineCache;

const OBJECTS: &str = "objects";
const TOKENS: &str = "tokens";
const SERVICES: &str = "services";
const RUNTIME_CLASSES: &str = "runtime_classes";
const TRUST_BUNDLES: &str = "trust_bundles";
const SAVE_PERIOD: Duration = Duration::from_secs(2);
/// Time after the first successful list by which every object in use has been requested again.
const SEED_LIFETIME: Duration = Duration::from_secs(60);

pub struct ContentCacheDeps {
    pub objects: Arc<ClusterObjects>,
    pub content: ClusterContent,
    pub offline_cache: OfflineCache,
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled.
pub async fn run(deps: ContentCacheDeps, cancel: CancellationToken) {
    deps.restore().await;
    let mut saved = None;
    let mut listed_at: Option<Instant> = None;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(SAVE_PERIOD) => {}
        }
        if listed_at.is_none() && deps.content.services.is_listed() {
            listed_at = Some(Instant::now());
        }
        if listed_at.is_some_and(|at| at.elapsed() >= SEED_LIFETIME) {
            deps.objects.drop_seeds();
        }
        let current = deps.fingerprint();
        if !saved.as_ref().is_some_and(|saved: &Fingerprint| saved.is_same(&current)) {
            deps.save().await;
            saved = Some(current);
        }
    }
}

/// Identifies the content of the stores. Objects are compared by address, so that their content is not read; the
/// references prevent the addresses from being reused.
struct Fingerprint {
    objects: Vec<Arc<ConfigObject>>,
    rest: u64,
}

impl Fingerprint {
    fn is_same(&self, other: &Self) -> bool {
        let same = |(left, right): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(left, right);
        self.rest == other.rest
            && self.objects.len() == other.objects.len()
            && self.objects.iter().zip(&other.objects).all(same)
    }
}

impl ContentCacheDeps {
    async fn restore(&self) {
        let cache = &self.offline_cache;
        if let Some(set) = cache.load::<Vec<ConfigObject>>(OBJECTS).await {
            self.objects.seed(set.content.into_iter().map(Arc::new).collect());
        }
        if let Some(set) = cache.load::<Vec<(TokenRequest, IssuedToken)>>(TOKENS).await {
            self.content.tokens.seed(set.content);
        }
        if let Some(set) = cache.load::<Vec<Service>>(SERVICES).await {
            self.content.services.seed(set.content);
        }
        if let Some(set) = cache.load::<Vec<(String, String)>>(RUNTIME_CLASSES).await {
            let class = |(name, handler)| RuntimeClass { name, handler };
            self.content.runtime_classes.seed(set.content.into_iter().map(class).collect());
        }
        if let Some(bundles) = &self.content.trust_bundles
            && let Some(set) = cache.load::<Vec<TrustBundle>>(TRUST_BUNDLES).await
        {
            bundles.seed(set.content);
        }
    }

    async fn save(&self) {
        let (cache, now) = (&self.offline_cache, self.clock.now());
        let objects = self.objects.export();
        let objects: Vec<&ConfigObject> = objects.iter().map(AsRef::as_ref).collect();
        cache.save(OBJECTS, &objects, now).await;
        cache.save(TOKENS, &self.content.tokens.export(), now).await;
        cache.save(SERVICES, &self.content.services.export(), now).await;
        let classes = self.content.runtime_classes.export();
        let classes: Vec<_> = classes.into_iter().map(|class| (class.name, class.handler)).collect();
        cache.save(RUNTIME_CLASSES, &classes, now).await;
        if let Some(bundles) = &self.content.trust_bundles {
            cache.save(TRUST_BUNDLES, &bundles.export(), now).await;
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut objects = self.objects.export();
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        let mut hasher = DefaultHasher::new();
        let tokens = self.content.tokens.export().into_iter();
        let mut tokens: Vec<_> = tokens.map(|(request, token)| (request, token.expires_at)).collect();
        tokens.sort();
        tokens.hash(&mut hasher);
        self.content.services.all().hash(&mut hasher);
        self.content.runtime_classes.all().hash(&mut hasher);
        self.content.trust_bundles.as_ref().map(|bundles| bundles.all()).hash(&mut hasher);
        Fingerprint { objects, rest: hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;
    use futures::StreamExt;
    use model::{ObjectKey, ObjectKind, Timestamp, TokenSpec};
    use ports::api::objects::ApiObjects;
    use ports::api::tokens::ApiTokens;
    use ports::api::{ApiError, ApiErrorKind, FeedStream};
    use testkit::fake_clock::FakeClock;

    use super::*;
    use crate::cluster::cluster_objects::ChangeDetectionStrategy;
    use crate::cluster::tokens::Tokens;
    use crate::cluster::watched_set::WatchedSet;
    use crate::test_checkpoints::Files;

    struct UnreachableServer;

    fn unreachable() -> ApiError {
        ApiError { kind: ApiErrorKind::Unreachable, message: "unreachable".into(), retry_after: None }
    }

    #[async_trait]
    impl ApiObjects for UnreachableServer {
        async fn get(&self, _: &ObjectKey) -> Result<ConfigObject, ApiError> {
            Err(unreachable())
        }

        fn watch(&self, _: &ObjectKey) -> FeedStream<ConfigObject> {
            futures::stream::pending().boxed()
        }
    }

    #[async_trait]
    impl ApiTokens for UnreachableServer {
        async fn create(&self, _: &TokenRequest) -> Result<IssuedToken, ApiError> {
            Err(unreachable())
        }
    }

    fn deps(files: &Arc<Files>) -> ContentCacheDeps {
        let (server, clock) = (Arc::new(UnreachableServer), Arc::new(FakeClock::fixed(5)));
        ContentCacheDeps {
            objects: ClusterObjects::new(server.clone(), ChangeDetectionStrategy::Watch).0,
            content: ClusterContent {
                tokens: Arc::new(Tokens::new(server.clone(), clock.clone())),
                services: Arc::new(WatchedSet::new(|service: &Service| service.name.clone())),
                runtime_classes: Arc::new(WatchedSet::new(|class: &RuntimeClass| class.name.clone())),
                certificates: None,
                trust_bundles: Some(Arc::new(WatchedSet::new(|bundle: &TrustBundle| bundle.name.clone()))),
                node: crate::node::node_view::channel().1,
            },
            offline_cache: OfflineCache::new(files.clone()),
            clock,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn restores_content_saved_by_the_previous_agent() {
        let files = Arc::new(Files::default());
        let first = deps(&files);
        let key = ObjectKey { kind: ObjectKind::Secret, namespace: "ns".into(), name: "s".into() };
        let object = ConfigObject {
            key,
            uid: "uid-s".into(),
            data: BTreeMap::from([("k".to_owned(), vec![0, 255])]),
            binary_data: BTreeMap::new(),
            secret_type: "Opaque".into(),
            immutable: true,
        };
        let request = TokenRequest {
            namespace: "ns".into(),
            account: "default".into(),
            account_uid: None,
            pod_name: "p".into(),
            pod_uid: "u".into(),
            wish: TokenSpec { audiences: vec![], expiration_seconds: Some(3607) },
        };
        let token = IssuedToken {
            token: "t".into(),
            expires_at: Timestamp::from_secs(3600),
            expiration_seconds: 3607,
        };
        let service =
            Service { namespace: "default".into(), name: "kubernetes".into(), ..Service::default() };
        first.objects.seed(vec![Arc::new(object.clone())]);
        first.content.tokens.seed(vec![(request.clone(), token.clone())]);
        first.content.services.seed(vec![service.clone()]);
        let class = RuntimeClass { name: "n".into(), handler: "h".into() };
        first.content.runtime_classes.seed(vec![class.clone()]);
        let bundle = TrustBundle { name: "b".into(), certificates: "pem".into(), ..TrustBundle::default() };
        first.content.trust_bundles.iter().for_each(|bundles| bundles.seed(vec![bundle.clone()]));
        let _ = tokio::time::timeout(SAVE_PERIOD * 2, run(first, CancellationToken::new())).await;

        let second = deps(&files);
        second.restore().await;
        assert!(second.objects.export().iter().map(|object| (**object).clone()).eq([object]));
        assert_eq!(second.content.tokens.export(), [(request, token)]);
        assert_eq!(second.content.services.export(), [service]);
        assert_eq!(second.content.runtime_classes.export(), [class]);
        assert_eq!(second.content.trust_bundles.map(|bundles| bundles.export()), Some(vec![bundle]));
    }
}

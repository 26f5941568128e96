//! Remembers what pods take from the cluster, so that they can start while the API server is away.
//!
//! ConfigMaps, Secrets, tokens, services, runtime classes and trust bundles of the last agent are handed to their stores at the start;
//! the stores use them only while the server cannot be asked. From then on what they hold is looked at every few
//! seconds, without reading their content, and kept when it changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use model::{ConfigObject, IssuedToken, Service, TokenRequest, TrustBundle};
use ports::api::runtime_classes::RuntimeClass;
use ports::clock::Clock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster_objects::ClusterObjects;
use crate::cluster_supplies::ClusterSupplies;
use crate::memory::Memory;
use crate::objects::SavedObject;

const OBJECTS: &str = "objects";
const TOKENS: &str = "tokens";
const SERVICES: &str = "services";
const RUNTIME_CLASSES: &str = "runtime_classes";
const TRUST_BUNDLES: &str = "trust_bundles";
/// How often the stores are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How long after the API server's return everything that is still used has been asked for again.
const SETTLED: Duration = Duration::from_secs(60);

/// What the stage needs.
pub struct Parts {
    /// ConfigMaps and Secrets.
    pub objects: Arc<ClusterObjects>,
    /// The rest.
    pub supplies: ClusterSupplies,
    /// Where it is kept.
    pub memory: Memory,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    parts.restore().await;
    let mut kept = None;
    let mut listed_at: Option<Instant> = None;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if listed_at.is_none() && parts.supplies.services.is_listed() {
            listed_at = Some(Instant::now());
        }
        if listed_at.is_some_and(|at| at.elapsed() >= SETTLED) {
            parts.objects.forget_seeds();
        }
        let seen = parts.look();
        if !kept.as_ref().is_some_and(|kept: &Look| kept.is_same(&seen)) {
            parts.keep().await;
            kept = Some(seen);
        }
    }
}

/// What the stores held at a look. Objects are told apart by where they are, so that no content is read; holding them
/// keeps their places from being used again.
struct Look {
    objects: Vec<Arc<ConfigObject>>,
    rest: u64,
}

impl Look {
    fn is_same(&self, other: &Self) -> bool {
        let same = |(own, others): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(own, others);
        self.rest == other.rest
            && self.objects.len() == other.objects.len()
            && self.objects.iter().zip(&other.objects).all(same)
    }
}

impl Parts {
    async fn restore(&self) {
        let memory = &self.memory;
        if let Some(kept) = memory.recall::<Vec<SavedObject>>(OBJECTS).await {
            let objects = kept.content.into_iter().map(|object| Arc::new(ConfigObject::from(object)));
            self.objects.seed(objects.collect());
        }
        if let Some(kept) = memory.recall::<Vec<(TokenRequest, IssuedToken)>>(TOKENS).await {
            self.supplies.tokens.seed(kept.content);
        }
        if let Some(kept) = memory.recall::<Vec<Service>>(SERVICES).await {
            self.supplies.services.seed(kept.content);
        }
        if let Some(kept) = memory.recall::<Vec<(String, String)>>(RUNTIME_CLASSES).await {
            let class = |(name, handler)| RuntimeClass { name, handler };
            self.supplies.runtime_classes.seed(kept.content.into_iter().map(class).collect());
        }
        if let Some(bundles) = &self.supplies.trust_bundles
            && let Some(kept) = memory.recall::<Vec<TrustBundle>>(TRUST_BUNDLES).await
        {
            bundles.seed(kept.content);
        }
    }

    async fn keep(&self) {
        let (memory, now) = (&self.memory, self.clock.now());
        let objects: Vec<_> =
            self.objects.known().iter().map(|object| SavedObject::from(&**object)).collect();
        memory.keep(OBJECTS, &objects, now).await;
        memory.keep(TOKENS, &self.supplies.tokens.known(), now).await;
        memory.keep(SERVICES, &self.supplies.services.known(), now).await;
        let classes = self.supplies.runtime_classes.known();
        let classes: Vec<_> = classes.into_iter().map(|class| (class.name, class.handler)).collect();
        memory.keep(RUNTIME_CLASSES, &classes, now).await;
        if let Some(bundles) = &self.supplies.trust_bundles {
            memory.keep(TRUST_BUNDLES, &bundles.known(), now).await;
        }
    }

    fn look(&self) -> Look {
        let mut objects = self.objects.known();
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        let mut hasher = DefaultHasher::new();
        let mut tokens: Vec<_> = self
            .supplies
            .tokens
            .known()
            .into_iter()
            .map(|(request, token)| (request, token.expires_at))
            .collect();
        tokens.sort();
        for (request, expires_at) in tokens {
            (request, expires_at.as_nanos()).hash(&mut hasher);
        }
        for service in self.supplies.services.all() {
            (&service.namespace, &service.name, &service.cluster_ip).hash(&mut hasher);
            for port in &service.ports {
                (&port.name, &port.protocol, port.port).hash(&mut hasher);
            }
        }
        for class in self.supplies.runtime_classes.all() {
            (&class.name, &class.handler).hash(&mut hasher);
        }
        for bundle in self.supplies.trust_bundles.iter().flat_map(|bundles| bundles.all()) {
            bundle.hash(&mut hasher);
        }
        Look { objects, rest: hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;
    use futures::StreamExt;
    use model::{ObjectKey, ObjectKind, Timestamp, TokenWish};
    use ports::api::objects::ApiObjects;
    use ports::api::tokens::ApiTokens;
    use ports::api::{ApiError, ApiErrorKind, FeedStream};

    use super::*;
    use crate::cluster_objects::Strategy;
    use crate::followed::Followed;
    use crate::test_checkpoints::Files;
    use crate::tokens::Tokens;

    /// No server, and a clock that stands.
    struct World;

    fn away() -> ApiError {
        ApiError { kind: ApiErrorKind::Unreachable, message: "away".into(), retry_after: None }
    }

    #[async_trait]
    impl ApiObjects for World {
        async fn get(&self, _: &ObjectKey) -> Result<ConfigObject, ApiError> {
            Err(away())
        }

        fn watch(&self, _: &ObjectKey) -> FeedStream<ConfigObject> {
            futures::stream::pending().boxed()
        }
    }

    #[async_trait]
    impl ApiTokens for World {
        async fn create(&self, _: &TokenRequest) -> Result<IssuedToken, ApiError> {
            Err(away())
        }
    }

    impl Clock for World {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(5)
        }
    }

    fn parts(files: &Arc<Files>) -> Parts {
        let world = Arc::new(World);
        Parts {
            objects: ClusterObjects::new(world.clone(), Strategy::Watch).0,
            supplies: ClusterSupplies {
                tokens: Arc::new(Tokens::new(world.clone(), world.clone())),
                services: Arc::new(Followed::new(|service: &Service| service.name.clone())),
                runtime_classes: Arc::new(Followed::new(|class: &RuntimeClass| class.name.clone())),
                certificates: None,
                trust_bundles: Some(Arc::new(Followed::new(|bundle: &TrustBundle| bundle.name.clone()))),
                node: crate::node_view::channel().1,
            },
            memory: Memory::new(files.clone()),
            clock: world,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_agent_held_the_next_one_has() {
        let files = Arc::new(Files::default());
        let first = parts(&files);
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
            wish: TokenWish { audiences: vec![], expiration_seconds: Some(3607) },
        };
        let token = IssuedToken {
            token: "t".into(),
            expires_at: Timestamp::from_secs(3600),
            expiration_seconds: 3607,
        };
        let service =
            Service { namespace: "default".into(), name: "kubernetes".into(), ..Service::default() };
        first.objects.seed(vec![Arc::new(object.clone())]);
        first.supplies.tokens.seed(vec![(request.clone(), token.clone())]);
        first.supplies.services.seed(vec![service.clone()]);
        let class = RuntimeClass { name: "n".into(), handler: "h".into() };
        first.supplies.runtime_classes.seed(vec![class.clone()]);
        let bundle = TrustBundle { name: "b".into(), certificates: "pem".into(), ..TrustBundle::default() };
        first.supplies.trust_bundles.iter().for_each(|bundles| bundles.seed(vec![bundle.clone()]));
        let _ = tokio::time::timeout(LOOK * 2, run(first, CancellationToken::new())).await;

        let second = parts(&files);
        second.restore().await;
        assert!(second.objects.known().iter().map(|held| (**held).clone()).eq([object]));
        assert_eq!(second.supplies.tokens.known(), [(request, token)]);
        assert_eq!(second.supplies.services.known(), [service]);
        assert_eq!(second.supplies.runtime_classes.known(), [class]);
        assert_eq!(second.supplies.trust_bundles.map(|bundles| bundles.known()), Some(vec![bundle]));
    }
}

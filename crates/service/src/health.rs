//! Whether this server can do its work, part by part. A part is a probe: the store and the registry are always there, others are added
//! where they are wired. Every probe has the same time; one that takes longer has failed.

use std::{future::Future, pin::Pin, sync::Arc};

use sabakan_store::repo::schema;
use tokio::time::timeout;

use crate::{Foundation, ServiceError, error_chain, limits, nodes};

/// The answer of a probe that is under way.
pub type HealthProbeFuture<'a> = Pin<Box<dyn Future<Output = Result<(), HealthProblem>> + Send + 'a>>;

/// One part of the server that can be looked at. It must not change anything a user could notice.
pub trait HealthProbe: Send + Sync {
    /// One word, the same for ever: people and monitors search for it.
    fn name(&self) -> &'static str;

    /// Whether the server is unhealthy without this part. If not, a problem is shown and the server still counts as healthy.
    fn is_needed(&self) -> bool {
        true
    }

    /// Looks. Called for every request for the health: cheap, or remembered for a moment.
    fn look(&self) -> HealthProbeFuture<'_>;
}

/// Why a part does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthProblem {
    /// For everybody who can reach the server: no address, no secret, and what to do if that is known.
    pub public: String,
    /// For the log.
    pub cause: Option<String>,
}

impl HealthProblem {
    /// A problem that can be told to everybody as it is.
    pub fn new(public: impl Into<String>) -> HealthProblem {
        HealthProblem { public: public.into(), cause: None }
    }
}

impl From<ServiceError> for HealthProblem {
    fn from(error: ServiceError) -> HealthProblem {
        HealthProblem { public: error.to_string(), cause: Some(error_chain(&error)) }
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthPart {
    /// Which part.
    pub name: &'static str,
    /// Whether the server is unhealthy without it.
    pub needed: bool,
    /// What is wrong; `None`: nothing.
    pub problem: Option<HealthProblem>,
}

/// What all probes found, in the order they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport(pub Vec<HealthPart>);

impl HealthReport {
    /// Whether every part that is needed works.
    pub fn is_healthy(&self) -> bool {
        self.0.iter().all(|part| part.problem.is_none() || !part.needed)
    }
}

/// Looks at every part.
pub struct Health {
    probes: Vec<Arc<dyn HealthProbe>>,
}

impl Health {
    /// Looks at what every request needs: the store and the registry in memory.
    pub fn new(on: Arc<Foundation>) -> Health {
        Health {
            probes: vec![
                Arc::new(StoreProbe(Arc::clone(&on))),
                Arc::new(RegistryProbe(Arc::clone(&on))),
                Arc::new(ProvisioningProbe(on)),
            ],
        }
    }

    /// The same, with one more part.
    pub fn with(mut self, probe: impl HealthProbe + 'static) -> Health {
        self.probes.push(Arc::new(probe));
        self
    }

    /// Looks at all parts at once, so that the slowest alone decides how long it takes.
    pub async fn check(&self) -> HealthReport {
        let looks: Vec<_> = self.probes.iter().map(|probe| tokio::spawn(look(Arc::clone(probe)))).collect();
        let mut parts = Vec::with_capacity(looks.len());
        for (look, probe) in looks.into_iter().zip(&self.probes) {
            let broken = |_| Some(HealthProblem::new(format!("looking at the {} failed", probe.name())));
            let problem = look.await.unwrap_or_else(broken);
            parts.push(HealthPart { name: probe.name(), needed: probe.is_needed(), problem });
        }
        HealthReport(parts)
    }
}

async fn look(probe: Arc<dyn HealthProbe>) -> Option<HealthProblem> {
    match timeout(limits::HEALTH_TIME_MAX, probe.look()).await {
        Ok(looked) => looked.err(),
        Err(_) => {
            let seconds = limits::HEALTH_TIME_MAX.as_secs();
            Some(HealthProblem::new(format!("the {} did not answer within {seconds} s", probe.name())))
        }
    }
}

/// The store takes writes and answers reads.
struct StoreProbe(Arc<Foundation>);

impl HealthProbe for StoreProbe {
    fn name(&self) -> &'static str {
        "store"
    }

    fn look(&self) -> HealthProbeFuture<'_> {
        Box::pin(async {
            self.0.store.check_writable().await.map_err(ServiceError::from)?;
            schema::probe(&*self.0.store, &self.0.keys).await.map_err(ServiceError::from)?;
            Ok(())
        })
    }
}

/// What is in memory keeps up with the store.
struct RegistryProbe(Arc<Foundation>);

impl HealthProbe for RegistryProbe {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn look(&self) -> HealthProbeFuture<'_> {
        Box::pin(async {
            self.0.view.read().await.map_err(ServiceError::from)?;
            Ok(())
        })
    }
}

/// Somebody does the provisioning work that waits. Not needed: every other request is answered as well, and a load balancer that
/// took this server out would only take the way to ask with it.
struct ProvisioningProbe(Arc<Foundation>);

impl HealthProbe for ProvisioningProbe {
    fn name(&self) -> &'static str {
        "provisioning"
    }

    fn is_needed(&self) -> bool {
        false
    }

    fn look(&self) -> HealthProbeFuture<'_> {
        Box::pin(async {
            // What is known here is enough; whether that is current, the registry tells.
            match nodes::stranded(&self.0.view.latest_known(), self.0.clock.now()) {
                0 => Ok(()),
                waiting => Err(HealthProblem::new(format!("{}; {waiting} nodes have work waiting", nodes::NO_WORKERS))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::ipam::OutsidePool;
    use sabakan_store::{embedded::EmbeddedStore, keys::Keys};

    use super::*;
    use crate::SystemClock;

    struct Sick {
        needed: bool,
        answers: bool,
    }

    impl HealthProbe for Sick {
        fn name(&self) -> &'static str {
            "sick"
        }

        fn is_needed(&self) -> bool {
            self.needed
        }

        fn look(&self) -> HealthProbeFuture<'_> {
            Box::pin(async {
                if !self.answers {
                    std::future::pending::<()>().await;
                }
                Err(HealthProblem::new("it is sick"))
            })
        }
    }

    #[tokio::test]
    async fn a_part_that_is_needed_makes_the_server_unhealthy_and_says_why() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Arc::new(EmbeddedStore::open(&dir.path().join("s.db")).expect("a store"));
        let keys = Keys::new("/sabakan/", "/states/");
        let on = Foundation::open(store, keys, Arc::new(SystemClock), OutsidePool::Refuse, "here".into()).await;
        let on = Arc::new(on.expect("a foundation"));
        let check = async |probe: Option<Sick>, healthy: bool, expected: &str| {
            let health = Health::new(Arc::clone(&on));
            let health = if let Some(probe) = probe { health.with(probe) } else { health };
            let report = health.check().await;
            assert_eq!(report.is_healthy(), healthy, "{report:?}");
            let text = |part: &HealthPart| {
                let problem = part.problem.as_ref().map_or("ok", |problem| problem.public.as_str());
                format!("{}: {problem}", part.name)
            };
            assert_eq!(report.0.iter().map(text).collect::<Vec<_>>().join(", "), expected);
        };
        check(None, true, "store: ok, registry: ok, provisioning: ok").await;
        check(
            Some(Sick { needed: true, answers: true }),
            false,
            "store: ok, registry: ok, provisioning: ok, sick: it is sick",
        )
        .await;
        check(
            Some(Sick { needed: false, answers: true }),
            true,
            "store: ok, registry: ok, provisioning: ok, sick: it is sick",
        )
        .await;
        let late = "store: ok, registry: ok, provisioning: ok, sick: the sick did not answer within 1 s";
        check(Some(Sick { needed: true, answers: false }), false, late).await;
    }
}

//! The embedded backend keeps every promise of the suite.

use std::sync::Arc;

use sabakan_store::{Store, conformance, embedded::EmbeddedStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_passes_the_suite() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("sabakan.db")).unwrap());
    conformance::run_all(store, "/test/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_agree_with_the_model() {
    for seed in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("sabakan.db")).unwrap());
        conformance::random_operations(store, "/test/", seed, 250).await;
    }
}

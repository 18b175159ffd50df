//! Asks the API server as its administrator.

use std::{ops::Deref, path::Path, sync::Arc};

use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// A client with the threads it runs on.
#[derive(Clone)]
pub struct Api {
    asker: Asker,
    runtime: Arc<Runtime>,
}

/// A client alone, for those who run on its threads: the last of them must not be the one that ends the threads.
#[derive(Clone)]
pub struct Asker(Client);

impl Deref for Api {
    type Target = Asker;

    fn deref(&self) -> &Asker {
        &self.asker
    }
}

impl Api {
    /// Contacts nobody.
    pub fn new(kubeconfig: &Path) -> Api {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a kubeconfig");
            config.default_retry = false;
            Client::try_from(config).expect("a client")
        });
        Api { asker: Asker(client), runtime: Arc::new(runtime) }
    }

    /// Waits on the calling thread.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Goes on beside the calling thread, until the process or the client ends.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(future);
    }
}

impl Asker {
    /// Status code and document, which is null where it is none.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value), String> {
        // Lists of objects are merged by their keys, as kubelets and kubectl do it.
        let kind = if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
        let content = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(Body::from(content)).map_err(|error| error.to_string())?;
        let answer = self.0.send(request).await.map_err(|error| error.to_string())?;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

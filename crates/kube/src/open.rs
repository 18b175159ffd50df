//! From a kubeconfig, or the files a pod is given, to a client. Refuses what a server must not do: trust anybody, run programs for a
//! token, send a token in the open.

use std::{net::IpAddr, path::PathBuf};

use http::{HeaderValue, header::USER_AGENT};
use http_body_util::Limited;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, DynBody},
    config::{AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use sabakan_drivers::kubernetes::KubernetesError;
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::limits;

/// Who asks, in the audit log of the API server and in what it measures per client.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("sabakan/", env!("CARGO_PKG_VERSION")));

/// Where the settings come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The current context of a kubeconfig file.
    Kubeconfig(PathBuf),
    /// The service account of the pod this program runs in.
    InCluster,
}

/// Reads the settings and prepares a client. Contacts nobody.
pub async fn client(source: &Source) -> Result<Client, KubernetesError> {
    let mut config = match source {
        Source::Kubeconfig(path) => {
            let options = KubeConfigOptions::default();
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| unusable(&error))?
        }
        Source::InCluster => Config::incluster().map_err(|error| in_cluster(&error))?,
    };
    check(&config)?;
    config.connect_timeout = Some(limits::CONNECT_MAX);
    // Whoever calls knows whether and when to try again.
    config.default_retry = false;
    let bounded = MapResponseLayer::new(|answer: http::Response<Box<DynBody>>| {
        answer.map(|body| Limited::new(body, limits::ANSWER_BYTES_MAX))
    });
    let named = MapRequestLayer::new(|mut request: http::Request<Body>| {
        request.headers_mut().insert(USER_AGENT, AGENT);
        request
    });
    match ClientBuilder::try_from(config) {
        Ok(builder) => Ok(builder.with_layer(&bounded).with_layer(&named).build()),
        Err(kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. }) => {
            Err(settings("a proxy is not supported; remove `proxy-url`"))
        }
        Err(error) => {
            tracing::debug!(error = %error, "kubernetes settings refused");
            Err(settings("certificates, key or token in it cannot be used"))
        }
    }
}

fn settings(reason: impl Into<String>) -> KubernetesError {
    KubernetesError::Settings(reason.into())
}

fn check(config: &Config) -> Result<(), KubernetesError> {
    if config.accept_invalid_certs {
        let reason = "`insecure-skip-tls-verify` would give the credentials to whoever answers; name the authority in \
                      `certificate-authority` instead";
        return Err(settings(reason));
    }
    let AuthInfo { exec, auth_provider, .. } = &config.auth_info;
    if exec.is_some() || auth_provider.is_some() {
        let reason = "`exec` and `auth-provider` run programs; give the token of a service account (`token` or `tokenFile`) or a \
                      client certificate";
        return Err(settings(reason));
    }
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if config.cluster_url.scheme_str() != Some("https") && !is_loopback {
        return Err(settings("the server must be reached over `https`; plain HTTP is for loopback addresses only"));
    }
    Ok(())
}

/// Texts of our own: that of a parser shows the lines around the error, and a token may stand in one.
fn unusable(error: &KubeconfigError) -> KubernetesError {
    let file = "the kubeconfig";
    settings(match error {
        KubeconfigError::ReadConfig(cause, path) => format!("{} cannot be read: {}", path.display(), cause.kind()),
        KubeconfigError::CurrentContextNotSet => format!("{file} has no `current-context`"),
        KubeconfigError::LoadContext(name) => format!("{file} has no context {name:?}"),
        KubeconfigError::LoadClusterOfContext(name) => format!("{file} has no cluster {name:?}"),
        KubeconfigError::MissingClusterUrl => format!("{file} names no `server`"),
        KubeconfigError::ParseClusterUrl(_) => format!("`server` of {file} is not a URL"),
        KubeconfigError::ParseProxyUrl(_) => format!("`proxy-url` of {file} is not a URL"),
        KubeconfigError::LoadCertificateAuthority(_) => format!("`certificate-authority` of {file} cannot be read"),
        KubeconfigError::LoadClientCertificate(_) => format!("`client-certificate` of {file} cannot be read"),
        KubeconfigError::LoadClientKey(_) => format!("`client-key` of {file} cannot be read"),
        KubeconfigError::ParseCertificates(_) => format!("a certificate of {file} is not PEM"),
        _ => format!("{file} is not in the form of one"),
    })
}

fn in_cluster(error: &InClusterError) -> KubernetesError {
    tracing::debug!(error = %error, "no service account");
    settings("this program does not run in a pod with a service account; give a kubeconfig file")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Opens a kubeconfig whose parts are as given.
    async fn open(cluster: &str, user: &str) -> Result<(), String> {
        // Whoever runs first installs it; the others find it there.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: main\ncontexts:\n- name: main\n  context: {{cluster: c, user: u}}\n\
             clusters:\n- name: c\n  cluster: {cluster}\nusers:\n- name: u\n  user: {user}\n"
        );
        fs::write(&path, text).unwrap();
        client(&Source::Kubeconfig(path)).await.map(|_| ()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn kubeconfigs_that_will_do() {
        for (cluster, user) in [
            ("{server: 'https://192.0.2.1:6443'}", "{token: secret}"),
            ("{server: 'http://127.0.0.1:8001'}", "{}"),
            ("{server: 'http://[::1]:8001'}", "{}"),
            ("{server: 'http://localhost:8001'}", "{}"),
        ] {
            assert_eq!(open(cluster, user).await, Ok(()), "{cluster} {user}");
        }
    }

    #[tokio::test]
    async fn kubeconfigs_that_will_not() {
        let secure = "{server: 'https://192.0.2.1:6443'}";
        for (cluster, user, expected) in [
            ("{server: 'http://192.0.2.1:8001'}", "{token: s3cr3t}", "must be reached over `https`"),
            ("{server: 'https://x', insecure-skip-tls-verify: true}", "{token: s3cr3t}", "insecure-skip-tls-verify"),
            ("{server: 'https://x', proxy-url: 'http://proxy'}", "{token: s3cr3t}", "proxy is not supported"),
            (secure, "{exec: {apiVersion: client.authentication.k8s.io/v1, command: s3cr3t}}", "run programs"),
            (secure, "{auth-provider: {name: oidc, config: {}}}", "run programs"),
            (secure, "{tokenFile: /nowhere}", "cannot be used"),
            (secure, "{token: [s3cr3t, s3cr3t]}", "not in the form of one"),
            (secure, "{client-certificate: /nowhere, client-key: /nowhere}", "cannot be used"),
            ("{certificate-authority: /nowhere, server: 'https://x'}", "{}", "`certificate-authority`"),
            ("{}", "{}", "names no `server`"),
        ] {
            let error = open(cluster, user).await.expect_err(cluster);
            assert!(error.contains(expected), "{cluster} {user}: {error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let source = Source::Kubeconfig(PathBuf::from("/nowhere/kubeconfig"));
        let error = client(&source).await.err().expect("there is none").to_string();
        assert!(error.contains("/nowhere/kubeconfig") && error.contains("not found"), "{error}");
    }
}

//! Conversations with an agent over HTTP: what is sent, what is believed, what is given up.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::RawQuery,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[test]
fn commands_tell_which_step_they_run_and_how_it_goes() {
    let command = |name: &str, status: &str, error: Value| {
        json!({
            "command_name": name,
            "command_params": { "step": { "interface": "deploy", "step": "erase_devices" } },
            "command_status": status,
            "command_error": error,
        })
    };
    let check = |name: &str, status: &str, error: Value, step: Option<&str>, state: TaskState| {
        let command = command(name, status, error);
        assert_eq!((step_of(&command).as_deref(), state_of(&command)), (step, state), "{command}");
    };
    let erase = Some("deploy.erase_devices");
    check("execute_clean_step", "RUNNING", json!(null), erase, TaskState::Running(String::new()));
    check("clean.execute_clean_step", "SUCCEEDED", json!(null), erase, TaskState::Done(Finished::default()));
    check("execute_service_step", "FAILED", json!("no\ndisk"), erase, TaskState::Failed("no disk".to_owned()));
    let details = json!({ "code": 500, "details": "it burns" });
    check("execute_deploy_step", "FAILED", details, erase, TaskState::Failed("it burns".to_owned()));
    check("prepare_image", "RUNNING", json!(null), Some("deploy.write_image"), TaskState::Running(String::new()));
    check("get_clean_steps", "SUCCEEDED", json!(null), None, TaskState::Done(Finished::default()));
    assert!(matches!(state_of(&json!({})), TaskState::Failed(_)));
    let other = state_of(&command("x", "CLEAN_VERSION_MISMATCH", json!(null)));
    assert!(matches!(other, TaskState::Failed(text) if text.contains("another version")));
}

#[test]
fn offers_are_read_with_tolerance() {
    let result = json!({
        "clean_steps": {
            "A": [{ "step": "erase_devices", "priority": 10, "interface": "deploy", "abortable": true }, { "priority": 1 }],
            "B": [{ "step": "x", "interface": "moon" }, { "step": "y", "priority": -1 }],
            "C": "nonsense",
        },
        "hardware_manager_version": { "A": "1.2", "B": { "nested": [] }, "C": 7, "D": "x".repeat(1_000) },
    });
    let offer = read_offer(&result, "clean").expect("an offer");
    let found: Vec<(&str, u32)> = offer.steps.iter().map(|step| (step.name.as_str(), step.priority)).collect();
    assert_eq!(found, [("erase_devices", 10), ("y", 0)]);
    assert_eq!((&offer.managers["A"], offer.managers.len()), (&json!("1.2"), 2), "texts are kept, nothing else");
    assert_eq!(offer.managers["D"].as_str().map(str::len), Some(limits::REASON_CHARS_MAX));
    let many: serde_json::Map<String, Value> =
        (0..=limits::MANAGERS_MAX).map(|n| (n.to_string(), json!("1"))).collect();
    assert!(read_offer(&json!({ "clean_steps": {}, "hardware_manager_version": many }), "clean").is_err());
    assert!(read_offer(&json!({}), "clean").is_err() && read_offer(&json!({ "clean_steps": 1 }), "clean").is_err());
}

#[test]
fn an_image_needs_a_place_and_a_checksum() {
    let node = |info: Value| json!({ "uuid": "u", "instance_info": info });
    for bad in [
        json!({}),
        json!({ "image_source": "http://i/x.raw" }),
        json!({ "image_source": "file:///x.raw", "image_checksum": "c" }),
        json!({ "image_source": "b1ff0f0e-0000-4000-8000-000000000001", "image_checksum": "c" }),
        json!({ "image_source": "http://i/x.raw", "image_os_hash_algo": "sha256" }),
    ] {
        assert!(image_info(&node(bad.clone())).is_err(), "{bad}");
    }
    let hash = json!({ "image_source": "http://i/x.raw", "image_os_hash_algo": "sha256", "image_os_hash_value": "v" });
    let image = image_info(&node(hash)).expect("an image");
    assert_eq!((&image["urls"][0], &image["os_hash_value"]), (&json!("http://i/x.raw"), &json!("v")));
}

type Script = Arc<Mutex<Vec<(u16, String)>>>;

/// An agent that answers from a list, last first, and what it was asked.
async fn scripted(answers: Vec<(u16, String)>) -> (String, Arc<Mutex<Vec<String>>>) {
    let (script, asked): (Script, _) = (Arc::new(Mutex::new(answers)), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&asked);
    let answer = move |RawQuery(query): RawQuery| {
        heard.lock().expect("whole").push(query.unwrap_or_default());
        let (status, body) = script.lock().expect("whole").pop().expect("one more answer");
        async move { (StatusCode::from_u16(status).expect("a status"), body).into_response() as Response }
    };
    let app = Router::new().route("/v1/commands/", get(answer.clone()).post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, asked)
}

fn agent(url: &str) -> Agent {
    let pace = Pace { connect: Duration::from_secs(5), total: Duration::from_secs(5), pause: Duration::from_millis(1) };
    let address = AgentAddress { url: url.to_owned(), token: Secret::new("t&k/n"), verify_ca: None };
    let errand = Errand { flow: Flow::Clean, node: json!({}), ports: json!([]), managers: Object::new() };
    Agent::new(address, errand, pace).expect("an agent")
}

#[tokio::test]
async fn an_agent_that_runs_the_step_already_is_not_asked_twice() {
    let running = json!({ "commands": [{
        "command_name": "execute_clean_step",
        "command_params": { "step": { "interface": "deploy", "step": "erase_devices" } },
        "command_status": "RUNNING",
    }] });
    let answers = vec![(200, running.to_string()), (409, "{}".to_owned())];
    let (url, asked) = scripted(answers).await;
    agent(&url).start("deploy.erase_devices", &Args::new()).await.expect("it runs");
    assert_eq!(*asked.lock().expect("whole"), ["wait=false&agent_token=t%26k%2Fn", "agent_token=t%26k%2Fn"]);
    let (url, _) = scripted(vec![(200, running.to_string()), (409, "{}".to_owned())]).await;
    let refused = agent(&url).start("deploy.burnin_cpu", &Args::new()).await.expect_err("it is busy");
    assert!(matches!(refused, DriverError::Rejected { .. }), "{refused}");
}

#[tokio::test]
async fn what_agents_answer_is_never_believed_blindly() {
    for (status, body, expected) in [
        (200, "[]", "no JSON object"),
        (200, "{}", "there is no list"),
        (200, "{\"commands\": 7}", "there is no list"),
        (401, "{}", "does not accept its token"),
        (404, "{\"faultstring\": \"where?\"}", "where?"),
        (302, "", "HTTP 302"),
    ] {
        let (url, _) = scripted(vec![(status, body.to_owned())]).await;
        let error = agent(&url).status().await.expect_err("no answer to believe").to_string();
        assert!(error.contains(expected) && !error.contains("127.0.0.1") && !error.contains("t&k"), "{error}");
    }
    let (url, _) = scripted(vec![(200, " ".repeat(limits::BODY_BYTES_MAX + 1))]).await;
    assert!(agent(&url).status().await.expect_err("too large").to_string().contains("larger"));
}

#[tokio::test]
async fn a_silent_agent_is_tried_a_few_times_and_named_without_its_address() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let error = agent(&url).status().await.expect_err("nobody there");
    assert!(matches!(error, DriverError::Unreachable(_)), "{error}");
    let text = error.to_string();
    assert!(!text.contains("127.0.0.1") && !text.contains("token") && !text.contains("t%26k"), "{text}");
}

#[test]
fn certificates_are_looked_at() {
    assert!(check_certificate("").is_err() && check_certificate("-----BEGIN CERTIFICATE-----\nx").is_err());
    let made = rcgen::generate_simple_self_signed(vec!["192.0.2.9".to_owned()]).expect("a certificate");
    assert_eq!(check_certificate(&made.cert.pem()), Ok(()));
    assert!(check_certificate(&made.cert.pem().repeat(200)).is_err());
}

/// An agent behind TLS that answers every request with an empty list; its certificate.
async fn behind_tls() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.expect("a configuration")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
                head.push(byte[0]);
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 16\r\nconnection: close\r\n\r\n{\"commands\": []}";
            let _gone = stream.write_all(answer.as_bytes()).await;
            let _gone = stream.shutdown().await;
        }
    });
    (url, made.cert.pem())
}

#[tokio::test]
async fn behind_tls_only_the_certificate_it_announced_is_believed() {
    let (url, pem) = behind_tls().await;
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate").cert.pem();
    let with = |verify_ca: &str| {
        let address = AgentAddress { url: url.clone(), token: Secret::new("t"), verify_ca: Some(verify_ca.to_owned()) };
        let errand = Errand { flow: Flow::Clean, node: json!({}), ports: json!([]), managers: Object::new() };
        let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
        Agent::new(address, errand, pace).expect("an agent")
    };
    assert_eq!(with(&pem).status().await, Ok(None));
    let refused = with(&other).status().await.expect_err("another certificate").to_string();
    assert!(refused.contains("certificate") && !refused.contains("127.0.0.1"), "{refused}");
}

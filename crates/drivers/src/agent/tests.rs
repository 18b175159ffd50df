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

/// What the real agent answered, by what was noted about it.
fn recorded(note: &str) -> (u16, String) {
    let lines = include_str!("../../tests/data/recorded-agent.jsonl").lines();
    let rows = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let row = rows.into_iter().find(|row| row["note"] == note).unwrap_or_else(|| panic!("{note} was not recorded"));
    let status = row["status"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status");
    (status, row["answer"].to_string())
}

/// The command of a recorded answer.
fn command(note: &str) -> Value {
    serde_json::from_str(&recorded(note).1).expect("JSON")
}

/// The last command of a recorded list.
fn last_of(note: &str) -> Value {
    command(note)["commands"].as_array().and_then(|all| all.last()).expect("a command").clone()
}

const METADATA: &str = "deploy.erase_devices_metadata";

#[test]
fn recorded_commands_tell_how_they_go_and_at_the_end_which_step_they_ran() {
    let check = |command: &Value, step: Option<&str>, state: &str| {
        assert!(command.get("command_params").is_none(), "agents do not say what they were given: {command}");
        let found = match state_of(command) {
            TaskState::Running(_) => "running".to_owned(),
            TaskState::Done(_) => "done".to_owned(),
            TaskState::Failed(reason) => reason,
        };
        assert_eq!(step_named(command).as_deref(), step, "{command}");
        assert!(found.contains(state), "{found:?}, expected {state:?}");
    };
    check(&command("a step begins"), None, "running");
    check(&command("by id while it runs"), None, "running");
    check(&command("by id when it ended"), Some(METADATA), "done");
    check(&last_of("list after other versions"), None, "another version");
    check(&command("unknown step"), None, "Could not find method: nonsense");
    check(&last_of("list while the image is written"), None, "running");
    check(&last_of("list after a wrong checksum"), None, "checksum");
    check(&last_of("list after the boot loader"), None, "done");
    check(&last_of("list at the end"), Some(METADATA), "done");
    assert!(matches!(state_of(&json!({})), TaskState::Failed(_)));
    assert!(matches!(state_of(&json!({ "command_error": "no\ndisk" })), TaskState::Failed(text) if text == "no disk"));
    // What ended was another step: that says nothing about this one.
    assert!(matches!(judged(&last_of("list at the end"), METADATA), TaskState::Done(_)));
    assert!(matches!(judged(&last_of("list at the end"), "deploy.erase_devices"), TaskState::Failed(_)));
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
    let app = Router::new().route("/v1/commands/", get(answer.clone()).post(answer.clone()));
    let app = app.route("/v1/commands/{id}", get(answer));
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

/// Answers in the order they are given.
async fn replay(notes: &[&str]) -> (Agent, Arc<Mutex<Vec<String>>>) {
    let (url, asked) = scripted(notes.iter().rev().map(|note| recorded(note)).collect()).await;
    (agent(&url), asked)
}

const ID: &str = "27374b5e-b051-4b84-a9e6-997ecb0df793";

#[tokio::test]
async fn a_recorded_step_runs_and_ends_by_the_name_the_agent_gave_it() {
    let (agent, asked) =
        replay(&["a step begins", "list while it runs", "by id while it runs", "by id when it ended"]).await;
    let begun = agent.start(METADATA, &Args::new(), false).await.expect("it begins");
    let running = TaskState::Running(String::new());
    assert_eq!(begun, StepStart::Taken { command: Some(ID.to_owned()), state: running.clone() });
    assert_eq!(agent.running().await, Ok(Some("execute_clean_step".to_owned())), "its power must not be cut now");
    assert_eq!(agent.status(METADATA, Some(ID)).await, Ok(Some(running)));
    assert_eq!(agent.status(METADATA, Some(ID)).await, Ok(Some(TaskState::Done(Finished::default()))));
    let asked = asked.lock().expect("whole").clone();
    assert_eq!(asked[0], "wait=false&agent_token=t%26k%2Fn");
    assert_eq!(asked.len(), 4);
}

#[tokio::test]
async fn a_name_that_was_lost_is_found_in_the_list() {
    let step = |notes: &'static [&'static str], command: Option<&'static str>| async move {
        replay(notes).await.0.status(METADATA, command).await
    };
    let running = Ok(Some(TaskState::Running(String::new())));
    let done = Ok(Some(TaskState::Done(Finished::default())));
    assert_eq!(step(&["list while it runs"], None).await, running);
    assert_eq!(step(&["unknown id", "list while it runs"], Some(ID)).await, running);
    assert_eq!(step(&["unknown id", "list when it ended"], Some(ID)).await, done);
    assert_eq!(step(&["unknown id", "nothing run yet"], Some(ID)).await, Ok(None), "it was started anew");
    // Of several commands of that name the last one counts.
    let mismatch = step(&["list after other versions"], None).await;
    assert!(matches!(&mismatch, Ok(Some(TaskState::Failed(text))) if text.contains("another version")), "{mismatch:?}");
}

#[tokio::test]
async fn a_busy_agent_is_waited_for_and_what_was_begun_before_is_found() {
    let (agent, _) = replay(&["busy"]).await;
    let busy = agent.start("deploy.erase_devices", &Args::new(), false).await;
    assert_eq!(busy, Ok(StepStart::Busy("Agent is busy: executing command execute_clean_step".to_owned())));
    let taken = StepStart::Taken { command: Some(ID.to_owned()), state: TaskState::Running(String::new()) };
    let (agent, _) = replay(&["busy", "list while it runs"]).await;
    assert_eq!(agent.start(METADATA, &Args::new(), true).await, Ok(taken), "one run is what was wanted");
    // Busy with something else.
    let (agent, _) = replay(&["busy", "list while the image is written"]).await;
    assert!(matches!(agent.start(METADATA, &Args::new(), true).await, Ok(StepStart::Busy(_))));
}

#[tokio::test]
async fn a_command_may_fail_at_once() {
    let (agent, _) = replay(&["unknown step"]).await;
    let failed = agent.start("deploy.nonsense", &Args::new(), false).await;
    let state = TaskState::Failed("Could not find method: nonsense".to_owned());
    assert_eq!(
        failed,
        Ok(StepStart::Taken { command: Some("302a0872-dcf9-4bf3-8bd8-28e663e3c66e".to_owned()), state })
    );
    for (note, text) in
        [("unknown command", "Unknown command"), ("no checksum", "checksum"), ("unknown extension", "HTTP 404")]
    {
        let (agent, _) = replay(&[note]).await;
        let refused = agent.start(METADATA, &Args::new(), false).await.expect_err(note).to_string();
        assert!(refused.contains(text), "{refused}");
    }
}

#[tokio::test]
async fn what_the_recorded_agent_offers_is_understood() {
    let (agent, _) = replay(&["steps"]).await;
    let offer = Ramdisk::offer(&agent).await.expect("an answer").expect("an offer");
    assert!(offer.steps.iter().any(|step| step.name == "erase_devices_metadata" && step.priority == 99));
    assert_eq!(offer.managers["generic_hardware_manager"], json!("1.2"));
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
        let error = agent(&url).status(METADATA, None).await.expect_err("no answer to believe").to_string();
        assert!(error.contains(expected) && !error.contains("127.0.0.1") && !error.contains("t&k"), "{error}");
    }
    let (url, _) = scripted(vec![(200, " ".repeat(limits::BODY_BYTES_MAX + 1))]).await;
    assert!(agent(&url).status(METADATA, None).await.expect_err("too large").to_string().contains("larger"));
}

#[tokio::test]
async fn a_silent_agent_is_tried_a_few_times_and_named_without_its_address() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let error = agent(&url).status(METADATA, None).await.expect_err("nobody there");
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
    assert_eq!(with(&pem).status(METADATA, None).await, Ok(None));
    let refused = with(&other).status(METADATA, None).await.expect_err("another certificate").to_string();
    assert!(refused.contains("certificate") && !refused.contains("127.0.0.1"), "{refused}");
}

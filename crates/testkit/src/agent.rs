//! A stand-in for the agent that runs in real ramdisks: takes commands over HTTP and tells how they went. No image of the real one can
//! be booted in tests; what this does not show is said where it is used.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// A command the agent was given.
#[derive(Debug, Clone)]
pub struct Given {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Value,
    /// Whoever gave it waits for its end.
    pub waits: bool,
    /// How it went: `RUNNING` until [`StandInAgent::finish`].
    pub status: String,
}

#[derive(Default)]
struct State {
    token: Option<String>,
    commands: Vec<Given>,
    /// Requests that showed another token.
    strangers: usize,
}

/// The agent. Its thread ends with the process: it waits for connections and holds nothing.
pub struct StandInAgent {
    /// Where it listens.
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl StandInAgent {
    /// Starts one that offers to erase disks.
    pub fn start() -> StandInAgent {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state: Arc<Mutex<State>> = Arc::default();
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // One at a time: so does the real one answer about its commands.
                let _broken = serve(stream, &served);
            }
        });
        StandInAgent { url, state }
    }

    /// It learned its token.
    pub fn learn(&self, token: &str) {
        locked(&self.state).token = Some(token.to_owned());
    }

    /// Everything it was told to do so far.
    pub fn commands(&self) -> Vec<Given> {
        locked(&self.state).commands.clone()
    }

    /// The command under way ends.
    pub fn finish(&self, status: &str) {
        let mut state = locked(&self.state);
        let running = state.commands.iter_mut().find(|command| command.status == "RUNNING");
        running.expect("a command is running").status = status.to_owned();
    }

    /// How often it was asked with a token that is not its own.
    pub fn strangers(&self) -> usize {
        locked(&self.state).strangers
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let request = line.clone();
    let mut length = 0;
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = answer(&request, &body, &mut locked(state));
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close",
        answer.len()
    );
    reader.into_inner().write_all(format!("{head}\r\n\r\n{answer}").as_bytes())
}

fn answer(request: &str, body: &[u8], state: &mut State) -> (u16, Value) {
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let shown = query.split('&').find_map(|pair| pair.strip_prefix("agent_token="));
    if state.token.is_none() || shown != state.token.as_deref() {
        state.strangers += 1;
        return (401, json!({ "faultstring": "Token invalid." }));
    }
    match (method, path) {
        ("GET", "/v1/commands/") => {
            let all: Vec<Value> = state.commands.iter().enumerate().map(|(n, given)| told(n, given)).collect();
            (200, json!({ "commands": all }))
        }
        ("GET", path) if path.starts_with("/v1/commands/") => {
            let n = path.rsplit('-').next().and_then(|n| n.parse::<usize>().ok());
            match n.and_then(|n| Some((n, state.commands.get(n)?))) {
                Some((n, given)) => (200, told(n, given)),
                None => (404, json!({ "faultstring": "Not found: Command Result with id not found." })),
            }
        }
        ("POST", "/v1/commands/") => {
            if state.commands.iter().any(|command| command.status == "RUNNING") {
                return (409, json!({ "faultstring": "Agent is busy: executing command execute_clean_step" }));
            }
            let wanted: Value = serde_json::from_slice(body).unwrap_or_default();
            let name = wanted["name"].as_str().unwrap_or_default().to_owned();
            let waits = query.contains("wait=true");
            let status = if waits { "SUCCEEDED" } else { "RUNNING" }.to_owned();
            state.commands.push(Given { name, params: wanted["params"].clone(), waits, status });
            let n = state.commands.len() - 1;
            (200, told(n, &state.commands[n]))
        }
        _ => (404, json!({})),
    }
}

/// A command as the agent tells about it: what it was given is not in it, and which step it ran only after a success.
fn told(n: usize, given: &Given) -> Value {
    let Given { name, params, waits: _, status } = given;
    let result = match name.as_str() {
        "clean.get_clean_steps" => json!({
            "clean_steps": { "GenericHardwareManager": [
                { "step": "erase_devices", "priority": 10, "interface": "deploy", "reboot_requested": false, "abortable": true },
                { "step": "erase_devices_metadata", "priority": 99, "interface": "deploy", "reboot_requested": false, "abortable": true },
            ] },
            "hardware_manager_version": { "generic_hardware_manager": "1.2" },
        }),
        "deploy.get_deploy_steps" => json!({ "deploy_steps": {}, "hardware_manager_version": {} }),
        "clean.execute_clean_step" => json!({ "clean_result": null, "clean_step": params["step"] }),
        "deploy.execute_deploy_step" => json!({ "deploy_result": null, "deploy_step": params["step"] }),
        _ => json!({}),
    };
    let result = if status == "SUCCEEDED" { result } else { Value::Null };
    json!({
        "id": format!("27374b5e-b051-4b84-a9e6-{n}"),
        // Without its first part, as the real one tells it.
        "command_name": name.rsplit('.').next(),
        "command_status": status,
        "command_error": if status == "FAILED" { json!({ "message": "it burns" }) } else { Value::Null },
        "command_result": result,
    })
}

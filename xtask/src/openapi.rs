//! `cargo xtask openapi`: holds a server to its own OpenAPI document. Schemathesis, from the lab, sends what the document allows and what
//! it forbids to a demo, for a bounded time and with a known seed; every finding that is not in `xtask/openapi/allowed.txt` fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{Usage, lab, process};

/// How long requests are sent unless somebody says otherwise, in seconds.
const SECONDS: u32 = 120;

/// The same requests next time, as long as the document is the same.
const SEED: u32 = 20_261_118;

/// Findings that are accepted: operation, code of the finding, a part of the answer, and the reason.
const ALLOWED: &str = include_str!("../openapi/allowed.txt");

pub fn run(arguments: &[String]) -> Result<()> {
    let usage = || Usage("`openapi` takes a number of seconds and a seed, both optional".to_owned());
    let number = |text: Option<&String>, usual| text.map_or(Ok(usual), |text| text.parse().map_err(|_| usage()));
    let (seconds, seed) = (number(arguments.first(), SECONDS)?, number(arguments.get(1), SEED)?);
    if arguments.len() > 2 || seconds == 0 {
        return Err(usage().into());
    }
    lab::prepare()?;
    hold(seconds, seed)
}

/// The step of `cargo xtask ci`.
pub fn check() -> Result<()> {
    hold(SECONDS, SEED)
}

fn hold(seconds: u32, seed: u32) -> Result<()> {
    let allowed = parse_allowed(ALLOWED)?;
    let demo = Demo::start()?;
    let report = process::root().join("target/lab/openapi.ndjson");
    println!("openapi: {seconds} s of requests to {}, seed {seed}", demo.url);
    send(&demo.url, seconds, seed, &report)?;
    let text = fs::read_to_string(&report).with_context(|| format!("no report in {}", report.display()))?;
    let verdict = judge(&text, &allowed)?;
    println!("openapi: {} operations, {} requests", verdict.operations, verdict.cases);
    for (reason, count) in &verdict.accepted {
        println!("openapi: accepted {count} times: {reason}");
    }
    if verdict.refused.is_empty() {
        return Ok(());
    }
    for (finding, answer) in &verdict.refused {
        eprintln!("openapi: {finding}\n    {answer}");
    }
    let count = verdict.refused.len();
    bail!("{count} findings; repeat with `cargo xtask openapi {seconds} {seed}`, and see {}", report.display())
}

/// A demo on a free port; dropping it stops it and removes its data.
struct Demo {
    url: String,
    process: Child,
}

impl Demo {
    fn start() -> Result<Demo> {
        let programs = process::build_binaries(&["--package", "sabakan"])?;
        let (_, program) = programs.into_iter().find(|(name, _)| name == "sabakan").context("no program was built")?;
        let mut command = Command::new(program);
        command.args(["demo", "--http", "127.0.0.1:0", "--https", "none", "--ironic", "none"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("cannot start the demo")?;
        let output = process.stdout.take().context("the demo has no output")?;
        let mut lines = BufReader::new(output).lines();
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let word = line.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"));
            // Without the path: `http:`, nothing, and the address.
            word.map(|word| word.split('/').take(3).collect::<Vec<_>>().join("/"))
        });
        // It must not wait for anybody to read the rest.
        std::thread::spawn(move || lines.for_each(drop));
        let demo = Demo { url: found.unwrap_or_default(), process };
        if demo.url.is_empty() {
            bail!("the demo did not say where it listens");
        }
        Ok(demo)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Told, not killed: it removes its data.
        let told = Command::new("kill").arg(self.process.id().to_string()).status();
        if !told.is_ok_and(|status| status.success()) {
            let _already_gone = self.process.kill();
        }
        let _ended = self.process.wait();
    }
}

fn send(url: &str, seconds: u32, seed: u32, report: &Path) -> Result<()> {
    let lab = process::root().join("target/lab/python/bin/schemathesis");
    let mut command = Command::new(lab);
    command.arg("--config-file").arg(process::root().join("xtask/openapi/schemathesis.toml"));
    command.args(["run", &format!("{url}/openapi.json"), "--checks", "all", "--no-color", "--warnings", "off"]);
    command.args(["--max-time", &seconds.to_string(), "--seed", &seed.to_string()]);
    command.args(["--report", "ndjson", "--report-ndjson-path"]).arg(report);
    // It keeps notes of its own where it is started.
    command.current_dir(process::root().join("target/lab"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let status = command.status().with_context(|| format!("cannot start `{}`", process::shown(&command)))?;
    // 1: there are findings, which are judged here.
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("schemathesis failed: {status}"),
    }
}

/// A finding that is accepted.
#[derive(Debug, PartialEq, Eq)]
struct Allowed<'a> {
    operation: &'a str,
    code: &'a str,
    answer: &'a str,
    reason: &'a str,
}

fn parse_allowed(text: &str) -> Result<Vec<Allowed<'_>>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
            match parts.as_slice() {
                [operation, code, answer, reason] if !reason.is_empty() => {
                    Ok(Allowed { operation, code, answer, reason })
                }
                _ => bail!(
                    "xtask/openapi/allowed.txt: operation, code, part of the answer and reason are expected: {line}"
                ),
            }
        })
        .collect()
}

/// What came of it.
#[derive(Default)]
struct Verdict {
    operations: usize,
    cases: usize,
    /// How often each reason was needed.
    accepted: BTreeMap<String, usize>,
    /// Findings that nothing allows, each with the first answer that showed it.
    refused: BTreeMap<String, String>,
}

/// Holds a report against what is allowed.
fn judge(report: &str, allowed: &[Allowed<'_>]) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let (mut ended, mut operations) = (false, BTreeSet::new());
    for line in report.lines() {
        let event: Value = serde_json::from_str(line).context("the report is not lines of JSON")?;
        ended |= event.get("EngineFinished").is_some();
        if let Some(error) = event.get("NonFatalError") {
            verdict.refused.insert(format!("error: {}", text(error, "label")), error.to_string());
        }
        let Some(recorder) = event.pointer("/ScenarioFinished/recorder") else { continue };
        let members = |name: &str| recorder[name].as_object().into_iter().flatten();
        verdict.cases += members("interactions").count();
        operations.insert(text(recorder, "label"));
        for (case, checks) in members("checks") {
            for check in checks.as_array().into_iter().flatten() {
                let Some(failure) = check.pointer("/failure_info/failure") else { continue };
                let answer = answer_of(&recorder["interactions"][case]);
                note(&mut verdict, failure, &answer, allowed);
            }
        }
    }
    if !ended || operations.is_empty() {
        bail!("schemathesis did not come to an end");
    }
    verdict.operations = operations.iter().filter(|label| label.contains(" /")).count();
    Ok(verdict)
}

fn note(verdict: &mut Verdict, failure: &Value, answer: &str, allowed: &[Allowed<'_>]) {
    let (operation, code) = (text(failure, "operation"), text(failure, "code"));
    let fits = |one: &&Allowed<'_>| one.operation == operation && one.code == code && answer.contains(one.answer);
    match allowed.iter().find(fits) {
        Some(one) => *verdict.accepted.entry(format!("{operation} {code}: {}", one.reason)).or_default() += 1,
        None => {
            let finding = format!("{operation}: {code} {}", text(failure, "title"));
            let told = format!("{}; {answer}", text(failure, "message").replace('\n', "; "));
            verdict.refused.entry(finding).or_insert(told);
        }
    }
}

/// Request and answer on one line.
fn answer_of(interaction: &Value) -> String {
    let body = |part: &str| {
        let encoded = interaction.pointer(part).and_then(Value::as_str).unwrap_or_default();
        String::from_utf8_lossy(&from_base64(encoded)).trim().chars().take(600).collect::<String>()
    };
    let request = &interaction["request"];
    let (method, uri) = (text(request, "method"), text(request, "uri"));
    let status = &interaction["response"]["status_code"];
    format!("{method} {uri} {} -> {status} {}", body("/request/body/$base64"), body("/response/content/$base64"))
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Decodes what it can; for people to read.
fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(digit).collect();
    let bytes = |four: &[u8]| {
        let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_finding_has_a_reason() {
        let allowed = parse_allowed(ALLOWED).unwrap();
        assert!(allowed.iter().all(|one| one.reason.len() > 20), "{allowed:?}");
        assert!(parse_allowed("GET / | ST101 | x").is_err());
    }

    #[test]
    fn base64_is_decoded() {
        for (text, expected) in [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("YWJjZA==", "abcd")] {
            assert_eq!(String::from_utf8(from_base64(text)).unwrap(), expected);
        }
    }

    #[test]
    fn a_finding_is_refused_unless_its_operation_code_and_answer_are_allowed() {
        let failure = r#"{"code":"ST101","operation":"GET /a","title":"Server error","message":"m"}"#;
        let line = |answer: &str| {
            let encoded = if answer == "abc" { "YWJj" } else { "YWI=" };
            format!(
                r#"{{"ScenarioFinished":{{"recorder":{{"label":"GET /a","interactions":{{"x":{{"request":{{"method":"GET","uri":"/a"}},"response":{{"status_code":500,"content":{{"$base64":"{encoded}"}}}}}}}},"checks":{{"x":[{{"failure_info":{{"failure":{failure}}}}}]}}}}}}}}"#
            )
        };
        let allowed = parse_allowed("GET /a | ST101 | abc | The older API answers 500 here.").unwrap();
        let end = r#"{"EngineFinished":{}}"#;
        let verdict = judge(&format!("{}\n{end}\n", line("abc")), &allowed).unwrap();
        assert_eq!((verdict.operations, verdict.cases, verdict.refused.len(), verdict.accepted.len()), (1, 1, 0, 1));
        let verdict = judge(&format!("{}\n{end}\n", line("ab")), &allowed).unwrap();
        assert_eq!((verdict.refused.len(), verdict.accepted.len()), (1, 0));
        assert!(judge(&line("abc"), &allowed).is_err(), "a run that did not end proves nothing");
    }
}

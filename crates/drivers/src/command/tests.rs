//! With real programs: what they see, what is kept of them, and that nothing of them is left.

use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::kill_process;
use tokio::time::{Instant, sleep};

use super::*;

/// Longer than anything here takes, on the busiest machine.
const LONG: Duration = Duration::from_secs(60);

/// A script; `$1` and so on are what is added.
fn script(text: &str) -> Vec<String> {
    ["/bin/sh", "-c", text, "script"].map(str::to_owned).to_vec()
}

async fn run(command: &[String], added: &[&str], limit: Duration) -> Result<Finished, CommandError> {
    let added: Vec<String> = added.iter().map(ToString::to_string).collect();
    Runner::default().run(command, &added, Some(limit)).await
}

async fn finished(text: &str) -> Finished {
    run(&script(text), &[], LONG).await.expect("it runs")
}

fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).expect("text")
}

/// Whether a process does anything. One that ended and was not collected by its new parent does nothing.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

async fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "waited for {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The numbers of processes that a script wrote down.
fn pids(text: &str) -> Vec<i32> {
    text.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

async fn wait_until_gone(pids: &[i32]) {
    assert!(!pids.is_empty());
    for pid in pids {
        wait_for(&format!("the end of process {pid}"), || !is_running(*pid)).await;
    }
}

#[tokio::test]
async fn how_it_ended() {
    for (text, ended, summary) in [
        ("exit 0", Ended::Exit(0), "exit status 0"),
        ("echo no >&2; exit 3", Ended::Exit(3), "exit status 3: no"),
        ("echo one; echo two; exit 1", Ended::Exit(1), "exit status 1: one | two"),
        ("echo out; echo err >&2; exit 1", Ended::Exit(1), "exit status 1: err"),
        ("kill -TERM $$", Ended::Signal(15), "killed by signal 15"),
    ] {
        let finished = finished(text).await;
        assert_eq!((finished.ended, finished.summary().as_str()), (ended, summary), "{text}");
        assert_eq!(finished.is_success(), ended == Ended::Exit(0));
    }
}

#[tokio::test]
async fn what_a_check_says() {
    for (text, healthy) in [
        ("echo true", true),
        ("printf ' true\\n\\n'", true),
        ("echo True", false),
        ("echo false", false),
        ("echo true; echo true", false),
        ("echo true; exit 1", false),
        ("echo true >&2", false),
        ("head -c 100000 /dev/zero | tr '\\0' ' '; echo true", false),
    ] {
        assert_eq!(finished(text).await.says_true(), healthy, "{text}");
    }
}

#[tokio::test]
async fn arguments_arrive_as_they_are() {
    let odd = ["a b", "", "$HOME", "*", "x;y", "\"q'", "é\n"];
    let command = script("printf '%s|' \"$@\"");
    let finished = run(&[command, vec!["first".to_owned()]].concat(), &odd, LONG).await.expect("it runs");
    assert_eq!(text(&finished.stdout), format!("first|{}|", odd.join("|")));
}

#[tokio::test]
async fn it_sees_a_search_path_a_language_and_nothing_else() {
    assert!(std::env::vars_os().count() > 2, "there is something to hide");
    let command = ["env".to_owned()];
    let seen = Runner::new("/usr/bin:/bin").run(&command, &[], Some(LONG)).await.expect("it runs");
    let mut variables: Vec<&str> = text(&seen.stdout).lines().collect();
    variables.sort_unstable();
    assert_eq!(variables, ["LANG=C", "PATH=/usr/bin:/bin"]);
    let place = finished("pwd; read line || echo nothing to read; cut -d' ' -f5 /proc/$$/stat; echo $$").await;
    let lines: Vec<&str> = text(&place.stdout).lines().collect();
    assert_eq!(lines[..2], ["/", "nothing to read"]);
    assert_eq!(lines[2], lines[3], "it leads a group of its own");
}

#[tokio::test]
async fn at_the_end_of_its_time_everything_it_started_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pids");
    // The middle process ignores what it can ignore, and the last one is nobody's child any more.
    let text = "trap '' TERM HUP INT; sh -c 'sleep 1000 & echo $! >> \"$1\"' x \"$1\"; sleep 1000 & echo $! $$ >> \"$1\"; echo begun; wait";
    let added = [file.to_str().expect("text")];
    // As short as this machine allows: the script has to get as far as that.
    let mut limit = Duration::from_millis(500);
    let pids = loop {
        let late = run(&script(text), &added, limit).await.expect("it runs");
        assert_eq!(late.ended, Ended::TimedOut(limit));
        if late.stdout == b"begun\n" {
            assert_eq!(late.summary(), format!("not done after {} s: begun", limit.as_secs_f64()));
            break pids(&fs::read_to_string(&file).expect("written"));
        }
        limit *= 2;
        assert!(limit < LONG, "it does not begin");
    };
    assert!(pids.len() >= 3);
    wait_until_gone(&pids).await;
}

#[tokio::test]
async fn when_nobody_waits_any_more_everything_it_started_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pids");
    let added = [file.to_str().expect("text").to_owned()];
    let runner = Runner::default();
    let command = script("sleep 1000 & echo $! $$ > \"$1.new\"; mv \"$1.new\" \"$1\"; wait");
    let task = tokio::spawn(async move { runner.run(&command, &added, None).await.map(|finished| finished.ended) });
    wait_for("the program to begin", || file.exists()).await;
    let pids = pids(&fs::read_to_string(&file).expect("written"));
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_running(*pid)));
    task.abort();
    assert!(task.await.expect_err("it was cancelled").is_cancelled());
    wait_until_gone(&pids).await;
}

#[tokio::test]
async fn what_it_leaves_behind_ends_with_it() {
    let begun = Instant::now();
    let left = finished("sleep 1000 & echo $!").await;
    assert!(begun.elapsed() < LONG && left.is_success());
    wait_until_gone(&pids(text(&left.stdout))).await;
}

#[tokio::test]
async fn who_left_its_group_and_holds_its_output_makes_nobody_wait() {
    let begun = Instant::now();
    let left = finished("setsid sleep 1000 & echo $!; exit 4").await;
    assert_eq!(left.ended, Ended::Exit(4));
    let escaped = Pid::from_raw(pids(text(&left.stdout))[0]).expect("a number");
    let ended = kill_process(escaped, Signal::KILL);
    assert!(begun.elapsed() < LONG);
    ended.expect("it was still there, which is what this is about");
}

#[tokio::test]
async fn a_flood_is_read_and_only_its_end_is_kept() {
    let flood = finished(
        "head -c 20000000 /dev/zero | tr '\\0' o; echo last; head -c 20000000 /dev/zero | tr '\\0' e >&2; echo worst >&2",
    )
    .await;
    assert!(flood.is_success() && flood.truncated);
    assert_eq!((flood.stdout.len(), flood.stderr.len()), (OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX));
    assert!(flood.stdout.ends_with(b"olast\n") && flood.stderr.ends_with(b"eworst\n"));
    let summary = flood.summary();
    assert_eq!(summary.chars().count(), SUMMARY_CHARS_MAX);
    assert!(summary.starts_with("exit status 0: …e") && summary.ends_with("eworst"), "{summary}");
    let exact = finished(&format!("head -c {OUTPUT_BYTES_MAX} /dev/zero")).await;
    assert!(exact.stdout.len() == OUTPUT_BYTES_MAX && !exact.truncated);
}

#[tokio::test]
async fn a_flood_without_end_ends_in_time() {
    let limit = Duration::from_millis(300);
    let flood = run(&["yes".to_owned()], &[], limit).await.expect("it runs");
    assert_eq!(flood.ended, Ended::TimedOut(limit));
    assert!(flood.stdout.len() <= OUTPUT_BYTES_MAX);
}

#[tokio::test]
async fn what_it_says_cannot_steer_a_terminal() {
    let odd = finished("printf '\\033[31mred\\a\\r\\nb\\377\\342\\200\\256c\\n' >&2; exit 1").await;
    assert!(odd.stderr.contains(&0xff));
    assert_eq!(odd.summary(), "exit status 1: [31mred | b\u{fffd} c");
}

#[tokio::test]
async fn what_cannot_be_run_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let write = |name: &str, content: &str, mode| {
        fs::write(place(name), content).expect("written");
        fs::set_permissions(place(name), fs::Permissions::from_mode(mode)).expect("set");
        place(name)
    };
    let no_interpreter = write("no-interpreter", "#!/no/such/shell\n", 0o755);
    let rubbish = write("rubbish", "\u{1}\u{2}\u{3}", 0o755);
    let plain = write("plain", "#!/bin/sh\n", 0o644);
    let here = place("");
    let none = place("none");
    for (program, found, hint) in [
        ("no-such-program", false, "is in /usr/local/sbin:"),
        (none.as_str(), false, "no such file"),
        (no_interpreter.as_str(), false, "interpreter"),
        (plain.as_str(), true, "chmod +x"),
        (here.as_str(), true, "a directory"),
        (rubbish.as_str(), true, "neither a program"),
        ("/bin/sh\0", true, "NUL"),
    ] {
        let error = run(&[program.to_owned()], &["10.0.0.1"], LONG).await.expect_err(program);
        let shown = error.to_string();
        assert_eq!(matches!(error, CommandError::NotExecutable { .. }), found, "{error:?}");
        assert_eq!(matches!(error, CommandError::NotFound { .. }), !found, "{error:?}");
        assert!(shown.contains(hint), "{shown}");
    }
    for empty in [vec![], vec![String::new()]] {
        assert!(matches!(run(&empty, &["10.0.0.1"], LONG).await, Err(CommandError::Empty)));
    }
}

#[tokio::test]
async fn only_so_many_run_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let added = [folder.path().to_str().expect("text").to_owned()];
    let runner = Runner::default();
    let running = || fs::read_dir(folder.path()).expect("a folder").count();
    let mut tasks = Vec::new();
    for _ in 0..=PROGRAMS_MAX {
        let (runner, added) = (runner.clone(), added.clone());
        let command = script("echo > \"$1/$$\"; while [ -d \"$1\" ]; do sleep 1; done");
        tasks.push(tokio::spawn(async move { runner.run(&command, &added, Some(LONG)).await }));
    }
    wait_for("all places to be taken", || running() == PROGRAMS_MAX).await;
    assert_eq!(runner.places.available_permits(), 0);
    tasks.remove(0).abort();
    wait_for("the last one to get a place", || running() == PROGRAMS_MAX + 1).await;
    folder.close().expect("removed");
    for task in tasks {
        assert!(task.await.expect("no panic").is_ok());
    }
}

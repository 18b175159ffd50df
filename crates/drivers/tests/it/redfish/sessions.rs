//! Logging in: as seldom as possible, as often as needed, and out again.

use std::sync::Arc;

use http::Method;
use sabakan_drivers::{
    DriverError, Secret,
    redfish::{Redfish, limits::Pace},
};
use serde_json::json;
use tokio::sync::Notify;

use super::{
    connect,
    double::{Double, PASSWORD, Reply, SESSIONS, SYSTEM, usual},
    driver, eventually, pair, quick,
};

fn log_ins(double: &Double) -> usize {
    double.seen(&Method::POST, SESSIONS).len()
}

#[tokio::test]
async fn one_session_serves_all_work_and_ends_with_the_driver() {
    let double = Double::start().await;
    let driver = driver();
    let bmc = connect(&driver, &double.settings());
    bmc.power().await.unwrap();
    bmc.inspect().await.unwrap();
    connect(&driver, &double.settings()).health().await.unwrap();
    assert_eq!(log_ins(&double), 1);
    let read = &double.seen(&Method::GET, SYSTEM)[0];
    assert_eq!(read.headers.get("x-auth-token").map(String::as_str), Some("token-1"));
    assert!(!read.headers.contains_key("authorization"), "the password travels once");
    assert_eq!(read.headers.get("odata-version").map(String::as_str), Some("4.0"));
    assert_eq!(read.headers.get("accept-encoding").map(String::as_str), Some("identity"));
    driver.close().await;
    assert!(double.service().sessions.is_empty());
}

#[tokio::test]
async fn many_at_once_open_one_session() {
    let (bmc, double) = pair().await;
    let tasks: Vec<_> =
        (0..16).map(|_| Arc::clone(&bmc)).map(|bmc| tokio::spawn(async move { bmc.power().await })).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(log_ins(&double), 1);
}

#[tokio::test]
async fn session_is_deleted_when_nobody_uses_it_any_more() {
    let (bmc, double) = pair().await;
    bmc.power().await.unwrap();
    assert_eq!(double.service().sessions.len(), 1);
    // The driver of `pair` is gone already; this was the last user.
    drop(bmc);
    eventually("the session's end", || double.service().sessions.is_empty()).await;
}

#[tokio::test]
async fn session_that_opens_too_late_is_deleted() {
    let (bmc, double) = pair().await;
    let now = Arc::new(Notify::new());
    let later = now.clone();
    double.rule(move |seen, service| {
        let is_it = seen.method == Method::POST && seen.path == SESSIONS;
        is_it.then(|| Reply::Later(later.clone(), Box::new(usual(service, seen))))
    });
    let waiting = tokio::spawn(async move { bmc.power().await });
    eventually("the log-in", || double.service().sessions.len() == 1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    now.notify_one();
    eventually("the session's end", || double.service().sessions.is_empty()).await;
}

#[tokio::test]
async fn cache_of_sessions_is_bounded_and_logs_out_what_it_gives_up() {
    let (first, second) = (Double::start().await, Double::start().await);
    let driver = Redfish::with_pace(Pace { sessions_max: 1, ..quick() });
    connect(&driver, &first.settings()).power().await.unwrap();
    assert_eq!(first.service().sessions.len(), 1);
    connect(&driver, &second.settings()).power().await.unwrap();
    eventually("the first session's end", || first.service().sessions.is_empty()).await;
    assert_eq!(second.service().sessions.len(), 1);
}

#[tokio::test]
async fn ended_session_is_renewed_once_and_the_work_goes_on() {
    let (bmc, double) = pair().await;
    bmc.power().await.unwrap();
    double.service().sessions.clear();
    bmc.power().await.unwrap();
    assert_eq!(log_ins(&double), 2);
}

#[tokio::test]
async fn ended_session_is_recognised_behind_403_and_404() {
    for status in [403, 404] {
        let double = Double::start().await;
        // Nothing is believed for long here, so that a 404 is looked into.
        let driver = Redfish::with_pace(Pace { session_trusted: std::time::Duration::ZERO, ..quick() });
        let bmc = connect(&driver, &double.settings());
        bmc.power().await.unwrap();
        double.service().sessions.clear();
        double.rule(move |seen, service| {
            let token = seen.headers.get("x-auth-token")?;
            let is_stale = seen.path == SYSTEM && !service.sessions.contains(token);
            is_stale.then_some(Reply::Error(status, "Base.1.8.Strange", "No."))
        });
        bmc.power().await.unwrap_or_else(|error| panic!("{status}: {error}"));
        assert_eq!(log_ins(&double), 2, "{status}");
    }
}

#[tokio::test]
async fn missing_right_is_no_ended_session() {
    let (bmc, double) = pair().await;
    double.answer(
        Method::GET,
        SYSTEM,
        9,
        Reply::Error(403, "Base.1.8.InsufficientPrivilege", "Not with these rights."),
    );
    let error = bmc.power().await.unwrap_err();
    assert!(matches!(&error, DriverError::Credentials(text) if text.contains("Not with these rights.")), "{error}");
    assert_eq!(log_ins(&double), 1);
}

#[tokio::test]
async fn wrong_password_is_tried_once_so_that_no_account_is_locked() {
    let (_, double) = pair().await;
    let mut settings = double.settings();
    settings.secrets.insert("redfish_password".to_owned(), Secret::new("wrong one"));
    let error = connect(&driver(), &settings).power().await.unwrap_err();
    assert!(matches!(&error, DriverError::Credentials(_)), "{error}");
    assert_eq!(log_ins(&double), 1);
    let is_tried_otherwise = double.service().seen.iter().any(|seen| seen.headers.contains_key("authorization"));
    assert!(!is_tried_otherwise);
    // Another password is another account, also for the cache.
    let driver = driver();
    connect(&driver, &settings).power().await.unwrap_err();
    connect(&driver, &double.settings()).power().await.unwrap();
}

#[tokio::test]
async fn controller_without_sessions_gets_basic_and_is_not_asked_again() {
    let (bmc, double) = pair().await;
    for key in ["SessionService", "Links"] {
        double.set("/redfish/v1/", &json!({ key: null }));
    }
    double.service().resources.remove(SESSIONS);
    bmc.power().await.unwrap();
    let roots = double.seen(&Method::GET, "/redfish/v1/").len();
    bmc.power().await.unwrap();
    bmc.power().await.unwrap();
    assert_eq!(double.seen(&Method::GET, "/redfish/v1/").len(), roots);
    assert_eq!(log_ins(&double), 0);
    assert!(double.seen(&Method::GET, SYSTEM).iter().all(|seen| seen.headers.contains_key("authorization")));
    let mut settings = double.settings();
    settings.values.insert("redfish_auth_type".to_owned(), json!("session"));
    let error = connect(&driver(), &settings).power().await.unwrap_err();
    assert!(matches!(error, DriverError::Unsupported(_)), "{error}");
}

#[tokio::test]
async fn controller_with_too_many_sessions_gets_basic_for_a_while() {
    let double = Double::start().await;
    double.answer(Method::POST, SESSIONS, 1, Reply::Error(503, "Base.1.8.SessionLimitExceeded", "Too many sessions."));
    let driver = Redfish::with_pace(Pace { session_retry: std::time::Duration::ZERO, ..quick() });
    let bmc = connect(&driver, &double.settings());
    bmc.power().await.unwrap();
    // The first request after the refusal, and one after the while.
    let basic = double.service().seen.iter().filter(|seen| seen.headers.contains_key("authorization")).count();
    assert_eq!(basic, 1);
    assert!(double.seen(&Method::GET, SYSTEM)[0].headers.contains_key("x-auth-token"));
    assert_eq!(log_ins(&double), 2);
}

#[tokio::test]
async fn basic_alone_opens_no_session() {
    let double = Double::start().await;
    let mut settings = double.settings();
    settings.values.insert("redfish_auth_type".to_owned(), json!("basic"));
    connect(&driver(), &settings).power().await.unwrap();
    assert_eq!(log_ins(&double), 0);
    assert!(double.service().seen.iter().all(|seen| !seen.body.to_string().contains(PASSWORD)));
}

#[tokio::test]
async fn changes_come_one_at_a_time_whoever_makes_them() {
    let double = Double::start().await;
    let driver = driver();
    let mut tasks = Vec::new();
    // Two accounts of one driver share the gate.
    let mut basic = double.settings();
    basic.values.insert("redfish_auth_type".to_owned(), json!("basic"));
    let bmcs = [connect(&driver, &double.settings()), connect(&driver, &basic)];
    for n in 0..12 {
        let bmc = Arc::clone(&bmcs[n % 2]);
        tasks.push(tokio::spawn(
            async move { bmc.command_power(sabakan_domain::provision::power::PowerTarget::On).await },
        ));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(double.service().writing_most, 1);
}

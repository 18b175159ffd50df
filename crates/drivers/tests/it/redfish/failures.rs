//! Controllers that do not answer, answer nonsense, or are not who they should be.

use std::time::{Duration, Instant};

use http::Method;
use sabakan_drivers::{Bmc, DriverError, redfish::Redfish};
use serde_json::json;

use super::{
    connect,
    double::{Certificate, Double, PASSWORD, Reply, SYSTEM},
    driver, impatient, pair,
};

async fn power_error(bmc: &dyn Bmc) -> DriverError {
    bmc.power().await.unwrap_err()
}

#[tokio::test]
async fn answers_that_make_no_sense() {
    let endless = Reply::Endless;
    let large = Reply::Raw(format!("{{\"PowerState\": \"On\", \"x\": \"{}\"}}", "y".repeat(5 << 20)));
    for (reply, expected) in [
        (Reply::Raw("{\"PowerState\": ".to_owned()), "no JSON"),
        (Reply::Raw("<html>login</html>".to_owned()), "no JSON"),
        (Reply::Raw("[]".to_owned()), "not a JSON object"),
        (large, "larger than"),
        (endless, "larger than"),
        (Reply::Json(304, json!(null)), "304"),
    ] {
        let (bmc, double) = pair().await;
        double.answer(Method::GET, SYSTEM, 9, reply);
        let error = power_error(&*bmc).await;
        assert!(
            matches!(&error, DriverError::Protocol { reason, .. } if reason.contains(expected)),
            "{expected}: {error}"
        );
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn silence_ends_at_the_limit() {
    let double = Double::start().await;
    let bmc = connect(&Redfish::with_pace(impatient()), &double.settings());
    double.answer(Method::GET, SYSTEM, 9, Reply::Silence);
    let begun = Instant::now();
    let error = power_error(&*bmc).await;
    assert!(matches!(&error, DriverError::Unreachable(text) if text.contains("no answer within")), "{error}");
    assert!(error.is_retryable());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn statuses_become_kinds() {
    for (status, is_expected) in [
        (400u16, (|e| matches!(e, DriverError::Rejected { .. })) as fn(&DriverError) -> bool),
        (404, |e| matches!(e, DriverError::Rejected { .. })),
        (403, |e| matches!(e, DriverError::Credentials(_))),
        (500, |e| matches!(e, DriverError::Failed { .. })),
        (503, |e| matches!(e, DriverError::Failed { .. })),
        (501, |e| matches!(e, DriverError::Unsupported(_))),
    ] {
        let (bmc, double) = pair().await;
        double.answer(Method::GET, SYSTEM, 9, Reply::Error(status, "Base.1.8.X", "The \n reason."));
        let error = power_error(&*bmc).await;
        assert!(is_expected(&error), "{status}: {error:?}");
        assert!(error.to_string().contains("The reason."), "{error}");
    }
}

#[tokio::test]
async fn redirects_are_followed_on_the_controller_only() {
    let (bmc, double) = pair().await;
    double.answer(Method::GET, SYSTEM, 1, Reply::Header(307, "location", "/redfish/v1/Alias".to_owned(), json!({})));
    double.set("/redfish/v1/Alias", &json!({ "PowerState": "On" }));
    assert!(bmc.power().await.unwrap().is_some());

    let elsewhere = Double::start().await;
    let target = format!("{}{SYSTEM}", elsewhere.address());
    double.answer(Method::GET, SYSTEM, 1, Reply::Header(307, "location", target, json!({})));
    let error = power_error(&*bmc).await;
    assert!(matches!(&error, DriverError::Protocol { .. }), "{error}");
    assert!(elsewhere.service().seen.is_empty(), "credentials would have gone to another host");

    double.answer(Method::GET, SYSTEM, 99, Reply::Header(307, "location", SYSTEM.to_owned(), json!({})));
    let error = power_error(&*bmc).await;
    assert!(matches!(&error, DriverError::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn links_to_other_hosts_stay_on_the_controller() {
    let (bmc, double) = pair().await;
    let elsewhere = Double::start().await;
    double.set(
        "/redfish/v1/Systems",
        &json!({ "Members": [{ "@odata.id": format!("{}{SYSTEM}", elsewhere.address()) }] }),
    );
    bmc.power().await.unwrap();
    assert!(elsewhere.service().seen.is_empty());
    assert_eq!(double.seen(&Method::GET, SYSTEM).len(), 1);
}

#[tokio::test]
async fn password_repeated_by_the_controller_is_not_passed_on() {
    let (bmc, double) = pair().await;
    double.answer(Method::GET, SYSTEM, 9, Reply::Error(400, "Base.1.8.X", "Bad value correct horse for token-1."));
    let error = power_error(&*bmc).await.to_string();
    assert!(!error.contains(PASSWORD) && !error.contains("token-1") && error.contains("(secret)"), "{error}");
}

#[tokio::test]
async fn certificates_are_believed_as_the_settings_say() {
    for (certificate, verify, expected) in [
        (Certificate::Issued, None, None),
        (Certificate::SelfSigned, None, None),
        (Certificate::Issued, Some(json!(true)), Some("not issued by an authority that")),
        (Certificate::SelfSigned, Some(json!(true)), Some("")),
        (Certificate::OtherName, None, Some("not valid for the host")),
        (Certificate::Expired, None, Some("expired")),
        (Certificate::OtherName, Some(json!(false)), None),
        (Certificate::Expired, Some(json!("False")), None),
    ] {
        let double = Double::start_with(certificate).await;
        let mut settings = double.settings();
        if let Some(verify) = &verify {
            settings.values.insert("redfish_verify_ca".to_owned(), verify.clone());
        }
        let result = connect(&driver(), &settings).power().await;
        match (result, expected) {
            (Ok(_), None) => {}
            (Err(DriverError::Untrusted(reason)), Some(expected)) if reason.contains(expected) => {
                assert!(double.service().seen.is_empty(), "nothing may be said to a stranger");
            }
            (result, _) => panic!("{certificate:?} {verify:?}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn directory_of_certificates_is_read() {
    let double = Double::start().await;
    let mut settings = double.settings();
    let dir = double.ca().parent().unwrap().to_owned();
    settings.values.insert("redfish_verify_ca".to_owned(), json!(dir));
    connect(&driver(), &settings).power().await.unwrap();
}

#[tokio::test]
async fn plain_http_is_spoken_where_it_is_spelled_out_only() {
    let double = Double::start_with(Certificate::None).await;
    let mut settings = double.settings();
    assert_eq!(settings.values["redfish_address"].as_str().map(|address| &address[..7]), Some("http://"));
    settings.values.remove("redfish_verify_ca");
    connect(&driver(), &settings).power().await.unwrap();
    let without_scheme = double.address().trim_start_matches("http://").to_owned();
    settings.values.insert("redfish_address".to_owned(), json!(without_scheme));
    let before = double.service().seen.len();
    connect(&driver(), &settings).power().await.unwrap_err();
    assert_eq!(double.service().seen.len(), before);
}

#[tokio::test]
async fn plain_http_on_the_port_of_tls_is_told_apart_from_silence() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            use tokio::io::AsyncWriteExt;
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        }
    });
    let double = Double::start().await;
    let mut settings = double.settings();
    settings.values.insert("redfish_address".to_owned(), json!(address.to_string()));
    let error = power_error(&*connect(&driver(), &settings)).await;
    assert!(matches!(&error, DriverError::Protocol { reason, .. } if reason.contains("TLS")), "{error}");
}

#[tokio::test]
async fn system_must_be_named_where_there_are_several() {
    let (bmc, double) = pair().await;
    let members = super::double::collection(&[SYSTEM, "/redfish/v1/Systems/2"]);
    double.set("/redfish/v1/Systems", &members);
    let error = power_error(&*bmc).await;
    assert!(matches!(&error, DriverError::Settings { field, .. } if field == "redfish_system_id"), "{error}");
    double.set("/redfish/v1/Systems", &super::double::collection(&[]));
    assert!(matches!(power_error(&*bmc).await, DriverError::Protocol { .. }));
}

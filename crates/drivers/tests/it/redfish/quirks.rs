//! What controllers do differently, one test per row of the table of quirks.

use std::time::Duration;

use http::Method;
use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    power::{PowerState, PowerTarget},
};
use sabakan_drivers::{DriverError, power};
use serde_json::{Value, json};

use super::{
    double::{RESET, Reply, SYSTEM, collection},
    pair,
};

fn boot(device: BootDevice, persistent: bool) -> BootRequest {
    BootRequest { device, persistent, http_uri: None }
}

#[tokio::test]
async fn refusing_to_go_where_it_is_counts_as_done() {
    for status in [400, 409] {
        let (bmc, double) = pair().await;
        double.answer(Method::POST, RESET, 9, Reply::Error(status, "Base.1.8.X", "It is off."));
        bmc.command_power(PowerTarget::Off).await.unwrap();
        let error = bmc.command_power(PowerTarget::On).await.unwrap_err();
        assert!(matches!(error, DriverError::Rejected { .. }), "{error}");
    }
}

#[tokio::test]
async fn power_command_soon_after_another_is_repeated() {
    let (bmc, double) = pair().await;
    double.answer(Method::POST, RESET, 2, Reply::Error(409, "Base.1.8.X", "Too soon."));
    bmc.command_power(PowerTarget::On).await.unwrap();
    assert_eq!(double.seen(&Method::POST, RESET).len(), 3);
    double.answer(Method::POST, RESET, 99, Reply::Error(409, "Base.1.8.X", "Too soon."));
    let error = bmc.command_power(PowerTarget::Off).await.unwrap_err();
    assert!(matches!(error, DriverError::Rejected { .. }), "{error}");
    assert_eq!(double.seen(&Method::POST, RESET).len(), 6);
}

#[tokio::test]
async fn power_that_lags_is_waited_for() {
    let (bmc, double) = pair().await;
    let mut reads_until_on = 3;
    let mut commanded = false;
    double.rule(move |seen, _| {
        commanded |= seen.path == RESET;
        reads_until_on -= i32::from(commanded && seen.path == SYSTEM);
        let lags = seen.path == SYSTEM && commanded && reads_until_on > 0;
        lags.then(|| Reply::Json(200, json!({ "PowerState": "Off" })))
    });
    let state = power::change(&*bmc, PowerTarget::On, Duration::from_secs(20)).await.unwrap();
    assert_eq!(state, PowerState::On);
    assert_eq!(double.seen(&Method::POST, RESET).len(), 1);
}

#[tokio::test]
async fn power_without_a_word_is_unknown_and_not_off() {
    let (bmc, double) = pair().await;
    for (word, expected) in [(json!(null), None), (json!("Paused"), None), (json!("PoweringOn"), Some(PowerState::On))]
    {
        double.set(SYSTEM, &json!({ "PowerState": word }));
        assert_eq!(bmc.power().await.unwrap(), expected, "{word}");
    }
}

#[tokio::test]
async fn resets_are_chosen_from_what_is_offered() {
    for (offered, target, expected) in [
        (json!(["ForceOn", "ForceOff"]), PowerTarget::On, Some("ForceOn")),
        (json!(["PushPowerButton"]), PowerTarget::On, Some("PushPowerButton")),
        (json!(["On", "GracefulShutdown"]), PowerTarget::Off, Some("GracefulShutdown")),
        (json!(["On", "PowerCycle"]), PowerTarget::Reboot, Some("PowerCycle")),
        (json!(["On", "ForceOff"]), PowerTarget::SoftOff, None),
    ] {
        let (bmc, double) = pair().await;
        let action = json!({ "ResetType@Redfish.AllowableValues": offered });
        double.set(SYSTEM, &json!({ "Actions": { "#ComputerSystem.Reset": action } }));
        let result = bmc.command_power(target).await;
        let sent = double.seen(&Method::POST, RESET).first().map(|seen| seen.body["ResetType"].clone());
        assert_eq!(sent, expected.map(|word| json!(word)), "{target}: {result:?}");
        assert_eq!(matches!(result, Err(DriverError::Unsupported(_))), expected.is_none(), "{result:?}");
    }
}

#[tokio::test]
async fn resets_are_offered_in_a_description_or_not_at_all() {
    let (bmc, double) = pair().await;
    let action = json!({ "ResetType@Redfish.AllowableValues": null, "@Redfish.ActionInfo": "/redfish/v1/ResetInfo" });
    double.set(SYSTEM, &json!({ "Actions": { "#ComputerSystem.Reset": action } }));
    double.set(
        "/redfish/v1/ResetInfo",
        &json!({ "Parameters": [{ "Name": "ResetType", "AllowableValues": ["ForceOn"] }] }),
    );
    bmc.command_power(PowerTarget::On).await.unwrap();
    double.service().resources.remove("/redfish/v1/ResetInfo");
    double.set(SYSTEM, &json!({ "PowerState": "Off" }));
    double.rule(|seen, _| {
        (seen.body["ResetType"] == "On").then_some(Reply::Error(400, "Base.1.8.ActionParameterNotSupported", "No."))
    });
    bmc.command_power(PowerTarget::On).await.unwrap();
    let sent: Vec<Value> =
        double.seen(&Method::POST, RESET).iter().map(|seen| seen.body["ResetType"].clone()).collect();
    assert_eq!(sent, ["ForceOn", "On", "ForceOn"]);
}

#[tokio::test]
async fn permanent_boot_device_that_is_refused_becomes_one_for_the_next_boot() {
    let (bmc, double) = pair().await;
    double.rule(|seen, _| {
        let is_it = seen.body["Boot"]["BootSourceOverrideEnabled"] == "Continuous";
        is_it.then_some(Reply::Error(400, "Base.1.8.PropertyValueNotInList", "Not Continuous."))
    });
    bmc.set_boot(&boot(BootDevice::Pxe, true)).await.unwrap();
    assert_eq!(bmc.boot().await.unwrap(), (BootDevice::Pxe, false));
    let before = double.seen(&Method::PATCH, SYSTEM).len();
    bmc.set_boot(&boot(BootDevice::Disk, true)).await.unwrap();
    assert_eq!(double.seen(&Method::PATCH, SYSTEM).len(), before + 1, "the refusal is remembered");
}

#[tokio::test]
async fn members_that_do_not_change_are_left_out() {
    let (bmc, double) = pair().await;
    double.rule(|seen, service| {
        let given = seen.body["Boot"]["BootSourceOverrideEnabled"].as_str()?;
        let is_same = service.resources[SYSTEM]["Boot"]["BootSourceOverrideEnabled"] == given;
        is_same.then_some(Reply::Error(400, "Base.1.8.PropertyValueConflict", "It has this value."))
    });
    bmc.set_boot(&boot(BootDevice::Pxe, false)).await.unwrap();
    bmc.set_boot(&boot(BootDevice::Disk, false)).await.unwrap();
    assert_eq!(bmc.boot().await.unwrap(), (BootDevice::Disk, false));
    // Also where nothing at all changes.
    bmc.set_boot(&boot(BootDevice::Disk, false)).await.unwrap();
}

#[tokio::test]
async fn all_members_are_given_where_they_are_demanded() {
    let (bmc, double) = pair().await;
    double.rule(|seen, _| {
        let is_partial = seen.method == Method::PATCH && seen.body["Boot"].as_object()?.len() < 2;
        is_partial.then_some(Reply::Error(400, "Base.1.8.PropertyMissing", "All of them."))
    });
    bmc.set_boot(&boot(BootDevice::Pxe, false)).await.unwrap();
    bmc.set_boot(&boot(BootDevice::Disk, false)).await.unwrap();
    assert_eq!(bmc.boot().await.unwrap(), (BootDevice::Disk, false));
}

#[tokio::test]
async fn virtual_cd_may_be_called_otherwise() {
    let (bmc, double) = pair().await;
    double.rule(|seen, _| {
        let is_it = seen.body["Boot"]["BootSourceOverrideTarget"] == "Cd";
        is_it.then_some(Reply::Error(400, "Base.1.8.PropertyValueNotInList", "Not Cd."))
    });
    bmc.set_boot(&boot(BootDevice::Cdrom, false)).await.unwrap();
    assert_eq!(double.service().resources[SYSTEM]["Boot"]["BootSourceOverrideTarget"], "UsbCd");
    assert_eq!(bmc.boot().await.unwrap(), (BootDevice::Cdrom, false));
}

#[tokio::test]
async fn boot_settings_may_live_in_a_resource_of_their_own() {
    let (bmc, double) = pair().await;
    let settings = "/redfish/v1/Systems/1/Settings";
    double.set(SYSTEM, &json!({ "@Redfish.Settings": { "SettingsObject": { "@odata.id": settings } } }));
    double.set(settings, &json!({ "Boot": { "BootSourceOverrideEnabled": "Disabled" } }));
    double.service().etags.insert(settings.to_owned(), "W/\"7\"".to_owned());
    bmc.set_boot(&boot(BootDevice::Pxe, false)).await.unwrap();
    assert!(double.seen(&Method::PATCH, SYSTEM).is_empty());
    assert_eq!(double.service().resources[settings]["Boot"]["BootSourceOverrideTarget"], "Pxe");
}

#[tokio::test]
async fn changes_refused_during_self_test_are_repeated() {
    for reply in [
        Reply::Error(400, "iLO.2.14.UnableToModifyDuringSystemPOST", "Not now."),
        Reply::Error(409, "Base.1.8.X", "Not now."),
        Reply::Error(503, "Base.1.8.ServiceTemporarilyUnavailable", "Not now."),
    ] {
        let (bmc, double) = pair().await;
        double.answer(Method::PATCH, SYSTEM, 2, reply);
        bmc.set_boot(&boot(BootDevice::Pxe, false)).await.unwrap();
        assert_eq!(double.seen(&Method::PATCH, SYSTEM).len(), 3);
    }
}

#[tokio::test]
async fn version_is_sent_where_demanded_and_left_out_where_refused() {
    let (bmc, double) = pair().await;
    double.service().etags.insert(SYSTEM.to_owned(), "\"1\"".to_owned());
    bmc.set_boot(&boot(BootDevice::Pxe, false)).await.unwrap();
    let sent = &double.seen(&Method::PATCH, SYSTEM)[0];
    assert_eq!(sent.headers.get("if-match").map(String::as_str), Some("\"1\""));

    // It changes between reading and writing.
    let mut done = false;
    double.rule(move |seen, service| {
        if seen.method == Method::PATCH && !std::mem::replace(&mut done, true) {
            service.etags.insert(SYSTEM.to_owned(), "\"2\"".to_owned());
        }
        None
    });
    bmc.set_boot(&boot(BootDevice::Disk, false)).await.unwrap();
    assert_eq!(bmc.boot().await.unwrap().0, BootDevice::Disk);

    // It refuses every version.
    double.service().etags.insert(SYSTEM.to_owned(), "\"3\"".to_owned());
    double.rule(|seen, service| {
        if seen.headers.contains_key("if-match") {
            return Some(Reply::Json(412, Value::Null));
        }
        service.etags.remove(SYSTEM).and(None)
    });
    bmc.set_boot(&boot(BootDevice::Pxe, false)).await.unwrap();
    assert_eq!(bmc.boot().await.unwrap().0, BootDevice::Pxe);
}

#[tokio::test]
async fn collections_are_read_through_all_pages() {
    let (bmc, double) = pair().await;
    let nics = "/redfish/v1/Systems/1/EthernetInterfaces";
    let second = "/redfish/v1/Systems/1/EthernetInterfaces?$skip=1";
    let (one, two) = (format!("{nics}/1"), format!("{nics}/2"));
    let mut first = collection(&[&one]);
    first["Members@odata.nextLink"] = json!(second);
    double.set(nics, &first);
    double.set(second, &collection(&[&two]));
    assert_eq!(bmc.inspect().await.unwrap().interfaces.len(), 2);

    // A page that leads to itself ends too.
    double.set(second, &first);
    let inventory = bmc.inspect().await.unwrap();
    assert!(inventory.interfaces.is_empty());
    assert!(inventory.unknown["interfaces"].contains("pages"), "{:?}", inventory.unknown);
}

#[tokio::test]
async fn what_is_read_back_need_not_be_what_was_set() {
    let (bmc, double) = pair().await;
    double.rule(|seen, service| {
        let is_it = seen.method == Method::PATCH && seen.body["Boot"]["BootSourceOverrideTarget"] == "UefiHttp";
        is_it.then(|| {
            let boot = json!({ "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Continuous" });
            service.resources.get_mut(SYSTEM).unwrap()["Boot"] = boot;
            Reply::Json(204, Value::Null)
        })
    });
    let uri = "http://10.0.0.1/ipxe.efi".to_owned();
    let request = BootRequest { device: BootDevice::UefiHttp, persistent: false, http_uri: Some(uri.clone()) };
    bmc.set_boot(&request).await.unwrap();
    assert_eq!(double.seen(&Method::PATCH, SYSTEM)[0].body["Boot"]["HttpBootUri"], uri);
}

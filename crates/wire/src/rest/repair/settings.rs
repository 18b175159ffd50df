//! What an operator may choose about automatic repair.

use sabakan_domain::{
    cluster::shape::Problem,
    repair::settings::{RepairSettings, Setting},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SettingJson {
    /// Its name.
    #[schema(example = "observe-seconds")]
    pub name: String,
    /// What holds.
    #[schema(example = "300")]
    pub value: String,
    /// What holds if nobody says otherwise.
    #[schema(example = "300")]
    pub default: String,
    /// What it does.
    pub text: String,
}

/// Every setting.
pub fn settings_json(settings: &RepairSettings) -> Vec<SettingJson> {
    let defaults = RepairSettings::default();
    let show = |setting: Setting| SettingJson {
        name: setting.as_str().to_owned(),
        value: settings.get(setting),
        default: defaults.get(setting),
        text: setting.text().to_owned(),
    };
    Setting::ALL.into_iter().map(show).collect()
}

/// Reads settings somebody wants to change: an object of some of the names, each with a text, a number or a truth value, or a list of
/// numbers. All that is wrong is told.
pub fn settings_from_input(document: &Value) -> Result<Vec<(String, String)>, Vec<Problem>> {
    let Some(members) = document.as_object() else {
        let names = Setting::ALL.map(Setting::as_str).join(", ");
        return Err(vec![Problem::new("", format!("must be an object with some of {names}"))]);
    };
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in members {
        // No setting depends on another, so each can be tried alone.
        let tried = written(name, value).and_then(|text| RepairSettings::default().with(name, &text).map(|_| text));
        match tried {
            Ok(text) => values.push((name.clone(), text)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

fn is_label(name: &str) -> bool {
    [Setting::PowerDomainLabel, Setting::VersionLabel].iter().any(|setting| setting.as_str() == name)
}

/// A value as settings are written.
fn written(name: &str, value: &Value) -> Result<String, Problem> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        // 5.0 is a whole number, however somebody's library writes it.
        Value::Number(number) => Some(match number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15) {
            Some(whole) if !number.is_u64() => format!("{whole:.0}"),
            _ => number.to_string(),
        }),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let text = match value {
        Value::Array(items) if name == Setting::WindowsMinutes.as_str() => {
            items.iter().map(scalar).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        // 5 is a text that labels are called by, and never meant as one.
        value if is_label(name) => value.as_str().map(str::to_owned),
        value => scalar(value),
    };
    text.ok_or_else(|| Problem::new(name, "must be a text, a number or a truth value"))
}

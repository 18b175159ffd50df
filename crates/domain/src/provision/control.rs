//! What callers do with a machine besides verbs and power: how it boots, its console, its lights, and what only its vendor offers.
//! What a driver can really do is in `sabakan-drivers`; these are the rules and the words.

use std::{fmt, str::FromStr};

use super::{boot::BootMode, node::Node, states::Kind, steps::Args};

/// What is set on a machine besides its power: as callers set it, or as its controller last told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Controls {
    /// Somebody switched its console on.
    pub console_enabled: bool,
    /// How it boots; `None`: nobody knows.
    pub boot_mode: Option<BootMode>,
    /// Whether only signed programs start; `None`: nobody knows.
    pub secure_boot: Option<bool>,
}

/// Why something about a machine cannot be changed or called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlRefusal {
    /// Work decides how it boots.
    #[error("how node {node} boots cannot be changed while it is {state:?}; try again when that has ended")]
    Busy {
        /// The node.
        node: String,
        /// Its state.
        state: &'static str,
    },
    /// The driver has no such method.
    #[error("No handler for method {0}")]
    NoMethod(String),
    /// The method is called in another way.
    #[error("The method {method} does not support HTTP {http}")]
    Http {
        /// The method.
        method: String,
        /// How it was called.
        http: String,
    },
    /// A parameter the method cannot do without.
    #[error("Parameter '{parameter}' not passed to method '{method}'.")]
    Parameter {
        /// The method.
        method: String,
        /// The parameter.
        parameter: &'static str,
    },
}

/// Whether boot mode and secure boot may be changed: not under work that boots the machine itself.
pub fn check_boot_change(node: &Node) -> Result<(), ControlRefusal> {
    match node.state.kind() {
        Kind::Stable | Kind::Failed => Ok(()),
        Kind::Busy | Kind::Waiting | Kind::Holding => {
            Err(ControlRefusal::Busy { node: node.name.to_string(), state: node.state.wire() })
        }
    }
}

/// Something only a vendor's controller can do, by its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VendorMethod {
    /// Its name.
    pub name: &'static str,
    /// How it is called.
    pub http_methods: &'static [&'static str],
    /// The caller does not wait for a result.
    pub asynchronous: bool,
    /// It changes the machine: nobody else may work on it.
    pub exclusive: bool,
    /// Parameters it cannot do without.
    pub parameters: &'static [&'static str],
    /// For people.
    pub text: &'static str,
}

/// The method a caller means, if it may be called like this.
pub fn vendor_method<'a>(
    offered: &'a [VendorMethod],
    name: &str,
    http: &str,
    args: &Args,
) -> Result<&'a VendorMethod, ControlRefusal> {
    let found = offered.iter().find(|method| method.name == name);
    let found = found.ok_or_else(|| ControlRefusal::NoMethod(name.to_owned()))?;
    if !found.http_methods.contains(&http) {
        return Err(ControlRefusal::Http { method: name.to_owned(), http: http.to_owned() });
    }
    let given = |parameter: &&&str| args.get(**parameter).is_some_and(|value| !value.is_null() && value != "");
    match found.parameters.iter().find(|parameter| !given(parameter)) {
        Some(parameter) => Err(ControlRefusal::Parameter { method: name.to_owned(), parameter }),
        None => Ok(found),
    }
}

/// A light on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indicator {
    /// The part it is on, such as `chassis`.
    pub component: &'static str,
    /// Its name, unique on that part.
    pub name: String,
    /// Nobody can change it from here.
    pub read_only: bool,
    /// What it can show.
    pub states: &'static [Light],
    /// What it shows.
    pub state: Light,
}

/// What a light shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Light {
    /// It blinks.
    Blinking,
    /// It is dark.
    Off,
    /// It is lit.
    On,
}

impl Light {
    /// Every state.
    pub const ALL: [Light; 3] = [Light::Blinking, Light::Off, Light::On];

    /// The word of the provisioning API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Light::Blinking => "blinking",
            Light::Off => "off",
            Light::On => "on",
        }
    }
}

impl fmt::Display for Light {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Light {
    type Err = String;

    fn from_str(text: &str) -> Result<Light, String> {
        let found = Light::ALL.into_iter().find(|light| light.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("{text:?} is not one of: {}", Light::ALL.map(Light::as_str).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provision::{fixtures, states::State};

    #[test]
    fn the_way_a_machine_boots_is_left_alone_while_it_is_worked_on() {
        for state in State::ALL {
            let node = fixtures::Desk::at(state).node;
            let free = matches!(state.kind(), Kind::Stable | Kind::Failed);
            assert_eq!(check_boot_change(&node).is_ok(), free, "{state}");
        }
    }

    #[test]
    fn a_vendors_method_is_called_as_it_wants_to_be() {
        let offered = [VendorMethod {
            name: "blow",
            http_methods: &["POST"],
            asynchronous: false,
            exclusive: true,
            parameters: &["horn"],
            text: "",
        }];
        let with = |horn| Args::from([("horn".to_owned(), horn)]);
        let check = |name: &str, http: &str, args: &Args| {
            vendor_method(&offered, name, http, args).map(|found| found.name).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(check("blow", "POST", &with(json!("loud"))), Ok("blow"));
        assert_eq!(check("nosuch", "POST", &Args::new()), Err("No handler for method nosuch".to_owned()));
        assert_eq!(check("blow", "GET", &Args::new()), Err("The method blow does not support HTTP GET".to_owned()));
        let missing = Err("Parameter 'horn' not passed to method 'blow'.".to_owned());
        assert_eq!(check("blow", "POST", &Args::new()), missing);
        assert_eq!(check("blow", "POST", &with(json!(""))), missing);
    }
}

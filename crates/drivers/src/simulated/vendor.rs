//! Lights and methods of simulated machines: those that test suites of clients look for in a driver of this name. They do nothing.

use sabakan_domain::provision::{
    control::{Indicator, Light, VendorMethod},
    steps::Args,
};
use serde_json::Value;

use crate::DriverError;

const fn method(name: &'static str, text: &'static str) -> VendorMethod {
    VendorMethod { name, http_methods: &["POST"], asynchronous: true, exclusive: true, parameters: &["bar"], text }
}

/// What can be called.
pub(super) const METHODS: &[VendorMethod] = &[
    VendorMethod { exclusive: false, ..method("fourth_method_shared_lock", "Whether bar is woof.") },
    VendorMethod { parameters: &[], ..method("log_passthrough", "Nothing at all.") },
    method("second_method", "Whether bar is kazoo."),
    VendorMethod { asynchronous: false, ..method("third_method_sync", "Whether bar is meow.") },
];

/// What a call comes to.
pub(super) fn answer(name: &str, args: &Args) -> Result<Value, DriverError> {
    let is = |word: &str| Ok(Value::Bool(args.get("bar").and_then(Value::as_str) == Some(word)));
    match name {
        "fourth_method_shared_lock" => is("woof"),
        "second_method" => is("kazoo"),
        "third_method_sync" => is("meow"),
        "log_passthrough" => Ok(Value::Null),
        _ => Err(DriverError::Unsupported(name.to_owned())),
    }
}

/// Two lights, always on.
pub(super) fn indicators() -> Vec<Indicator> {
    let light = |component, name: &str, read_only, states| Indicator {
        component,
        name: name.to_owned(),
        read_only,
        states,
        state: Light::On,
    };
    vec![
        light("chassis", "led-0", true, &[Light::Off, Light::On]),
        light("system", "led", false, &[Light::Blinking, Light::Off, Light::On]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_that_is_offered_answers() {
        for method in METHODS {
            assert!(answer(method.name, &Args::new()).is_ok(), "{}", method.name);
        }
        assert!(answer("nosuch", &Args::new()).is_err());
        let meow = Args::from([("bar".to_owned(), "meow".into())]);
        assert_eq!(answer("third_method_sync", &meow), Ok(Value::Bool(true)));
    }
}

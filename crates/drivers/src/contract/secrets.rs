//! Passwords are in nothing that is printed.

use super::{Subject, connect};
use crate::Settings;

/// Neither settings nor errors show a secret, and every secret of the settings is declared as one.
pub async fn secrets_are_not_shown(subject: &Subject<'_>) {
    let mut printed = String::new();
    for settings in [&subject.settings, &subject.wrong_credentials, &subject.unreachable] {
        printed.push_str(&format!("{settings:?}\n{settings:#?}\n"));
        let bmc = connect(subject.driver, settings);
        if let Err(error) = bmc.power().await {
            printed.push_str(&format!("{error}\n{error:?}\n"));
        }
    }
    let mut looked_for = 0;
    for settings in [&subject.settings, &subject.wrong_credentials, &subject.unreachable] {
        looked_for += check(subject.driver.secret_settings(), settings, &printed);
    }
    assert!(looked_for > 0, "the subject's settings hold no secret, so that nothing was checked");
}

fn check(declared: &[&str], settings: &Settings, printed: &str) -> usize {
    for (key, secret) in &settings.secrets {
        assert!(declared.contains(&key.as_str()), "{key} is used as a secret, but not declared as one");
        // The text is not repeated here: a failing test must not print it either.
        assert!(!printed.contains(secret.expose()), "the value of {key} was printed");
    }
    settings.secrets.len()
}

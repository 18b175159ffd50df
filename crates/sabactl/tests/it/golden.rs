//! Help texts are part of the interface: a change shows up as a difference to read.

use std::{fs, path::Path};

use crate::program::sabactl;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["ipam"],
    &["ipam", "set"],
    &["ipam", "get"],
    &["dhcp"],
    &["dhcp", "set"],
    &["dhcp", "get"],
    &["machines"],
    &["machines", "create"],
    &["machines", "get"],
    &["machines", "remove"],
    &["machines", "get-state"],
    &["machines", "set-state"],
    &["machines", "set-label"],
    &["machines", "remove-label"],
    &["machines", "set-retire-date"],
    &["nodes"],
    &["nodes", "list"],
    &["nodes", "show"],
    &["nodes", "manage"],
    &["nodes", "provide"],
    &["nodes", "inspect"],
    &["nodes", "clean"],
    &["nodes", "deploy"],
    &["nodes", "rebuild"],
    &["nodes", "undeploy"],
    &["nodes", "rescue"],
    &["nodes", "unrescue"],
    &["nodes", "adopt"],
    &["nodes", "service"],
    &["nodes", "abort"],
    &["nodes", "unhold"],
    &["nodes", "power"],
    &["nodes", "maintenance"],
    &["nodes", "maintenance", "set"],
    &["nodes", "maintenance", "clear"],
    &["nodes", "set"],
    &["nodes", "history"],
    &["nodes", "inventory"],
    &["nodes", "wait"],
    &["cluster"],
    &["cluster", "plan"],
    &["cluster", "explain"],
    &["cluster", "why-not"],
    &["cluster", "simulate"],
    &["cluster", "set-template"],
    &["cluster", "get-template"],
    &["cluster", "set-variables"],
    &["cluster", "get-variables"],
    &["cluster", "reset-variables"],
    &["cluster", "enable"],
    &["cluster", "disable"],
    &["cluster", "is-enabled"],
    &["cluster", "get"],
    &["cluster", "set"],
    &["cluster", "plans"],
    &["cluster", "show-plan"],
    &["cluster", "status"],
    &["constraints"],
    &["constraints", "set"],
    &["constraints", "show"],
    &["auto-repair"],
    &["auto-repair", "enable"],
    &["auto-repair", "disable"],
    &["auto-repair", "is-enabled"],
    &["auto-repair", "set-variables"],
    &["auto-repair", "get-variables"],
    &["auto-repair", "reset-variables"],
    &["auto-repair", "settings"],
    &["auto-repair", "settings", "set"],
    &["auto-repair", "status"],
    &["auto-repair", "explain"],
    &["repair-queue"],
    &["repair-queue", "enable"],
    &["repair-queue", "disable"],
    &["repair-queue", "is-enabled"],
    &["repair-queue", "add"],
    &["repair-queue", "list"],
    &["repair-queue", "delete"],
    &["repair-queue", "delete-finished"],
    &["repair-queue", "delete-unfinished"],
    &["repair-queue", "reset-backoff"],
    &["repair-queue", "wait"],
    &["reboot-queue"],
    &["reboot-queue", "enable"],
    &["reboot-queue", "disable"],
    &["reboot-queue", "is-enabled"],
    &["reboot-queue", "add"],
    &["reboot-queue", "list"],
    &["reboot-queue", "cancel"],
    &["reboot-queue", "cancel-all"],
    &["reboot-queue", "reset-backoff"],
    &["incidents"],
    &["incidents", "list"],
    &["incidents", "show"],
    &["incidents", "acknowledge"],
    &["crypts"],
    &["crypts", "delete"],
    &["events"],
    &["logs"],
    &["tokens"],
    &["tokens", "create"],
    &["tokens", "list"],
    &["tokens", "revoke"],
    &["completion"],
    &["version"],
];

#[test]
fn help_texts() {
    let mut shown = String::new();
    for names in COMMANDS {
        let help = sabactl(names.iter().copied().chain(["--help"]), "");
        assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{names:?}");
        shown += &format!(
            "$ sabactl {}\n{}\n",
            names.iter().copied().chain(["--help"]).collect::<Vec<_>>().join(" "),
            help.stdout
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help.txt");
    if std::env::var("SABAKAN_GOLDEN").as_deref() == Ok("write") {
        fs::write(&path, &shown).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == shown,
        "help differs from {}; run with SABAKAN_GOLDEN=write and read the difference:\n{shown}",
        path.display()
    );
}

/// What is shown on demand and what is in the documentation cannot differ.
#[test]
fn reference_page_holds_every_help_text() {
    let page = sabactl(["reference"], "").stdout;
    for names in COMMANDS {
        let help = sabactl(names.iter().copied().chain(["--help"]), "").stdout;
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        assert!(page.contains(&lines.join("\n")), "{names:?}");
    }
    assert_eq!(page.matches("\n## ").count(), COMMANDS.len());
}

//! `sabactl completion`: scripts that complete commands in a shell.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Cli;

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    let whole = Cli::command();
    // Commands that are not for people are not offered either.
    let visible = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let version = whole.get_version().unwrap_or_default().to_owned();
    let mut command =
        clap::Command::new("sabactl").version(version).args(whole.get_arguments().cloned()).subcommands(visible);
    let mut script = Vec::new();
    generate(shell, &mut command, "sabactl", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for word in [
                "sabactl",
                "ipam",
                "dhcp",
                "machines",
                "create",
                "remove",
                "without-labels",
                "batch-size",
                "repair-queue",
                "version",
            ] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains("reference"), "{shell}");
        }
    }
}

//! The reference page of this program, made of the help of every command.

use clap::CommandFactory;

use crate::args::{self, Cli};

/// A fixed width: the page must not depend on somebody's terminal.
const WIDTH: usize = 100;

/// The page as Markdown.
pub fn page() -> String {
    let mut page = "# sabactl\n\nGenerated from the program itself by `cargo xtask codegen`; do not edit.\n".to_owned();
    describe(&Cli::command(), &mut Vec::new(), &mut page);
    page
}

/// Adds this command, whose place is named by `names`, and everything below it.
fn describe<'a>(command: &'a clap::Command, names: &mut Vec<&'a str>, page: &mut String) {
    let title: Vec<&str> = ["sabactl"].into_iter().chain(names.iter().copied()).collect();
    let help = args::help(names, Some(WIDTH));
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {}\n\n```text\n{}\n```\n", title.join(" "), help.join("\n")));
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        names.push(subcommand.get_name());
        describe(subcommand, names, page);
        names.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_every_command_for_people() {
        let page = page();
        let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let expected = [
            "sabactl",
            "sabactl ipam",
            "sabactl ipam set",
            "sabactl ipam get",
            "sabactl dhcp",
            "sabactl dhcp set",
            "sabactl dhcp get",
            "sabactl machines",
            "sabactl machines create",
            "sabactl machines get",
            "sabactl machines remove",
            "sabactl machines get-state",
            "sabactl machines set-state",
            "sabactl machines set-label",
            "sabactl machines remove-label",
            "sabactl machines set-retire-date",
            "sabactl nodes",
            "sabactl nodes list",
            "sabactl nodes show",
            "sabactl nodes manage",
            "sabactl nodes provide",
            "sabactl nodes inspect",
            "sabactl nodes clean",
            "sabactl nodes deploy",
            "sabactl nodes rebuild",
            "sabactl nodes undeploy",
            "sabactl nodes rescue",
            "sabactl nodes unrescue",
            "sabactl nodes adopt",
            "sabactl nodes service",
            "sabactl nodes abort",
            "sabactl nodes unhold",
            "sabactl nodes power",
            "sabactl nodes maintenance",
            "sabactl nodes maintenance set",
            "sabactl nodes maintenance clear",
            "sabactl nodes set",
            "sabactl nodes history",
            "sabactl nodes inventory",
            "sabactl nodes wait",
            "sabactl cluster",
            "sabactl cluster plan",
            "sabactl cluster explain",
            "sabactl cluster why-not",
            "sabactl cluster simulate",
            "sabactl cluster set-template",
            "sabactl cluster get-template",
            "sabactl cluster set-variables",
            "sabactl cluster get-variables",
            "sabactl cluster reset-variables",
            "sabactl cluster enable",
            "sabactl cluster disable",
            "sabactl cluster is-enabled",
            "sabactl cluster get",
            "sabactl cluster set",
            "sabactl cluster plans",
            "sabactl cluster show-plan",
            "sabactl cluster status",
            "sabactl constraints",
            "sabactl constraints set",
            "sabactl constraints show",
            "sabactl auto-repair",
            "sabactl auto-repair enable",
            "sabactl auto-repair disable",
            "sabactl auto-repair is-enabled",
            "sabactl auto-repair set-variables",
            "sabactl auto-repair get-variables",
            "sabactl auto-repair reset-variables",
            "sabactl auto-repair settings",
            "sabactl auto-repair settings set",
            "sabactl auto-repair status",
            "sabactl auto-repair explain",
            "sabactl repair-queue",
            "sabactl repair-queue enable",
            "sabactl repair-queue disable",
            "sabactl repair-queue is-enabled",
            "sabactl repair-queue add",
            "sabactl repair-queue list",
            "sabactl repair-queue delete",
            "sabactl repair-queue delete-finished",
            "sabactl repair-queue delete-unfinished",
            "sabactl repair-queue reset-backoff",
            "sabactl repair-queue wait",
            "sabactl reboot-queue",
            "sabactl reboot-queue enable",
            "sabactl reboot-queue disable",
            "sabactl reboot-queue is-enabled",
            "sabactl reboot-queue add",
            "sabactl reboot-queue list",
            "sabactl reboot-queue cancel",
            "sabactl reboot-queue cancel-all",
            "sabactl reboot-queue reset-backoff",
            "sabactl incidents",
            "sabactl incidents list",
            "sabactl incidents show",
            "sabactl incidents acknowledge",
            "sabactl crypts",
            "sabactl crypts delete",
            "sabactl events",
            "sabactl logs",
            "sabactl tokens",
            "sabactl tokens create",
            "sabactl tokens list",
            "sabactl tokens revoke",
            "sabactl completion",
            "sabactl version",
        ];
        assert_eq!(headings, expected);
        assert!(page.lines().all(|line| line.chars().count() <= 110 && line.trim_end() == line), "{page}");
    }
}

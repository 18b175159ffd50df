//! What can be typed. Turns arguments into a [`Cli`], or into the text of `--help` and `--version`; long flags may have one dash.

use std::{ffi::OsString, path::PathBuf};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use clap_complete::Shell;
use sabakan_wire::flags;

use crate::{
    auto_repair, cluster, constraints, crypts, dhcp, events, exit::Failure, incidents, ipam, logs, machines, nodes,
    reboot_queue, repair_queue, tokens,
};

/// What `--version` shows after the name of the program.
const VERSION: &str = concat!("version ", env!("CARGO_PKG_VERSION"));

/// Command line of sabakan, which looks after the physical servers of a data centre.
///
/// Results go to standard output, errors to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "sabactl",
    version = VERSION,
    max_term_width = 100,
    after_help = "Examples:
  sabactl ipam set -f ipam.json            set how addresses are assigned
  sabactl machines create -f racks.json    register machines
  sabactl machines get --rack 1            show the machines of rack 1
  sabactl nodes list                       show what provisioning does with them
  sabactl cluster plan                     show what the next round does with the Kubernetes cluster
  sabactl auto-repair status               show how repair is doing, and what stands in its way
  sabactl logs 20301231                    show who changed what on that day
  sabactl --server https://boot-0:8443 --ca-file server.crt --token-file me.token machines get
                                           the same from another host, verified and encrypted

Exit codes:
  0  success
  1  flags, arguments, files, connection
  2  unknown command
  4  the server refused the request (14: not found, 19: conflict)
  5  the server failed
  6  the work of a node failed (7: not done in time)"
)]
pub struct Cli {
    /// URL of the server
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "SABAKAN_URL",
        hide_env_values = true,
        default_value = "http://localhost:8888"
    )]
    pub server: String,
    /// File with an access token, `-` is standard input; without it the token is taken from the environment variable SABAKAN_TOKEN, if there is one
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// File with certificates (PEM) to verify an https:// server with, such as server.crt from its data directory; without it
    /// those of the authorities that this system trusts
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SABAKAN_CA_FILE",
        hide_env_values = true,
        value_hint = clap::ValueHint::FilePath
    )]
    pub ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub older: OlderFlags,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of the older program. Scripts that give them keep working; most mean nothing here.
#[derive(Debug, clap::Args)]
pub struct OlderFlags {
    /// The server for `crypts`, which the older program reached over HTTPS and everything else over HTTP.
    #[arg(long, global = true, hide = true, value_name = "URL")]
    pub tls_server: Option<String>,
    /// Has no effect: whoever answered in the server's place would be given the token.
    #[arg(long, global = true, hide = true)]
    pub insecure: bool,
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    logfile: Option<String>,
    #[arg(long, global = true, hide = true, value_name = "LEVEL")]
    loglevel: Option<String>,
    #[arg(long, global = true, hide = true, value_name = "FORMAT")]
    logformat: Option<String>,
}

/// Commands without their own subcommand print their help.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// How addresses are assigned to machines
    #[command(after_help = "Examples:\n  sabactl ipam set -f ipam.json\n  sabactl ipam get")]
    Ipam {
        #[command(subcommand)]
        command: Option<ipam::Command>,
    },
    /// What DHCP clients are told
    #[command(after_help = "Examples:\n  sabactl dhcp set -f dhcp.json\n  sabactl dhcp get")]
    Dhcp {
        #[command(subcommand)]
        command: Option<dhcp::Command>,
    },
    /// Registered machines
    #[command(
        after_help = "Examples:\n  sabactl machines create -f racks.json\n  sabactl machines get --rack 1\n  sabactl machines set-state 1234abcd retiring\n  sabactl machines remove 1234abcd"
    )]
    Machines {
        #[command(subcommand)]
        command: Option<machines::Command>,
    },
    /// Machines on their way from enrolment to use and back: provisioning
    #[command(after_help = nodes::EXAMPLES)]
    Nodes(nodes::Nodes),
    /// Which machines form the Kubernetes cluster, and why
    #[command(after_help = cluster::EXAMPLES)]
    Cluster {
        #[command(subcommand)]
        command: Option<cluster::Command>,
    },
    /// How large the cluster may be, and how much may be repaired at once
    #[command(after_help = "Examples:\n  sabactl constraints set control-plane-count 3\n  sabactl constraints show")]
    Constraints {
        #[command(subcommand)]
        command: Option<constraints::Command>,
    },
    /// Whether and which broken machines are repaired by themselves, and why not
    #[command(after_help = auto_repair::EXAMPLES)]
    AutoRepair {
        #[command(subcommand)]
        command: Option<auto_repair::Command>,
    },
    /// Machines that are being repaired
    #[command(after_help = repair_queue::EXAMPLES)]
    RepairQueue {
        #[command(subcommand)]
        command: Option<repair_queue::Command>,
    },
    /// Nodes that are to be rebooted in an orderly way
    #[command(visible_alias = "rq", after_help = reboot_queue::EXAMPLES)]
    RebootQueue {
        #[command(subcommand)]
        command: Option<reboot_queue::Command>,
    },
    /// What failed together, and is held back from repair
    #[command(after_help = incidents::EXAMPLES)]
    Incidents {
        #[command(subcommand)]
        command: Option<incidents::Command>,
    },
    /// Keys of encrypted disks
    #[command(after_help = "Example:\n  sabactl crypts delete --force 1234abcd")]
    Crypts {
        #[command(subcommand)]
        command: Option<crypts::Command>,
    },
    /// What changes, as it changes, as lines of JSON
    ///
    /// Without --after every machine as it is comes first, as events of the kind snapshot, then the line snapshot-end. Every
    /// other event has a revision; give it to --after to go on from there.
    #[command(after_help = "Examples:
  sabactl events                            every machine as it is
  sabactl events --after 1234               what has happened since
  sabactl events --follow | jq -c '[.revision, .kind, .serial]'")]
    Events(events::Events),
    /// Who changed what: the audit log
    #[command(
        alias = "log",
        after_help = "Examples:
  sabactl logs                     everything that is kept
  sabactl logs 20301231            that day
  sabactl logs 20301201 20310101   December 2030
  sabactl logs --json 20301231 | jq .detail"
    )]
    Logs(logs::Logs),
    /// Access tokens
    #[command(after_help = "Examples:
  sabactl tokens create --role operator alice > alice.token
  sabactl --token-file alice.token machines get
  sabactl tokens list")]
    Tokens {
        #[command(subcommand)]
        command: Option<tokens::Command>,
    },
    /// Print a script that completes commands in a shell
    #[command(after_help = "Examples:
  source <(sabactl completion)                                        for this shell only
  sabactl completion zsh > \"${fpath[1]}/_sabactl\"                     for every zsh
  sabactl completion fish > ~/.config/fish/completions/sabactl.fish   for every fish")]
    Completion {
        /// The shell
        #[arg(value_enum, default_value = "bash")]
        shell: Shell,
    },
    /// Print the version of this program
    #[command(after_help = "Example:\n  sabactl version")]
    Version,
    /// Print this reference as Markdown
    #[command(hide = true)]
    Reference,
}

/// What arguments ask for.
#[derive(Debug)]
pub enum Parsed {
    /// A text that is the whole answer.
    Text(String),
    /// Work.
    Cli(Box<Cli>),
}

/// Understands a command line, the program's name included.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    match Cli::try_parse_from(respelled(args)) {
        Ok(cli) => Ok(Parsed::Cli(Box::new(cli))),
        Err(error) => refusal(&error),
    }
}

/// What `--help` shows for the command with these names.
pub fn help(names: &[&str], width: Option<usize>) -> String {
    // Through the parser, because it alone knows which of its two layouts a person gets.
    let command = width.into_iter().fold(Cli::command(), clap::Command::term_width);
    let args = ["sabactl"].iter().chain(names).chain(&["--help"]);
    command.try_get_matches_from(args).expect_err("help is reported as an error").render().to_string()
}

/// What `--version` prints.
pub fn version() -> String {
    Cli::command().render_version()
}

/// Only what is known to be a flag gets its second dash.
fn respelled(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut command = Cli::command();
    // Building adds the flags every command has.
    command.build();
    let mut known = Vec::new();
    collect_flags(&command, &mut known);
    flags::double_dashes(args, &known)
}

fn collect_flags<'a>(command: &'a clap::Command, known: &mut Vec<&'a str>) {
    known.extend(command.get_arguments().filter_map(clap::Arg::get_long));
    command.get_subcommands().for_each(|command| collect_flags(command, known));
}

fn refusal(error: &clap::Error) -> Result<Parsed, Failure> {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Parsed::Text(text)),
        kind => {
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            Err(if kind == ErrorKind::InvalidSubcommand {
                Failure::unknown_command(text)
            } else {
                Failure::general(text)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Parsed, Failure> {
        super::parse(line.split(' ').map(OsString::from))
    }

    fn cli(line: &str) -> Cli {
        match parse(line) {
            Ok(Parsed::Cli(cli)) => *cli,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_may_have_one_dash_and_stand_anywhere() {
        for line in [
            "sabactl --server http://a:1 ipam get",
            "sabactl -server http://a:1 ipam get",
            "sabactl -server=http://a:1 ipam get",
            "sabactl ipam get -server http://a:1",
            "sabactl ipam -server http://a:1 get",
        ] {
            assert_eq!(cli(line).server, "http://a:1", "{line}");
        }
        for (one, two) in [
            ("sabactl machines get -rack 1 -without-role boot", "sabactl machines get --rack 1 --without-role boot"),
            ("sabactl machines create -f a -batch-size 5", "sabactl machines create --file a --batch-size=5"),
            ("sabactl machines get -o json", "sabactl machines get -output json"),
            ("sabactl crypts delete -force a", "sabactl crypts delete --force a"),
            ("sabactl log -json 20301231", "sabactl logs --json 20301231"),
            ("sabactl nodes list -stuck", "sabactl nodes list --stuck=15m"),
            ("sabactl nodes manage a -wait -timeout 5m", "sabactl nodes manage --wait --timeout=300s a"),
            ("sabactl nodes -ironic-server http://b:1 show a", "sabactl nodes show a --ironic-server http://b:1"),
            ("sabactl machines set-label a b -1", "sabactl machines set-label a b -- -1"),
            ("sabactl rq add -", "sabactl reboot-queue add -"),
            ("sabactl repair-queue wait -timeout-seconds 0", "sabactl repair-queue wait --timeout-seconds=0"),
            ("sabactl incidents list -open -o json", "sabactl incidents list --open --output json"),
        ] {
            assert_eq!(format!("{:?}", cli(one).command), format!("{:?}", cli(two).command));
        }
    }

    #[test]
    fn what_is_wrong_ends_with_the_documented_code() {
        let check = |line: &str, code: u8, text: &str| {
            let failure = parse(line).expect_err(line);
            assert_eq!(failure.code, code, "{line}");
            assert!(failure.text.starts_with(text), "{line}: {}", failure.text);
        };
        check("sabactl foo", 2, "unrecognized subcommand 'foo'");
        check("sabactl machines foo", 2, "unrecognized subcommand 'foo'");
        check("sabactl help foo", 2, "unrecognized subcommand 'foo'");
        check("sabactl --foo", 1, "unexpected argument '--foo'");
        check("sabactl ipam set", 1, "the following required arguments were not provided");
        check("sabactl ipam get more", 1, "unexpected argument 'more'");
        check("sabactl machines remove", 1, "the following required arguments were not provided");
        check("sabactl machines remove a b", 1, "unexpected argument 'b'");
        check("sabactl machines remove a --state retired", 1, "the argument '[SERIAL]' cannot be used with");
        check("sabactl machines remove --state healthy", 1, "invalid value 'healthy'");
        check("sabactl machines get --state broken", 1, "state: \"broken\" is not a state; they are uninitialized, ");
        check("sabactl machines get --rack x", 1, "rack: \"x\" is not a rack number");
        check("sabactl machines get --without-ipv4 10.0", 1, "without-ipv4: \"10.0\" is not an IPv4 address");
        check("sabactl machines get --labels a", 1, "invalid query in labels");
        check("sabactl machines set-state a", 1, "the following required arguments were not provided");
        check("sabactl machines set-retire-date a 2030-13-01", 1, "invalid value '2030-13-01'");
        check("sabactl machines set-retire-date a 31.12.2030", 1, "invalid value '31.12.2030'");
        check("sabactl logs 2030-12-31", 1, "invalid value '2030-12-31'");
        check("sabactl tokens create --role root x", 1, "invalid value 'root'");
        check("sabactl tokens create x", 1, "the following required arguments were not provided");
        check("sabactl --token secret version", 1, "unexpected argument '--token'");
        check("sabactl machines get -o yaml", 1, "unknown output format \"yaml\"");
        check("sabactl machines create -f a --batch-size 0", 1, "invalid value '0'");
        check("sabactl machines create -f a --skip -1", 1, "unexpected argument '-1'");
        check("sabactl nodes foo", 2, "unrecognized subcommand 'foo'");
        check("sabactl nodes manage", 1, "the following required arguments were not provided");
        check("sabactl nodes manage a --timeout 5m", 1, "the following required arguments were not provided");
        check("sabactl nodes manage a --wait --timeout soon", 1, "invalid value 'soon'");
        check("sabactl nodes clean a --step x.y", 1, "invalid value 'x.y'");
        check("sabactl nodes clean a --step deploy.x --steps f", 1, "the argument '--step");
        check("sabactl nodes set", 1, "the following required arguments were not provided");
        check("sabactl nodes set a --driver-info ipmi_password=x", 1, "invalid value 'ipmi_password=");
        check("sabactl nodes list --state broken", 1, "invalid value 'broken'");
        check("sabactl nodes power up a", 1, "invalid value 'up'");
        check("sabactl nodes rescue a", 1, "the following required arguments were not provided");
        check("sabactl nodes rescue --rescue-password x a", 1, "unexpected argument '--rescue-password'");
        check("sabactl cluster foo", 2, "unrecognized subcommand 'foo'");
        check("sabactl cluster set-template", 1, "the following required arguments were not provided");
        check("sabactl cluster simulate --rounds 0", 1, "invalid value '0'");
        check("sabactl cluster show-plan last", 1, "invalid value 'last'");
        check("sabactl constraints set workers 3", 1, "invalid value 'workers'");
        check("sabactl constraints set minimum-workers many", 1, "invalid value 'many'");
        check("sabactl auto-repair settings set guards true", 1, "invalid value 'guards'");
        check("sabactl auto-repair explain", 1, "the following required arguments were not provided");
        check("sabactl auto-repair status -o yaml", 1, "invalid value 'yaml'");
        check("sabactl repair-queue foo", 2, "unrecognized subcommand 'foo'");
        check("sabactl repair-queue add unreachable type1 node1", 1, "invalid value 'node1'");
        check("sabactl repair-queue delete first", 1, "invalid value 'first'");
        check("sabactl repair-queue wait --interval-seconds 0", 1, "invalid value '0'");
        check("sabactl reboot-queue add", 1, "the following required arguments were not provided");
        check("sabactl incidents acknowledge", 1, "the following required arguments were not provided");
        check("sabactl completion tcsh", 1, "invalid value 'tcsh'");
    }

    #[test]
    fn help_and_version_are_answers() {
        let check = |line: &str, text: &str| match parse(line) {
            Ok(Parsed::Text(shown)) => assert!(shown.starts_with(text), "{line}: {shown}"),
            other => panic!("{line}: {other:?}"),
        };
        check("sabactl --help", "Command line of sabakan");
        check("sabactl -help", "Command line of sabakan");
        check("sabactl help machines", "Registered machines");
        check("sabactl machines create -h", "Register machines");
        check("sabactl --version", &version());
        assert_eq!(version(), format!("sabactl version {}\n", env!("CARGO_PKG_VERSION")));
        for line in [
            "sabactl",
            "sabactl ipam",
            "sabactl dhcp",
            "sabactl machines",
            "sabactl crypts",
            "sabactl cluster",
            "sabactl constraints",
            "sabactl auto-repair",
            "sabactl repair-queue",
            "sabactl reboot-queue",
            "sabactl incidents",
            "sabactl tokens",
            "sabactl --server http://a",
        ] {
            let nothing_to_do = matches!(
                cli(line).command,
                None | Some(
                    Command::Ipam { command: None }
                        | Command::Dhcp { command: None }
                        | Command::Machines { command: None }
                        | Command::Crypts { command: None }
                        | Command::Cluster { command: None }
                        | Command::Constraints { command: None }
                        | Command::AutoRepair { command: None }
                        | Command::RepairQueue { command: None }
                        | Command::RebootQueue { command: None }
                        | Command::Incidents { command: None }
                        | Command::Tokens { command: None }
                )
            );
            assert!(nothing_to_do, "{line}");
        }
        assert!(help(&["machines"], None).contains("Usage: sabactl machines [OPTIONS] [COMMAND]"));
    }

    #[test]
    #[cfg(unix)]
    fn file_names_may_be_any_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(vec![b'a', 0xff]);
        let args = ["sabactl", "machines", "create", "-file"].into_iter().map(OsString::from).chain([odd.clone()]);
        let Ok(Parsed::Cli(cli)) = super::parse(args) else { panic!("not understood") };
        let Some(Command::Machines { command: Some(machines::Command::Create(create)) }) = cli.command else {
            panic!("another command")
        };
        assert_eq!(create.input.file, odd);
    }
}

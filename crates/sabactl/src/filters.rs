//! The conditions of `machines get`. Every query parameter of the API is a flag, and so is its negation; the names come from the
//! API, so that none can be forgotten.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use sabakan_domain::lifecycle::HealthState;
use sabakan_wire::rest::QueryParams;

/// Conditions as they go to the server.
#[derive(Debug, Clone, Default)]
pub struct Filters(pub QueryParams);

/// Placeholder and help of a parameter, the latter continuing "machines with".
fn described(name: &str) -> (&'static str, &'static str) {
    match name {
        "serial" => ("SERIAL,...", "one of these serials"),
        "rack" => ("NUMBER,...", "one of these rack numbers"),
        "role" => ("ROLE,...", "one of these roles"),
        "labels" => ("NAME=VALUE,...", "all of these labels"),
        "ipv4" => ("ADDRESS,...", "one of these IPv4 addresses"),
        "ipv6" => ("ADDRESS,...", "one of these IPv6 addresses"),
        "bmc-type" => ("TYPE,...", "one of these types of management controller"),
        "state" => ("STATE,...", "one of these states"),
        "index-in-rack" => ("NUMBER,...", "one of these indices in their rack"),
        "datacenter" => ("NAME", "this label `datacenter`"),
        "product" => ("NAME", "this label `product`"),
        _ => ("VALUE", "this value"),
    }
}

/// The states, whose words one cannot guess.
fn states() -> String {
    HealthState::ALL.map(HealthState::as_str).join(", ")
}

impl Args for Filters {
    fn augment_args(command: Command) -> Command {
        let flag = |name: String, heading: &'static str| {
            let (value, help) = described(name.trim_start_matches("without-"));
            let help = if name == "state" { format!("{help}: {}", states()) } else { help.to_owned() };
            // Given twice means both: `--rack 1 --rack 2` is `--rack 1,2`.
            let arg = Arg::new(name.clone()).long(name).value_name(value).help(help).action(ArgAction::Append);
            arg.help_heading(heading)
        };
        let with = QueryParams::NAMES.map(|name| flag(name.to_owned(), "Only machines with"));
        let without = QueryParams::NAMES.map(|name| flag(format!("without-{name}"), "No machines with"));
        command.args(with).args(without)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Filters::augment_args(command)
    }
}

impl FromArgMatches for Filters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Filters, clap::Error> {
        let mut params = QueryParams::default();
        for name in QueryParams::NAMES.into_iter().flat_map(|name| [name.to_owned(), format!("without-{name}")]) {
            let values: Vec<&str> =
                matches.get_many::<String>(&name).into_iter().flatten().map(String::as_str).collect();
            params.push(name, values.join(","));
        }
        // Before anything is asked: a server of an older version would answer that nothing matches.
        params.check_values().map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, format!("{error}\n")))?;
        Ok(Filters(params))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Filters::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(args: &[&str]) -> Vec<String> {
        let command = Filters::augment_args(Command::new("get"));
        let matches = command.try_get_matches_from(std::iter::once(&"get").chain(args)).expect("valid");
        let Filters(params) = Filters::from_arg_matches(&matches).expect("valid");
        params.pairs().iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn every_parameter_is_a_flag() {
        for name in QueryParams::NAMES {
            let value = match name {
                "rack" | "index-in-rack" => "1",
                "labels" => "a=1",
                "ipv4" => "10.0.0.1",
                "ipv6" => "fd00::1",
                "state" => "healthy",
                _ => "x",
            };
            assert_eq!(pairs(&[&format!("--{name}"), value]), [format!("{name}={value}")]);
            assert_eq!(pairs(&[&format!("--without-{name}={value}")]), [format!("without-{name}={value}")]);
            assert_ne!(described(name), described("anything else"), "{name} needs a help text");
        }
    }

    #[test]
    fn repeated_flags_are_one_list_and_empty_ones_nothing() {
        assert_eq!(pairs(&["--rack", "1,2", "--rack", "3"]), ["rack=1,2,3"]);
        assert_eq!(pairs(&["--labels", "a=1", "--labels", "b=2"]), ["labels=a=1,b=2"]);
        assert_eq!(pairs(&["--serial", ""]), [""; 0]);
        assert_eq!(pairs(&[]), [""; 0]);
    }
}

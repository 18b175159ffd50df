//! Steps as people write them: `interface.step:key=value,…`, or a file.

use std::path::PathBuf;

use sabakan_client::{Order, StepJson};
use sabakan_domain::provision::steps::Interface;
use serde_json::{Map, Value};

use crate::{exit::Failure, file};

pub const CLEAN_EXAMPLES: &str = "Examples:
  sabactl nodes clean 1234abcd --step deploy.erase_devices --wait
  sabactl nodes clean 1234abcd --steps raid.json --wait
  echo '[{\"interface\": \"deploy\", \"step\": \"erase_devices\"}]' | sabactl nodes clean 1234abcd --steps -

The generated page docs/reference/provisioning.md lists the steps.";

pub const DEPLOY_EXAMPLES: &str = "Examples:
  sabactl nodes deploy 1234abcd --wait
  sabactl nodes deploy 1234abcd --steps steps.json --wait";

pub const SERVICE_EXAMPLES: &str = "Examples:
  sabactl nodes service 1234abcd --step power.reboot --wait
  sabactl nodes service 1234abcd --step management.wait:seconds=10 --wait";

#[derive(Debug, clap::Args)]
pub struct Steps {
    /// JSON file with a list of steps, each with interface, step, and where needed args and priority; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "step")]
    steps: Option<PathBuf>,
    /// One step, may be given repeatedly; values are JSON where they can be, otherwise text
    #[arg(long, value_name = "INTERFACE.STEP[:KEY=VALUE,...]", value_parser = parse)]
    step: Vec<StepJson>,
    /// Run the steps without booting the ramdisk
    #[arg(long)]
    disable_ramdisk: bool,
}

impl Steps {
    /// The order for a verb, with its steps where that verb has them.
    pub fn order(&self, verb: &str) -> Result<Order, Failure> {
        let steps = match &self.steps {
            Some(path) => file::read::<Vec<StepJson>>(path)?,
            None => self.step.clone(),
        };
        let mut order = Order { target: verb.to_owned(), ..Order::default() };
        order.disable_ramdisk = self.disable_ramdisk.then_some(true);
        match verb {
            "clean" | "service" if steps.is_empty() => {
                return Err(Failure::general("no step is given; name one with --step, or several with --steps"));
            }
            "clean" => order.clean_steps = Some(steps),
            "service" => order.service_steps = Some(steps),
            _ => order.deploy_steps = Some(steps).filter(|steps| !steps.is_empty()),
        }
        Ok(order)
    }
}

/// One step as on the command line.
pub fn parse(text: &str) -> Result<StepJson, String> {
    let (key, args) = text.split_once(':').unwrap_or((text, ""));
    let Some((interface, step)) = key.split_once('.').filter(|(_, step)| !step.is_empty()) else {
        return Err("interface.step is expected, such as deploy.erase_devices".to_owned());
    };
    let interface: Interface = interface.parse()?;
    let mut step = StepJson { interface: interface.to_string(), step: step.to_owned(), ..StepJson::default() };
    step.args = parse_args(args)?;
    // Only deploying has priorities, and they are not arguments.
    if let Some(priority) = step.args.remove("priority") {
        let priority = priority.as_u64().and_then(|priority| u32::try_from(priority).ok());
        step.priority = Some(priority.ok_or("priority must be a number")?);
    }
    Ok(step)
}

fn parse_args(text: &str) -> Result<Map<String, Value>, String> {
    let mut args = Map::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(format!("{pair:?} is not key=value"));
        };
        if args.insert(key.to_owned(), value_of(value)).is_some() {
            return Err(format!("{key:?} is given twice"));
        }
    }
    Ok(args)
}

/// A value that is JSON is taken as such: numbers and truth have no other way in.
pub fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

//! `sabactl machines create`: a file of any size becomes requests the server accepts. Everything that can be checked without the
//! server is checked before the first request, so that a bad file changes nothing.

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    ops::Range,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sabakan_client::{Client, Error};
use sabakan_wire::rest::{MachineInput, machines_from_input};

use crate::{
    exit::{self, Failure},
    file::{self, Input},
    limits,
};

#[derive(Debug, clap::Args)]
pub struct Create {
    #[command(flatten)]
    pub input: Input,
    /// Machines in one request, neither more nor fewer; 1000 or what the server takes if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
    /// Leave out the first N machines of the file: goes on after a batch failed
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u32,
}

pub const EXAMPLE: &str = "Examples:
  sabactl machines create -f racks.json
  generate-racks | sabactl machines create -f -

  where racks.json is
  [
    {\"serial\": \"1234abcd\", \"rack\": 1, \"role\": \"boot\", \"bmc\": {\"type\": \"iDRAC-9\"}},
    {\"serial\": \"1234abce\", \"rack\": 1, \"role\": \"worker\", \"bmc\": {\"type\": \"iDRAC-9\"},
     \"labels\": {\"product\": \"R630\", \"datacenter\": \"ty3\"}}
  ]";

/// Registers the machines of a file.
pub fn run(client: &Client, create: &Create) -> Result<(), Failure> {
    let name = file::name(&create.input.file);
    let machines: Vec<MachineInput> = file::read(&create.input.file)?;
    check(&machines).map_err(|reason| Failure::file(&name, reason))?;
    let skip = create.skip as usize;
    if skip > machines.len() {
        return Err(Failure::file(&name, format!("cannot skip {skip} machines, there are only {}", machines.len())));
    }
    let mut sending =
        Sending { at: skip, size: create.batch_size.unwrap_or(limits::BATCH_MACHINES) as usize, requests: 0 };
    let first = sending.batch(machines.len());
    let is_one = first.end == machines.len();
    let bar = if is_one { ProgressBar::hidden() } else { progress(machines.len() - skip) };
    // An empty list is a request too: the server is asked whether it takes any.
    while sending.at < machines.len() || (machines.is_empty() && sending.requests == 0) {
        let batch = sending.batch(machines.len());
        match client.create_machines(&machines[batch.clone()]) {
            Ok(()) => sending.sent(&batch),
            Err(error) => {
                let fits = error.json().and_then(|json| json.fits).filter(|_| create.batch_size.is_none());
                if sending.shrink(fits, &batch) {
                    continue;
                }
                bar.finish_and_clear();
                return Err(match is_one && sending.requests == 0 {
                    true => stopped_alone(error, &machines),
                    false => stopped(error, &name, skip, batch, &machines),
                });
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    if sending.requests > 1 {
        exit::note(&format!("Registered {} machines in {} requests.\n", machines.len() - skip, sending.requests));
    }
    Ok(())
}

/// How far the file has been sent, and how much goes into the next request.
struct Sending {
    at: usize,
    size: usize,
    requests: usize,
}

impl Sending {
    /// The machines of the next request.
    fn batch(&self, total: usize) -> Range<usize> {
        self.at..total.min(self.at + self.size)
    }

    fn sent(&mut self, batch: &Range<usize>) {
        self.at = batch.end;
        self.requests += 1;
    }

    /// Sends less from now on if the server said how much it takes; `false` if it did not, or if that is no less than this was.
    fn shrink(&mut self, fits: Option<u64>, batch: &Range<usize>) -> bool {
        let fits = fits.and_then(|fits| usize::try_from(fits).ok()).filter(|fits| (1..batch.len()).contains(fits));
        self.size = fits.unwrap_or(self.size);
        fits.is_some()
    }
}

/// What the server would refuse whatever else is registered.
fn check(machines: &[MachineInput]) -> Result<(), String> {
    let checked = machines_from_input(machines.to_vec()).map_err(|error| error.to_string())?;
    let mut places = HashMap::with_capacity(checked.len());
    for (place, machine) in (1..).zip(&checked) {
        if let Some(earlier) = places.insert(&machine.serial, place) {
            return Err(format!("serial {} is given twice: machine {earlier} and machine {place}", machine.serial));
        }
    }
    Ok(())
}

/// Shown on a terminal only. Registering thousands of machines takes seconds, and silence looks like a hang.
fn progress(machines: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{wide_bar} {pos}/{len} machines, {eta} left").expect("the template is constant");
    let bar = ProgressBar::with_draw_target(Some(machines as u64), ProgressDrawTarget::stderr()).with_style(style);
    bar.tick();
    bar
}

const SMALLER: &str = "Send fewer machines in one request with --batch-size; each request is all or nothing.";

/// The only request failed: nothing is registered, unless nobody knows.
fn stopped_alone(error: Error, machines: &[MachineInput]) -> Failure {
    let too_large = error.status() == Some(413);
    let unknown = error.outcome_unknown();
    let failure = Failure::from(error);
    match machines.first() {
        Some(machine) if unknown => failure.with_hint(format!(
            "It is not known whether they are registered, all or none. Look for the first one, serial {}.",
            serial(machine)
        )),
        _ if too_large => failure.with_hint(SMALLER),
        _ => failure,
    }
}

/// One of several requests failed: says what is registered and how to go on.
fn stopped(error: Error, file: &str, skipped: usize, batch: Range<usize>, machines: &[MachineInput]) -> Failure {
    let done = batch.start - skipped;
    let range = format!("machines {} to {} of {file}", batch.start + 1, batch.end);
    let too_large = error.status() == Some(413);
    let unknown = error.outcome_unknown();
    let failure = Failure::from(error);
    let mut hint = format!("{done} machines were registered before this.");
    if unknown {
        hint += &format!(
            "\nIt is not known whether {range} are registered, all or none. Look for the first one, serial {}: \
             if it is there, run the same command with --skip {}, otherwise with --skip {}.",
            serial(&machines[batch.start]),
            batch.end,
            batch.start
        );
    } else {
        hint += &format!(
            "\nNone of {range} is registered. When the reason is gone, run the same command with --skip {}.",
            batch.start
        );
    }
    if too_large {
        hint += &format!("\n{SMALLER}");
    }
    let hint = failure.hint.as_ref().map_or_else(|| hint.clone(), |advice| format!("{advice}\n{hint}"));
    failure.with_hint(hint)
}

fn serial(machine: &MachineInput) -> &str {
    let machine = machine.spec.as_deref().unwrap_or(machine);
    machine.serial.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sabakan_client::ApiBody;
    use sabakan_wire::rest::ErrorJson;

    use super::*;

    fn machine(serial: &str) -> MachineInput {
        MachineInput {
            serial: Some(serial.to_owned()),
            role: Some("worker".to_owned()),
            product: Some("R630".to_owned()),
            ..MachineInput::default()
        }
    }

    fn refused(status: u16) -> Error {
        let json = ErrorJson {
            error: "text".to_owned(),
            request_id: "r1".to_owned(),
            status,
            kind: None,
            problems: Vec::new(),
            fits: None,
        };
        Error::Api { status, reason_phrase: "Phrase".to_owned(), body: ApiBody::Json(json) }
    }

    #[test]
    fn batches_cover_what_is_not_skipped() {
        let check = |total, skip, size, expected: &str| {
            let mut sending = Sending { at: skip, size, requests: 0 };
            let mut shown = Vec::new();
            while sending.at < total {
                let batch = sending.batch(total);
                shown.push(format!("{batch:?}"));
                sending.sent(&batch);
            }
            assert_eq!(shown.join(" "), expected, "{total} {skip} {size}");
        };
        check(1, 0, 1000, "0..1");
        check(1000, 0, 1000, "0..1000");
        check(1001, 0, 1000, "0..1000 1000..1001");
        check(5, 0, 2, "0..2 2..4 4..5");
        check(5, 2, 2, "2..4 4..5");
        check(5, 4, 2, "4..5");
        check(5, 5, 2, "");
        check(5, 0, 1, "0..1 1..2 2..3 3..4 4..5");
    }

    #[test]
    fn less_is_sent_when_the_server_says_how_much_fits() {
        let mut sending = Sending { at: 100, size: 1000, requests: 1 };
        assert!(!sending.shrink(None, &(100..1100)));
        assert!(!sending.shrink(Some(1000), &(100..1100)));
        assert!(!sending.shrink(Some(0), &(100..1100)));
        assert_eq!(sending.size, 1000);
        assert!(sending.shrink(Some(60), &(100..1100)));
        assert_eq!((sending.batch(5000), sending.batch(130)), (100..160, 100..130));
    }

    #[test]
    fn bad_files_are_found_before_anything_is_sent() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[machine("a"), machine("b")]), Ok(()));
        let check = |machines: &[MachineInput], expected: &str| assert_eq!(check(machines), Err(expected.to_owned()));
        check(&[machine("a"), machine("")], "serial is empty (machine 2 of the request, serial \"\")");
        check(
            &[
                machine("a"),
                machine("b"),
                MachineInput { spec: Some(Box::new(machine("a"))), ..MachineInput::default() },
            ],
            "serial a is given twice: machine 1 and machine 3",
        );
    }

    #[test]
    fn failed_batch_says_how_to_go_on() {
        let machines: Vec<MachineInput> = (0..50).map(|n| machine(&format!("s{n}"))).collect();
        let check = |error, code: u8, hint: &str| {
            let failure = stopped(error, "m.json", 10, 30..40, &machines);
            assert_eq!((failure.code, failure.hint.as_deref()), (code, Some(hint)));
        };
        let before = "20 machines were registered before this.";
        let none = "None of machines 31 to 40 of m.json is registered. \
                    When the reason is gone, run the same command with --skip 30.";
        check(refused(409), 19, &format!("{before}\n{none}"));
        check(refused(413), 4, &format!("{before}\n{none}\n{SMALLER}"));
        check(
            Error::Interrupted { server: "http://x".to_owned(), reason: "y".to_owned() },
            1,
            &format!(
                "{before}\nIt is not known whether machines 31 to 40 of m.json are registered, all or none. Look for the \
                 first one, serial s30: if it is there, run the same command with --skip 40, otherwise with --skip 30."
            ),
        );
        check(
            Error::Connect { server: "http://x".to_owned(), reason: "y".to_owned() },
            1,
            &format!("Is the server running? Name another one with --server or SABAKAN_URL.\n{before}\n{none}"),
        );
    }

    #[test]
    fn only_request_says_what_became_of_it() {
        let machines = [machine("a")];
        assert_eq!(stopped_alone(refused(409), &machines).hint, None);
        assert_eq!(stopped_alone(refused(413), &machines).hint.as_deref(), Some(SMALLER));
        let lost = Error::Timeout { server: "http://x".to_owned(), limit: "y".to_owned() };
        let hint = stopped_alone(lost, &machines).hint.expect("a hint");
        assert!(hint.starts_with("It is not known whether they are registered"), "{hint}");
    }
}

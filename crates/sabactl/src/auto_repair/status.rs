//! `sabactl auto-repair status`: how repair is doing.

use sabakan_client::Client;
use sabakan_wire::rest::repair::{
    BrokenJson, BudgetJson, RepairRoundJson, RepairStatusJson, SwitchesJson, VerdictCountJson,
};

use crate::{cluster::text, exit::Failure, incidents, limits, output::Output, render::human_duration};

#[derive(Debug, clap::Args)]
pub struct Status {
    /// Name at most so many broken machines; all are counted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=100_000))]
    machines: Option<u32>,
    #[command(flatten)]
    output: Output,
}

/// Does what the command says.
pub fn run(client: &Client, status: &Status) -> Result<(), Failure> {
    let usual = if status.output.is_json() { limits::BROKEN_IN_JSON } else { limits::BROKEN_SHOWN };
    let machines = status.machines.unwrap_or(usual);
    let sent = client.repair_status(machines.try_into().unwrap_or(usize::MAX))?;
    status.output.print(&sent, shown)
}

fn shown(status: &RepairStatusJson) -> String {
    let RepairStatusJson {
        messages,
        switches,
        leader,
        last_round,
        budget: left,
        incidents,
        broken_count,
        broken_unknown: _,
        verdicts,
        broken,
        broken_left_out,
    } = status;
    let SwitchesJson { automatic, repair_queue, guard, reboot_queue } = *switches;
    let word = |enabled: bool| if enabled { "enabled" } else { "disabled" }.to_owned();
    let broken_count = broken_count.map_or_else(|| "not known".to_owned(), |count| count.to_string());
    let rows = [
        ["Automatic repair:".to_owned(), word(automatic)],
        ["Repair queue:".to_owned(), word(repair_queue)],
        ["Guard:".to_owned(), if guard { "enabled" } else { "DISABLED: nothing is held" }.to_owned()],
        ["Reboot queue:".to_owned(), reboot_queue.map(word).unwrap_or_default()],
        ["Repaired by:".to_owned(), leader.clone().unwrap_or_else(|| "nobody".to_owned())],
        ["Last round here:".to_owned(), last_round.as_ref().map_or_else(|| "none".to_owned(), round)],
        ["Budget:".to_owned(), budget(left)],
        ["Broken machines:".to_owned(), broken_count],
    ];
    let mut shown: String = text::aligned(&rows).into_iter().map(|line| line + "\n").collect();
    shown.push_str(&text::section("Needs attention", messages.iter().map(|line| format!("- {line}"))));
    shown.push_str(&text::section("Open incidents", incidents::lines(incidents)));
    let by_rule = verdicts.iter().map(|VerdictCountJson { count, first }| {
        [count.to_string(), first.kind.clone(), if *count == 1 { first.text.clone() } else { example(&first.text) }]
    });
    let by_rule = text::aligned(&by_rule.collect::<Vec<_>>());
    shown.push_str(&text::section("What becomes of broken machines, by rule", by_rule));
    let mut machines = text::aligned(&broken.iter().map(machine).collect::<Vec<_>>());
    if *broken_left_out > 0 {
        machines.push(format!("and {broken_left_out} more; --machines shows more of them"));
    }
    shown.push_str(&text::section("Broken machines", machines));
    shown
}

fn example(text: &str) -> String {
    format!("such as: {text}")
}

fn machine(broken: &BrokenJson) -> [String; 6] {
    let seconds = std::time::Duration::from_secs(broken.seconds).as_secs_f64();
    [
        broken.serial.clone(),
        broken.address.clone().unwrap_or_else(|| "-".to_owned()),
        format!("rack {}", broken.rack),
        format!("{} for {}", broken.state, human_duration(seconds)),
        broken.verdict.kind.clone(),
        broken.verdict.text.clone(),
    ]
}

fn round(round: &RepairRoundJson) -> String {
    let RepairRoundJson { at, end, enqueued, reason } = round;
    let more = match (enqueued, reason) {
        (_, Some(reason)) => format!(": {reason}"),
        (0, None) => String::new(),
        (count, None) => format!(": {count} machines"),
    };
    format!("{at}  {end}{more}")
}

/// How much may still be repaired, in a sentence.
pub fn budget(budget: &BudgetJson) -> String {
    let BudgetJson { entries, finished, max, left, blocked_by_finished: _, message: _ } = budget;
    let finished = match finished {
        0 => "none of them finished".to_owned(),
        finished => format!("{finished} of them finished"),
    };
    format!("{entries} of {max} entries, {finished}; {left} repairs may still begin")
}

#[cfg(test)]
mod tests {
    use sabakan_wire::rest::repair::{OpinionJson, VerdictJson};

    use super::*;

    fn full() -> VerdictJson {
        VerdictJson {
            kind: "no-room".into(),
            text: "5 repairs and 2 new failures are more than 5".into(),
            change: None,
            incident: None,
            group: None,
            index: None,
            seconds_left: None,
            entries: Some(5),
            new: Some(2),
            max: Some(5),
        }
    }

    fn broken(serial: &str) -> BrokenJson {
        BrokenJson {
            serial: serial.into(),
            address: None,
            state: "unhealthy".into(),
            seconds: 90,
            rack: 3,
            role: "cs".into(),
            machine_type: "type1".into(),
            version: None,
            power_domain: None,
            second_opinion: OpinionJson { bmc_answers: None, lease_renewed: None },
            hands_off: None,
            verdict: full(),
        }
    }

    #[test]
    fn what_stands_in_the_way_comes_first() {
        let status = RepairStatusJson {
            messages: vec!["NO REPAIR BEGINS".into()],
            switches: SwitchesJson { automatic: true, repair_queue: true, guard: true, reboot_queue: Some(false) },
            leader: None,
            last_round: Some(RepairRoundJson {
                at: "2026-01-02T03:04:05Z".into(),
                end: "enqueued".into(),
                enqueued: 2,
                reason: None,
            }),
            budget: BudgetJson::new((5, 3), 5, (0, 1), true),
            incidents: vec![incidents::tests::incident()],
            broken_count: Some(2),
            broken_unknown: None,
            verdicts: vec![VerdictCountJson { count: 2, first: full() }],
            broken: vec![broken("m1")],
            broken_left_out: 1,
        };
        let expected = "\
Automatic repair:  enabled
Repair queue:      enabled
Guard:             enabled
Reboot queue:      disabled
Repaired by:       nobody
Last round here:   2026-01-02T03:04:05Z  enqueued: 2 machines
Budget:            5 of 5 entries, 3 of them finished; 0 repairs may still begin
Broken machines:   2

Needs attention
  - NO REPAIR BEGINS

Open incidents
  incident 4  open  rack 1  28 machines  opened 2026-01-02T03:00:00Z  28 of 28 failed

What becomes of broken machines, by rule
  2  no-room  such as: 5 repairs and 2 new failures are more than 5

Broken machines
  m1  -  rack 3  unhealthy for 1m30s  no-room  5 repairs and 2 new failures are more than 5
  and 1 more; --machines shows more of them
";
        assert_eq!(shown(&status), expected);
        let off = RepairStatusJson { switches: SwitchesJson { guard: false, ..status.switches }, ..status };
        assert!(shown(&off).contains("\nGuard:             DISABLED: nothing is held\n"), "{}", shown(&off));
    }
}

//! What is printed, byte for byte.

use super::*;

/// Two machines as a server sends them, with what our types do not know and in an order that is not ours.
const LIST: &str = r#"[
 {"spec":{"serial":"w2","labels":{"product":"R630","datacenter":"ty3"},"rack":1,"index-in-rack":4,"role":"worker",
  "ipv4":["10.69.0.196","10.69.1.4","10.69.1.68"],"ipv6":null,"register-date":"2026-11-15T19:36:21.214789506Z",
  "retire-date":"2030-01-02T03:04:05+09:00","bmc":{"ipv4":"10.72.17.36","ipv6":"","type":"iDRAC-9"}},
  "status":{"timestamp":"2026-11-15T19:36:21.214790467Z","duration":90061.5,"state":"uninitialized"},
  "info":{"network":{"ipv4":[]},"bmc":{"ipv4":{"address":"10.72.17.36","netmask":"255.255.240.0","maskbits":20,
  "gateway":"10.72.16.1"}}},"future":{}},
 {"spec":{"serial":"SRV 0001","labels":null,"rack":12,"index-in-rack":3,"role":"boot",
  "ipv4":["10.69.0.3"],"ipv6":null,"register-date":"2026-11-15T19:36:21Z","retire-date":"2026-11-15T19:36:21Z",
  "bmc":{"ipv4":"10.72.17.3","ipv6":"","type":"IPMI-2.0"}},
  "status":{"timestamp":"2026-11-15T19:36:21Z","duration":0.02828795,"state":"healthy"},
  "info":{"network":{"ipv4":[]},"bmc":{"ipv4":{"address":"10.72.17.3","netmask":"255.255.240.0","maskbits":20,
  "gateway":"10.72.16.1"}}}}
]"#;

fn machines() -> Vec<MachineJson> {
    serde_json::from_str(LIST).expect("our own example")
}

fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("memory takes everything");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn simple_is_what_scripts_expect() {
    let expected = "\
Serial   Rack Role   State         IPv4        BMC
w2       1    worker uninitialized 10.69.0.196 iDRAC-9
SRV 0001 12   boot   healthy       10.69.0.3   IPMI-2.0
";
    assert_eq!(text(|out| simple(&machines(), out)), expected);
    assert_eq!(text(|out| simple(&[], out)), "Serial Rack Role State IPv4 BMC\n");
}

#[test]
fn table_is_for_people() {
    let mut table = table(&machines());
    table.force_no_tty();
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let expected = [
        "Serial    Rack  Index  Role    State          Since  IPv4            BMC          BMC type  Labels",
        "w2           1      4  worker  uninitialized  1d1h   10.69.0.196 +2  10.72.17.36  iDRAC-9   datacenter=ty3 product=R630",
        "SRV 0001    12      3  boot    healthy        0s     10.69.0.3       10.72.17.3   IPMI-2.0",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_was_taken_over_is_marked_and_does_not_break_the_table() {
    let mut odd = machines().remove(0);
    odd.spec.serial = "a/b\u{7}".to_owned();
    odd.spec.bmc.kind = "x".repeat(1_000);
    odd.takeover = vec!["serial: invalid serial".to_owned()];
    let row = table_row(&odd);
    assert_eq!((row[0].as_str(), row[8].chars().count()), ("a/b\u{fffd}", 64));
    assert_eq!(row[9], "[takeover: serial: invalid serial] datacenter=ty3 product=R630");
}

#[test]
fn narrow_terminals_break_labels_only() {
    let mut table = table(&machines());
    table.set_width(60);
    let lines: Vec<String> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[1].contains("10.69.0.196 +2  10.72.17.36  iDRAC-9   datacenter=ty3"), "{lines:?}");
    assert_eq!(lines[2].trim(), "product=R630");
}

#[test]
fn durations() {
    let check = |seconds: f64, expected: &str| assert_eq!(human_duration(seconds), expected, "{seconds}");
    check(0.0, "0s");
    check(0.9, "0s");
    check(59.9, "59s");
    check(60.0, "1m");
    check(61.0, "1m1s");
    check(3_600.0, "1h");
    check(3_659.0, "1h");
    check(3_660.0, "1h1m");
    check(86_399.0, "23h59m");
    check(86_400.0, "1d");
    check(400.0 * 86_400.0 + 3_600.0, "400d1h");
    check(-5.0, "0s");
    check(f64::NAN, "0s");
}

#[test]
fn indented_json_keeps_everything() {
    let check = |compact: &str, expected: &str| assert_eq!(text(|out| indent(compact, out)), format!("{expected}\n"));
    check("{}", "{}");
    check(" [ ] \n", "[]");
    check("null\n", "null");
    check(r#"[1,{"b":1.50,"a":[]}]"#, "[\n  1,\n  {\n    \"b\": 1.50,\n    \"a\": []\n  }\n]");
    check(r#"{"a":"x \"{[,:]}\\","é":null}"#, "{\n  \"a\": \"x \\\"{[,:]}\\\\\",\n  \"é\": null\n}");
    // What is indented already stays as it is, and the values are the same in either form.
    let once = text(|out| indent(LIST, out));
    assert_eq!(text(|out| indent(&once, out)), once);
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(value(&once), value(LIST));
    assert!(once.contains("\"future\": {}"), "{once}");
    assert_eq!(once.replace([' ', '\n'], ""), LIST.replace([' ', '\n'], ""));
    let pretty = serde_json::to_string_pretty(&value(r#"{"a":[{"b":[]},1],"c":{"d":"e"}}"#)).expect("JSON");
    assert_eq!(text(|out| indent(r#"{"a":[{"b":[]},1],"c":{"d":"e"}}"#, out)), format!("{pretty}\n"));
}

#[test]
fn who_gets_which_format() {
    let check = |wanted, is_terminal, expected| assert_eq!(Format::choose(wanted, is_terminal), expected);
    check(None, true, Format::Table);
    check(None, false, Format::Json);
    check(Some(Format::Simple), true, Format::Simple);
    check(Some(Format::Table), false, Format::Table);
    check(Some(Format::Json), true, Format::Json);
    assert_eq!(Format::find("json"), Some(Format::Json));
    assert_eq!(Format::find("JSON"), None);
}

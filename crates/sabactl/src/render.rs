//! Everything that goes to standard output: indented JSON, the `simple` columns scripts read, and the table people read.

use std::io::{self, BufWriter, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use sabakan_wire::rest::MachineJson;
use serde::{Serialize, de::IgnoredAny};

use crate::exit::{Failure, words};

/// How machines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Everything the server sent.
    Json,
    /// Six aligned columns.
    Simple,
    /// For people.
    Table,
}

impl Format {
    const NAMES: [(&'static str, Format); 3] =
        [("json", Format::Json), ("simple", Format::Simple), ("table", Format::Table)];

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Format::NAMES.into_iter().map(|(name, _)| name)
    }

    /// The format of this name.
    pub fn find(name: &str) -> Option<Format> {
        Format::NAMES.into_iter().find(|(n, _)| *n == name).map(|(_, format)| format)
    }

    /// Programs get JSON, people a table, unless they say what they want.
    pub fn choose(wanted: Option<Format>, is_terminal: bool) -> Format {
        wanted.unwrap_or(if is_terminal { Format::Table } else { Format::Json })
    }
}

/// Prints a text as it is.
pub fn print_text(text: &str) -> Result<(), Failure> {
    print(|out| out.write_all(text.as_bytes()))
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Prints JSON the server sent, indented. Not through our own types, which would lose fields of a newer server.
pub fn print_json_text(text: &str) -> Result<(), Failure> {
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| Failure::general(format!("the server's answer is not JSON: {error}")))?;
    print(|out| indent(text, out))
}

/// Prints machines as columns for scripts.
pub fn print_simple(machines: &[MachineJson]) -> Result<(), Failure> {
    print(|out| simple(machines, out))
}

/// Prints rows below a header, left-aligned.
pub fn print_columns<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), Failure> {
    let rows: Vec<[String; N]> = std::iter::once(header.map(str::to_owned)).chain(rows).collect();
    print(|out| columns(&rows, out))
}

/// Lets `write` print while something arrives. A reader that has seen enough ends it, and that is no failure.
pub fn print_lines(
    write: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>, sabakan_client::Error>,
) -> Result<(), Failure> {
    let mut refused = None;
    print(|out| match write(out) {
        Ok(written) => written,
        Err(error) => {
            refused = Some(error);
            Ok(())
        }
    })?;
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// Prints machines as a table for people.
pub fn print_table(machines: &[MachineJson]) -> Result<(), Failure> {
    let table = table(machines);
    // Padding after the last column would wrap lines that fit.
    print(|out| table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end())))
}

/// Writes to standard output. A reader that has seen enough, such as `head`, is no failure; a full disk is.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::general(format!("cannot write to standard output: {}", words(&error))))
        }
        _ => Ok(()),
    }
}

/// Indents valid JSON by two spaces and keeps everything else: keys, their order, the digits of numbers.
fn indent(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = text.trim_ascii().as_bytes();
    let mut depth = 0;
    while let Some(&byte) = rest.first() {
        let length = match byte {
            b'"' => string_length(rest),
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' | b'[' => {
                out.write_all(token)?;
                rest = rest.trim_ascii_start();
                if let Some(close @ (b'}' | b']')) = rest.first().copied() {
                    out.write_all(&[close])?;
                    rest = &rest[1..];
                } else {
                    depth += 1;
                    new_line(depth, out)?;
                }
            }
            b'}' | b']' => {
                depth -= 1;
                new_line(depth, out)?;
                out.write_all(token)?;
            }
            b',' => {
                out.write_all(token)?;
                new_line(depth, out)?;
            }
            b':' => out.write_all(b": ")?,
            _ => out.write_all(token)?,
        }
    }
    out.write_all(b"\n")
}

fn new_line(depth: usize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\n")?;
    (0..depth).try_for_each(|_| out.write_all(b"  "))
}

/// Length of the string that begins here, with both quotes.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Left-aligned columns with one space between them. Scripts cut these lines into words: nothing here may change.
fn simple(machines: &[MachineJson], out: &mut dyn Write) -> io::Result<()> {
    let header = ["Serial", "Rack", "Role", "State", "IPv4", "BMC"].map(str::to_owned);
    let row = |machine: &MachineJson| {
        let MachineJson { spec, status, .. } = machine;
        let first_ipv4 = spec.ipv4.first().cloned().unwrap_or_default();
        let state = status.state.clone();
        [spec.serial.clone(), spec.rack.to_string(), spec.role.clone(), state, first_ipv4, spec.bmc.kind.clone()]
    };
    let rows: Vec<[String; 6]> = std::iter::once(header).chain(machines.iter().map(row)).collect();
    columns(&rows, out)
}

/// One space between columns, nothing after the last.
fn columns<const N: usize>(rows: &[[String; N]], out: &mut dyn Write) -> io::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(|column| if column + 1 == N { 0 } else { width(column) });
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join(" "))?;
    }
    Ok(())
}

const TABLE_HEADER: [&str; 10] =
    ["Serial", "Rack", "Index", "Role", "State", "Since", "IPv4", "BMC", "BMC type", "Labels"];

/// Which columns hold numbers.
const TABLE_NUMBERS: [usize; 2] = [1, 2];

/// The narrowest column for labels; a narrower one would be a line per letter on a small terminal.
const LABELS_WIDTH_MIN: u16 = 24;

fn table(machines: &[MachineJson]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(TABLE_HEADER);
    table.add_rows(machines.iter().map(table_row));
    let last = TABLE_HEADER.len() - 1;
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if n == last { 0 } else { 2 }));
        // Only labels are broken into lines: half an address is of no use.
        column.set_constraint(if n == last {
            ColumnConstraint::LowerBoundary(Width::Fixed(LABELS_WIDTH_MIN))
        } else {
            ColumnConstraint::ContentWidth
        });
        if TABLE_NUMBERS.contains(&n) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn table_row(machine: &MachineJson) -> [String; 10] {
    let MachineJson { spec, status, takeover, .. } = machine;
    let ipv4 = match spec.ipv4.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} +{}", more.len()),
    };
    let labels = spec.labels.iter().flatten().map(|(name, value)| format!("{name}={value}"));
    // What the older service stored and input would refuse stands first: it waits for somebody.
    let remarks = takeover.iter().map(|remark| format!("[takeover: {remark}]"));
    [
        cell(&spec.serial),
        spec.rack.to_string(),
        spec.index_in_rack.to_string(),
        cell(&spec.role),
        status.state.clone(),
        human_duration(status.duration),
        ipv4,
        spec.bmc.ipv4.clone(),
        cell(&spec.bmc.kind),
        remarks.chain(labels).collect::<Vec<_>>().join(" "),
    ]
}

/// The longest text of a column that is not broken into lines: that of a label, which is longer than any serial in use.
const CELL_CHARS_MAX: usize = 63;

/// A text for a table. The older service did not bound it, and took characters that move the cursor.
fn cell(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut chars = text.chars().map(shown);
    let mut cell: String = chars.by_ref().take(CELL_CHARS_MAX).collect();
    if chars.next().is_some() {
        cell.push('…');
    }
    cell
}

/// The two largest units of a duration: what one wants to know about "since when".
pub fn human_duration(seconds: f64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    // A clock that was set back gives a negative number; to a person that is "just now".
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "negative becomes 0, too large the largest"
    )]
    let seconds = seconds as u64;
    let first = UNITS.iter().position(|(_, size)| seconds >= *size).unwrap_or(UNITS.len() - 1);
    let (name, size) = UNITS[first];
    let rest = UNITS.get(first + 1).map(|(name, smaller)| (name, seconds % size / smaller));
    match rest {
        Some((smaller, count)) if count > 0 => format!("{}{name}{count}{smaller}", seconds / size),
        _ => format!("{}{name}", seconds / size),
    }
}

#[cfg(test)]
mod tests;

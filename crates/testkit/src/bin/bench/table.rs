//! Results as Markdown tables.

use std::fmt::{self, Write as _};

/// One result.
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The result, with its unit.
    pub result: String,
    /// What the product promises; empty: nothing.
    pub target: String,
    /// Whether the promise is kept; `None`: nothing is promised.
    pub met: Option<bool>,
}

impl Row {
    /// A figure without a target.
    pub fn figure(what: impl Into<String>, result: impl Into<String>) -> Row {
        Row { what: what.into(), result: result.into(), target: String::new(), met: None }
    }

    /// A figure with a target.
    pub fn target(what: impl Into<String>, result: impl Into<String>, target: impl Into<String>, met: bool) -> Row {
        Row { what: what.into(), result: result.into(), target: target.into(), met: Some(met) }
    }
}

/// The table.
pub fn render(rows: &[Row]) -> String {
    let mut text = String::from("| what | result | target | met |\n| --- | --- | --- | --- |\n");
    for Row { what, result, target, met } in rows {
        let met = Table::met(*met);
        writeln!(text, "| {what} | {result} | {target} | {met} |").expect("writing to a string does not fail");
    }
    text
}

/// A table with columns of its own.
pub struct Table {
    /// What all its figures have in common.
    pub title: String,
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The cell that says whether a promise is kept.
    pub fn met(met: Option<bool>) -> String {
        met.map_or("", |met| if met { "yes" } else { "**no**" }).to_owned()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { title, columns, rows } = self;
        writeln!(f, "{title}:\n\n| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()))?;
        rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

/// Two durations given in seconds.
pub fn milliseconds(p50: f64, p99: f64) -> String {
    let show = |seconds: f64| {
        let milliseconds = seconds * 1e3;
        // Three digits tell as much as such a measurement knows.
        let digits = if milliseconds < 10.0 { 2 } else { usize::from(milliseconds < 100.0) };
        format!("{milliseconds:.digits$}")
    };
    format!("{} / {} ms", show(p50), show(p99))
}

/// A large number for people.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The middle of several measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value that `share` of the measurements do not exceed.
pub fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the list")]
    let place = (values.len() as f64 * share) as usize;
    values[place.min(last)]
}

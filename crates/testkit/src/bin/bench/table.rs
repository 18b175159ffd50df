//! Results as a Markdown table.

use std::fmt::Write as _;

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
        let met = met.map_or("", |met| if met { "yes" } else { "**no**" });
        writeln!(text, "| {what} | {result} | {target} | {met} |").expect("writing to a string does not fail");
    }
    text
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

//! How an answer about repair is shown: for people, or as the JSON that the server sent.

use std::io::{self, IsTerminal as _};

use sabakan_client::Sent;

use crate::{cluster::text, exit::Failure, render};

/// The forms an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    Json,
    Table,
}

/// How an answer is shown.
#[derive(Debug, clap::Args)]
pub struct Output {
    /// json: what the server sent; table: for people
    #[arg(short, long, value_name = "FORMAT", value_enum, hide_possible_values = true, default_value = "table")]
    output: Form,
    /// The same as -o json
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Whether JSON is wanted.
    pub fn is_json(&self) -> bool {
        self.json || self.output == Form::Json
    }

    /// Prints what the server sent, as it is or as people read it.
    pub fn print<T>(&self, sent: &Sent<T>, for_people: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        if self.is_json() {
            render::print_json_text(&sent.text)
        } else {
            render::print_text(&text::visible(&for_people(&sent.value)))
        }
    }

    /// The same where people need no words: it is done.
    pub fn print_done<T>(&self, sent: &Sent<T>) -> Result<(), Failure> {
        if self.is_json() { render::print_json_text(&sent.text) } else { Ok(()) }
    }
}

/// How a queue is shown: programs read JSON from the older service without asking for it.
#[derive(Debug, clap::Args)]
pub struct QueueOutput {
    /// json: an array, `null` when empty; table: for people; without it a table on a terminal, JSON otherwise
    #[arg(short, long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    output: Option<Form>,
    /// The same as -o json
    #[arg(long)]
    json: bool,
}

impl QueueOutput {
    /// Prints a queue. What people see has one row for each entry.
    pub fn print<T, const N: usize>(
        &self,
        sent: &Sent<Vec<T>>,
        header: [&str; N],
        row: impl Fn(&T) -> [String; N],
    ) -> Result<(), Failure> {
        match self.form(io::stdout().is_terminal()) {
            // Tools of the older service expect this of an empty queue.
            Form::Json if sent.value.is_empty() => render::print_text("null\n"),
            Form::Json => render::print_json_text(&sent.text),
            Form::Table => print_rows(header, sent.value.iter().map(row)),
        }
    }

    fn form(&self, is_terminal: bool) -> Form {
        let usual = if is_terminal { Form::Table } else { Form::Json };
        if self.json { Form::Json } else { self.output.unwrap_or(usual) }
    }
}

/// Prints rows below a header. One row is one line, and nothing in it steers a terminal.
pub fn print_rows<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), Failure> {
    let cell = |text: String| text::visible(&text).replace('\n', " ");
    render::print_columns(header, rows.into_iter().map(|row| row.map(cell)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_json_and_people_a_table_unless_they_say_otherwise() {
        let check = |output: Option<Form>, json: bool, is_terminal: bool, expected: Form| {
            assert_eq!(QueueOutput { output, json }.form(is_terminal), expected);
        };
        check(None, false, true, Form::Table);
        check(None, false, false, Form::Json);
        check(None, true, true, Form::Json);
        check(Some(Form::Json), false, true, Form::Json);
        check(Some(Form::Table), false, false, Form::Table);
    }
}

//! How waiting looks: one line per node that changes in place on a terminal, otherwise a line of text whenever something happened.
//! On standard error; results go to standard output.

use std::{
    io::{self, IsTerminal},
    sync::Mutex,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit;

/// The place where waiting is shown.
pub enum Board {
    /// For programs: nowhere.
    Silent,
    /// Not on a terminal: whenever it changes.
    Text,
    /// On a terminal: in place.
    Bars(MultiProgress),
}

/// The line of one node.
pub struct Line<'a> {
    id: String,
    last: Mutex<String>,
    bar: Option<ProgressBar>,
    board: &'a Board,
}

impl Board {
    /// For people, or for programs.
    pub fn open(silent: bool) -> Board {
        if silent {
            Board::Silent
        } else if io::stderr().is_terminal() {
            Board::Bars(MultiProgress::with_draw_target(ProgressDrawTarget::stderr()))
        } else {
            Board::Text
        }
    }

    /// The line of a node. It disappears when it is dropped.
    pub fn line(&self, id: &str) -> Line<'_> {
        let bar = match self {
            Board::Bars(bars) => {
                let style = ProgressStyle::with_template("{spinner} {prefix} {wide_msg} {elapsed}");
                let style = style.expect("the template is constant");
                Some(bars.add(ProgressBar::new_spinner().with_style(style).with_prefix(id.to_owned())))
            }
            Board::Silent | Board::Text => None,
        };
        Line { id: id.to_owned(), last: Mutex::default(), bar, board: self }
    }

    /// Lets something else be printed without tearing the lines.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match self {
            Board::Bars(bars) => bars.suspend(print),
            Board::Silent | Board::Text => print(),
        }
    }
}

impl Line<'_> {
    /// Says where the node is.
    pub fn show(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            return;
        }
        let mut last = self.last.lock().expect("no holder of this lock panics");
        if matches!(self.board, Board::Text) && *last != text {
            exit::note(&format!("{}: {text}\n", self.id));
            text.clone_into(&mut last);
        }
    }

    /// Shows that the program is still there.
    pub fn tick(&self) {
        if let Some(bar) = &self.bar {
            bar.tick();
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

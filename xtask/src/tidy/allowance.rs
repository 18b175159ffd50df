//! Excess that already exists is held in a list, so that it cannot grow and nobody forgets it. The list may only
//! shrink: an entry that is larger than what it excuses is itself a problem.

use super::Finding;

pub const FILE: &str = "xtask/tidy-allow.txt";

/// Something that is larger than its limit.
#[derive(Debug)]
pub struct Excess {
    /// First word of the entry that would excuse it.
    pub kind: &'static str,
    /// Second word of that entry.
    pub subject: String,
    pub measured: usize,
    /// Where it is, and what to do about it.
    pub finding: Finding,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    kind: String,
    subject: String,
    count: usize,
}

/// What remains of `excesses` under the list, together with the problems of the list.
pub fn judge(excesses: Vec<Excess>, list: &str) -> Vec<Finding> {
    let (entries, mut findings) = read(list);
    for entry in &entries {
        let measured = excesses.iter().filter(|excess| covers(entry, excess)).map(|excess| excess.measured).max();
        let Entry { line, kind, subject, count } = entry;
        let advice = match measured {
            None => format!("`{kind} {subject}` is within its limit or gone; remove this entry"),
            Some(measured) if measured < *count => {
                format!("`{kind} {subject}` is down to {measured}; lower this entry from {count}")
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(FILE, *line, "allowance", advice));
    }
    for excess in excesses {
        match entries.iter().find(|entry| covers(entry, &excess)) {
            Some(entry) if excess.measured <= entry.count => {}
            Some(entry) => {
                let Finding { file, line, rule, text } = excess.finding;
                let text = format!("{text} It may not grow: {FILE} allows {}.", entry.count);
                findings.push(Finding { file, line, rule, text });
            }
            None => findings.push(excess.finding),
        }
    }
    findings
}

fn covers(entry: &Entry, excess: &Excess) -> bool {
    entry.kind == excess.kind && entry.subject == excess.subject
}

/// Each line: kind, subject, count. `#` begins a comment.
fn read(list: &str) -> (Vec<Entry>, Vec<Finding>) {
    let (mut entries, mut findings) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(list.lines()) {
        let text = text.split('#').next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [kind, subject, count] if count.parse::<usize>().is_ok() => {
                let count = count.parse().unwrap_or_default();
                entries.push(Entry { line, kind: (*kind).to_owned(), subject: (*subject).to_owned(), count });
            }
            _ => findings.push(Finding::new(FILE, line, "allowance", "write `<kind> <subject> <count>`")),
        }
    }
    (entries, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(measured: usize, list: &str) -> Vec<String> {
        let finding = Finding::new("a.rs", 1, "sizes", "too long.");
        let excess = Excess { kind: "file-lines", subject: "a.rs".to_owned(), measured, finding };
        judge(vec![excess], list).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn listed_excess_is_accepted_and_unlisted_is_not() {
        assert_eq!(judged(900, "# why\nfile-lines a.rs 900 # until the split\n"), [""; 0]);
        assert_eq!(judged(900, ""), ["a.rs:1: sizes: too long."]);
        assert_eq!(judged(900, "fn-lines a.rs 900").len(), 2);
    }

    #[test]
    fn list_may_only_shrink() {
        let grown = judged(901, "file-lines a.rs 900");
        assert_eq!(grown, ["a.rs:1: sizes: too long. It may not grow: xtask/tidy-allow.txt allows 900."]);
        let shrunk = judged(850, "\nfile-lines a.rs 900");
        let expected = "xtask/tidy-allow.txt:2: allowance: `file-lines a.rs` is down to 850; lower this entry from 900";
        assert_eq!(shrunk, [expected]);
        let gone = judged(900, "file-lines a.rs 900\nfile-lines b.rs 810");
        assert_eq!(gone.len(), 1);
        assert!(gone[0].contains(":2:") && gone[0].contains("remove this entry"));
    }

    #[test]
    fn unreadable_entry_is_reported() {
        assert!(judged(1, "file-lines a.rs 1\nfile-lines b.rs many")[0].contains("write `<kind> <subject> <count>`"));
    }
}

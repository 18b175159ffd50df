//! What SQLite says about the structure of the file, with the page and the table or index it belongs to.

use std::{collections::HashMap, fmt};

use rusqlite::Connection;

/// One thing that is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileFinding {
    /// The table or index, where SQLite tells.
    pub tree: Option<String>,
    /// The page, where SQLite tells. The first page of the file is 1.
    pub page: Option<u64>,
    pub text: String,
}

impl fmt::Display for FileFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.page, &self.tree) {
            (Some(page), Some(tree)) => write!(f, "page {page} ({tree}): {}", self.text),
            (Some(page), None) => write!(f, "page {page}: {}", self.text),
            (None, Some(tree)) => write!(f, "{tree}: {}", self.text),
            (None, None) => f.write_str(&self.text),
        }
    }
}

/// How much is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Depth {
    /// Every page: whether the trees hold together.
    Pages,
    /// Also whether each index has what its table has.
    Indexes,
}

/// Looks at every page. Empty: nothing is wrong.
pub(super) fn examine(db: &Connection, depth: Depth) -> rusqlite::Result<Vec<FileFinding>> {
    let trees = trees(db)?;
    let mut statement = db.prepare(match depth {
        Depth::Pages => "PRAGMA quick_check",
        Depth::Indexes => "PRAGMA integrity_check",
    })?;
    let mut rows = statement.query([])?;
    let mut findings = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let text: String = row.get(0)?;
                findings.extend(text.lines().filter_map(|line| parse(line, &trees)));
            }
            Ok(None) => return Ok(findings),
            Err(error) if super::fault::is_corruption(&error) => {
                findings.push(FileFinding { tree: None, page: None, text: format!("reading the structure: {error}") });
                return Ok(findings);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Names of tables and indexes by their first page.
fn trees(db: &Connection) -> rusqlite::Result<HashMap<u64, String>> {
    let mut statement = db.prepare("SELECT rootpage, name FROM sqlite_schema WHERE rootpage > 0")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))?;
    rows.collect()
}

/// A line of SQLite's: `Tree 2 page 7 cell 3: Offset 9 out of range`, `Page 9: never used`, `row 3 missing from index i`.
fn parse(line: &str, trees: &HashMap<u64, String>) -> Option<FileFinding> {
    if line == "ok" || line.starts_with("*** in database") {
        return None;
    }
    let (place, text) = line.split_once(": ").unwrap_or(("", line));
    let mut words = place.split(' ');
    let mut number_after = |name: &str| {
        let mut words = words.by_ref().skip_while(|word| !word.eq_ignore_ascii_case(name));
        words.nth(1).and_then(|number| number.parse::<u64>().ok())
    };
    let (tree, page) = match place.starts_with("Tree ") {
        true => (number_after("tree"), number_after("page")),
        false => (None, number_after("page")),
    };
    let known = |tree: u64| trees.get(&tree).cloned().unwrap_or_else(|| format!("tree {tree}"));
    let text = if page.is_some() { text } else { line };
    Some(FileFinding { tree: tree.map(known), page, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sqlite_become_pages_and_names() {
        let trees = HashMap::from([(2, "entry".to_owned())]);
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(parse(line, &trees).map(|finding| finding.to_string()).as_deref(), expected, "{line}");
        };
        check("ok", None);
        check("*** in database main ***", None);
        check(
            "Tree 2 page 7: btreeInitPage() returns error code 11",
            Some("page 7 (entry): btreeInitPage() returns error code 11"),
        );
        check("Tree 2 page 7 cell 3: Rowid 9 out of order", Some("page 7 (entry): Rowid 9 out of order"));
        check("Tree 5 page 9 right child: invalid page number 0", Some("page 9 (tree 5): invalid page number 0"));
        check("Page 9: never used", Some("page 9: never used"));
        check("Freelist: size is 3 but should be 4", Some("Freelist: size is 3 but should be 4"));
        check("row 3 missing from index entry_by_key", Some("row 3 missing from index entry_by_key"));
    }
}

//! What differs between two texts, line by line.

/// The lines only the first has, with `-`, and those only the second has, with `+`, in their order; nothing if they are equal.
pub fn lines(first: &str, second: &str) -> Vec<String> {
    let (first, second): (Vec<&str>, Vec<&str>) = (first.lines().collect(), second.lines().collect());
    let common = common(&first, &second);
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < first.len() || j < second.len() {
        match (first.get(i), second.get(j)) {
            (Some(one), Some(other)) if one == other => (i, j) = (i + 1, j + 1),
            (Some(one), _) if common[i + 1][j] >= common[i].get(j + 1).copied().unwrap_or(0) => {
                found.push(format!("-{one}"));
                i += 1;
            }
            (_, Some(other)) => {
                found.push(format!("+{other}"));
                j += 1;
            }
            (Some(_), None) | (None, None) => break,
        }
    }
    found
}

/// How many lines the texts from there on have in common, for each place in the first and the second.
fn common(first: &[&str], second: &[&str]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; second.len() + 1]; first.len() + 1];
    for i in (0..first.len()).rev() {
        for j in (0..second.len()).rev() {
            table[i][j] =
                if first[i] == second[j] { table[i + 1][j + 1] + 1 } else { table[i + 1][j].max(table[i][j + 1]) };
        }
    }
    table
}

#[test]
fn only_what_differs_is_shown() {
    let check = |first: &str, second: &str, expected: &[&str]| assert_eq!(lines(first, second), expected);
    check("a\nb\nc", "a\nb\nc", &[]);
    check("a\nb\nc", "a\nx\nc", &["-b", "+x"]);
    check("a\nc", "a\nb\nc", &["+b"]);
    check("a\nb", "a", &["-b"]);
    check("", "a", &["+a"]);
    check("a\nb\nc\nd", "b\nd\ne", &["-a", "-c", "+e"]);
}

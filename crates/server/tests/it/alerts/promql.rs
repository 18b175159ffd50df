//! What an expression of Prometheus asks for: metrics, their labels, and the labels it groups by. Not a parser: `promtool` judges
//! whether an expression is right. A word it does not know counts as a metric, so that nothing is overlooked.

/// A metric with conditions on its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    pub name: String,
    pub conditions: Vec<Condition>,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub label: String,
    /// Whether the value is a regular expression.
    pub is_pattern: bool,
    pub value: String,
}

/// What an expression asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub selectors: Vec<Selector>,
    /// Labels that results are grouped or joined by.
    pub groupings: Vec<String>,
}

/// Words in front of a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Words between or before other things.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

impl Token {
    fn is(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }
}

/// Reads an expression, or a series of a test.
pub fn asked(expression: &str) -> Asked {
    let tokens = tokens(expression);
    let mut asked = Asked::default();
    let mut place = 0;
    while place < tokens.len() {
        let Token::Word(word) = &tokens[place] else {
            place += 1;
            continue;
        };
        place += 1;
        let next = tokens.get(place);
        if GROUPINGS.contains(&word.as_str()) {
            let end = close(&tokens, place, ')');
            asked.groupings.extend(words(&tokens[place..end]));
            place = end;
        } else if next.is_some_and(|next| next.is('{')) {
            let end = close(&tokens, place, '}');
            asked.selectors.push(Selector { name: word.clone(), conditions: conditions(&tokens[place..end]) });
            place = end;
        } else if !is_function(next) && !OPERATORS.contains(&word.as_str()) {
            asked.selectors.push(Selector { name: word.clone(), conditions: Vec::new() });
        }
    }
    asked
}

/// A function stands before its arguments, an aggregation before them or before what it groups by.
fn is_function(next: Option<&Token>) -> bool {
    match next {
        Some(Token::Sign(sign)) => *sign == '(',
        Some(Token::Word(word)) => matches!(word.as_str(), "by" | "without"),
        Some(Token::Text(_)) | None => false,
    }
}

/// The place of the next `sign`, or the end.
fn close(tokens: &[Token], from: usize, sign: char) -> usize {
    tokens[from..].iter().position(|token| token.is(sign)).map_or(tokens.len(), |found| from + found)
}

fn words(tokens: &[Token]) -> impl Iterator<Item = String> {
    tokens.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.clone()) } else { None })
}

fn conditions(tokens: &[Token]) -> Vec<Condition> {
    let parts = tokens.split(|token| token.is(',') || token.is('{'));
    let read = |part: &[Token]| match part {
        [Token::Word(label), signs @ .., Token::Text(value)] => Some(Condition {
            label: label.clone(),
            is_pattern: signs.iter().any(|sign| sign.is('~')),
            value: value.clone(),
        }),
        _ => None,
    };
    parts.filter_map(read).collect()
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '"' => {
                let length = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
                (Some(Token::Text(rest[1..length].trim_end_matches('"').to_owned())), length)
            }
            // How far back: durations are no words.
            '[' => (None, rest.find(']').map_or(rest.len(), |end| end + 1)),
            '0'..='9' => (None, run(rest, |c| c.is_ascii_alphanumeric() || c == '.')),
            'a'..='z' | 'A'..='Z' | '_' | ':' => {
                let length = run(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
                (Some(Token::Word(rest[..length].to_owned())), length)
            }
            sign => (Some(Token::Sign(sign)), sign.len_utf8()),
        };
        tokens.extend(token);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

#[test]
fn metrics_conditions_and_groupings_are_read() {
    let check = |expression: &str, selectors: &[&str], groupings: &[&str]| {
        let asked = asked(expression);
        let shown: Vec<String> = asked.selectors.iter().map(shown).collect();
        assert_eq!(shown, selectors, "{expression}");
        assert_eq!(asked.groupings, groupings, "{expression}");
    };
    check("a == 0", &["a{}"], &[]);
    check("absent(up{job=\"x\"})", &["up{job=x}"], &[]);
    check("time() - max(last_over_time(a[1w])) > 1.5e3", &["a{}"], &[]);
    check("sum by (l, m) (a{l=~\"x|y\", m!=\"z\"}) / sum(b offset 1h)", &["a{l~x|y,m=z}", "b{}"], &["l", "m"]);
    check("a and on (i) b unless c{s=\"{a,b}\"}", &["a{}", "b{}", "c{s={a,b}}"], &["i"]);
    check("a:b > bool 2 or c{}", &["a:b{}", "c{}"], &[]);
    check("sums{l=\"\"} maximum", &["sums{l=}", "maximum{}"], &[]);
}

fn shown(selector: &Selector) -> String {
    let sign = |condition: &Condition| if condition.is_pattern { '~' } else { '=' };
    let conditions: Vec<String> =
        selector.conditions.iter().map(|each| format!("{}{}{}", each.label, sign(each), each.value)).collect();
    format!("{}{{{}}}", selector.name, conditions.join(","))
}

//! The text format of Prometheus, version 0.0.4. Not OpenMetrics: that refuses the names of the older service.

use std::io::Write as _;

use super::catalogue::Metric;

/// What the answer is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An answer as it is written.
#[derive(Debug, Default)]
pub(super) struct Text(pub(super) Vec<u8>);

impl Text {
    /// The two lines before the samples of a metric.
    pub(super) fn head(&mut self, metric: &Metric) {
        self.0.extend_from_slice(b"# HELP ");
        self.0.extend_from_slice(metric.name.as_bytes());
        self.0.push(b' ');
        // Quotes stay as they are in help texts.
        escape(&mut self.0, metric.help, |byte| byte == b'"');
        self.put(format_args!("\n# TYPE {} {}\n", metric.name, metric.kind.as_str()));
    }

    /// A metric without labels.
    pub(super) fn single(&mut self, metric: &Metric, value: impl std::fmt::Display) {
        self.head(metric);
        self.sample(metric, &[], value);
    }

    /// One sample of a metric; `values` belong to its labels.
    pub(super) fn sample(&mut self, metric: &Metric, values: &[&str], value: impl std::fmt::Display) {
        self.line(metric, "", values, None, value);
    }

    /// One line of a histogram: its name with a suffix, and a last label of its own.
    pub(super) fn line(
        &mut self,
        metric: &Metric,
        suffix: &str,
        values: &[&str],
        bucket: Option<&str>,
        value: impl std::fmt::Display,
    ) {
        debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
        self.0.extend_from_slice(metric.name.as_bytes());
        self.0.extend_from_slice(suffix.as_bytes());
        let labels = metric.labels.iter().copied().zip(values.iter().copied()).chain(bucket.map(|le| ("le", le)));
        let mut separator = b'{';
        for (name, value) in labels {
            self.0.push(separator);
            label(&mut self.0, name, value);
            separator = b',';
        }
        if separator == b',' {
            self.0.push(b'}');
        }
        self.put(format_args!(" {value}\n"));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing into memory does not fail");
    }
}

/// `name="value"`, escaped.
pub(super) fn label(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    escape(out, value, |_| false);
    out.push(b'"');
}

/// Backslash, quote and newline mean something else in this format. `plain` are those that do not.
fn escape(out: &mut Vec<u8>, text: &str, plain: impl Fn(u8) -> bool) {
    let mut rest = text.as_bytes();
    let special = |byte: &u8| matches!(byte, b'\\' | b'"' | b'\n') && !plain(*byte);
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(match rest[at] {
            b'\n' => br"\n",
            b'"' => b"\\\"",
            _ => br"\\",
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::catalogue::Kind;

    const ODD: Metric = Metric {
        name: "odd",
        kind: Kind::Gauge,
        labels: &["a", "b"],
        help: "A \\ and a \"quote\"\nand a line.",
        note: "",
    };

    fn written(write: impl FnOnce(&mut Text)) -> String {
        let mut text = Text::default();
        write(&mut text);
        String::from_utf8(text.0).expect("UTF-8")
    }

    #[test]
    fn heads_escape_backslashes_and_lines_but_no_quotes() {
        assert_eq!(
            written(|text| text.head(&ODD)),
            "# HELP odd A \\\\ and a \"quote\"\\nand a line.\n# TYPE odd gauge\n"
        );
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let check = |value: &str, expected: &str| {
            assert_eq!(
                written(|text| text.sample(&ODD, &[value, ""], 1)),
                format!("odd{{a=\"{expected}\",b=\"\"}} 1\n")
            );
        };
        check("", "");
        check("plain ünïcode {x}, y=z", "plain ünïcode {x}, y=z");
        check("\"", "\\\"");
        check("\\", "\\\\");
        check("\n", "\\n");
        check("\\n", "\\\\n");
        check("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
        check("\"\"\n\n", "\\\"\\\"\\n\\n");
    }

    #[test]
    fn lines_with_and_without_labels() {
        let bare = Metric { labels: &[], ..ODD };
        let check = |written: String, expected: &str| assert_eq!(written, expected);
        check(written(|text| text.sample(&bare, &[], 0.25)), "odd 0.25\n");
        check(written(|text| text.sample(&bare, &[], u64::MAX)), "odd 18446744073709551615\n");
        check(written(|text| text.line(&bare, "_bucket", &[], Some("+Inf"), 3)), "odd_bucket{le=\"+Inf\"} 3\n");
        check(
            written(|text| text.line(&ODD, "_bucket", &["x", "y"], Some("0.5"), 3)),
            "odd_bucket{a=\"x\",b=\"y\",le=\"0.5\"} 3\n",
        );
        check(written(|text| text.line(&ODD, "_sum", &["x", "y"], None, 1.5)), "odd_sum{a=\"x\",b=\"y\"} 1.5\n");
    }
}

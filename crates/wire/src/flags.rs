//! How both programs spell their flags. Programs of the older service took `-http` as well as `--http`; scripts and unit files
//! written for them keep working.

use std::ffi::OsString;

/// Rewrites `-name` and `-name=value` into the two-dash form for every known long flag. Everything after `--` is left alone, and so
/// is what is not UTF-8: file names may be anything.
pub fn double_dashes<N: AsRef<str>>(args: impl IntoIterator<Item = OsString>, known: &[N]) -> Vec<OsString> {
    let mut only_operands = false;
    let respell = |arg: OsString| {
        only_operands |= arg == "--";
        let text = arg.to_str().filter(|_| !only_operands);
        let Some(name) = text.and_then(|text| text.strip_prefix('-')).filter(|rest| !rest.starts_with('-')) else {
            return arg;
        };
        let stem = name.split('=').next().unwrap_or(name);
        // One letter is a short flag, whatever long flags there are.
        if stem.len() > 1 && known.iter().any(|name| name.as_ref() == stem) { format!("--{name}").into() } else { arg }
    };
    args.into_iter().map(respell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_flags_may_have_one_dash() {
        let check = |args: &[&str], expected: &[&str]| {
            let args = args.iter().map(OsString::from);
            assert_eq!(double_dashes(args, &["http", "data-dir", "f"]), expected);
        };
        check(&["sabakan", "-http", "x:1"], &["sabakan", "--http", "x:1"]);
        check(&["-http=x:1", "--data-dir", "d"], &["--http=x:1", "--data-dir", "d"]);
        check(&["-f", "-unknown", "-", "-1"], &["-f", "-unknown", "-", "-1"]);
        check(&["--", "-http"], &["--", "-http"]);
    }
}

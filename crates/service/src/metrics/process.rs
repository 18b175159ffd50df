//! What the kernel tells about this process. Where there is no `/proc`, these metrics are absent.

use std::fs;

use super::{catalogue, text::Text};

/// Ticks per second of processor times in `/proc`: fixed at 100 for programs on every architecture Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(text: &mut Text) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let figures = Figures::read(&read("/proc/self/stat"), &read("/proc/stat"), &read("/proc/self/status"));
    let own = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1));
    let Figures { cpu, started, resident, virtual_size, threads } = figures;
    let mut put = |metric, value: Option<f64>| {
        if let Some(value) = value {
            text.single(metric, value);
        }
    };
    put(&catalogue::CPU, cpu);
    put(&catalogue::MEMORY, resident);
    put(&catalogue::VIRTUAL, virtual_size);
    // The directory itself was open while it was read.
    #[allow(clippy::cast_precision_loss, reason = "far fewer descriptors than that")]
    put(&catalogue::FDS, own.map(|count| count as f64));
    put(&catalogue::FDS_MAX, max_fds(&read("/proc/self/limits")));
    put(&catalogue::STARTED, started);
    put(&catalogue::THREADS, threads);
}

#[derive(Debug, PartialEq)]
struct Figures {
    cpu: Option<f64>,
    started: Option<f64>,
    resident: Option<f64>,
    virtual_size: Option<f64>,
    threads: Option<f64>,
}

impl Figures {
    /// Out of `/proc/self/stat`, `/proc/stat` and `/proc/self/status`.
    fn read(own: &str, system: &str, status: &str) -> Figures {
        // The name of the program stands in brackets and may hold anything, brackets and blanks included.
        let fields: Vec<&str> = own.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        // Counted from 1 in the manual, where the third is the first behind the name.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let seconds = |number: usize| Some(ticks(number)? / TICKS_PER_SECOND);
        let booted = field(system, "btime");
        Figures {
            cpu: seconds(14).zip(seconds(15)).map(|(user, kernel)| user + kernel),
            started: booted.zip(seconds(22)).map(|(booted, after)| booted + after),
            resident: field(status, "VmRSS:").map(|kilobytes| kilobytes * 1024.0),
            virtual_size: field(status, "VmSize:").map(|kilobytes| kilobytes * 1024.0),
            threads: field(status, "Threads:"),
        }
    }
}

/// The number behind a word at the begin of a line.
fn field(text: &str, word: &str) -> Option<f64> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut line| if line.next() == Some(word) { line.next()?.parse().ok() } else { None })
}

/// The soft limit; absent when there is none.
fn max_fds(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_process() {
        let own = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 9 18 1000 20 21 22";
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n";
        let read = Figures::read(own, "cpu 1 2\nbtime 1700000000\n", status);
        let expected = Figures {
            cpu: Some(3.0),
            started: Some(1_700_000_010.0),
            resident: Some(1_048_576.0),
            virtual_size: Some(2_097_152.0),
            threads: Some(9.0),
        };
        assert_eq!(read, expected);
        let nothing = Figures { cpu: None, started: None, resident: None, virtual_size: None, threads: None };
        assert_eq!(Figures::read("", "", ""), nothing);
        assert_eq!(Figures::read("1 (x", "btime", "VmRSS: many"), nothing);
    }

    #[test]
    fn limits_of_a_process() {
        let limits = |soft: &str| format!("Limit  Soft Limit\nMax open files            {soft}    4096   files\n");
        assert_eq!(max_fds(&limits("1024")), Some(1024.0));
        assert_eq!(max_fds(&limits("unlimited")), None);
        assert_eq!(max_fds(""), None);
    }
}

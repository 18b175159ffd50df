//! The machine a benchmark ran on.

use std::fs;

use anyhow::Context as _;

/// Processor, memory, kernel and file system, in one line.
pub fn description() -> anyhow::Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(" : unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']).to_owned();
    let cores = std::thread::available_parallelism().context("number of cores")?;
    let meminfo = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let total = kilobytes(&meminfo, "MemTotal:").context("MemTotal")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("kernel release")?;
    let load = fs::read_to_string("/proc/loadavg").context("load")?;
    Ok(format!(
        "{cores} cores of {model}, {} GiB of memory, Linux {}, load {} at the end",
        total / 1024 / 1024,
        kernel.trim(),
        load.split(' ').next().unwrap_or("?")
    ))
}

/// A field of `/proc/…` in kB.
pub fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

//! `sabakan store …`: checks, copies and moves stored data, on either store.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use sabakan_store::{
    embedded,
    keys::Keys,
    repo::consistency,
    transfer::{self, Progress},
};

use crate::{
    config::{ServerConfig, StoreConfig},
    run::{self, OpenStore, STORE_FILE},
};

/// Looks for damage in the file and for contradictions in the registry.
pub fn check(config: &ServerConfig) -> anyhow::Result<ExitCode> {
    let mut problems: Vec<String> = Vec::new();
    if config.store == StoreConfig::Embedded {
        let path = config.data_dir.join(STORE_FILE);
        let report = embedded::check(&path)?;
        println!(
            "{}: {} keys at revision {}, {} versions of them",
            path.display(),
            report.keys,
            report.revision,
            report.rows
        );
        problems.extend(report.problems);
    }
    if problems.is_empty() {
        let report = run::block_on(async {
            let store = run::open_store(config).await?;
            let report = consistency::check(&*store.store(), &Keys::new(&config.etcd_prefix)).await?;
            close(store).await;
            Ok(report)
        })?;
        println!("registry: {} machines read", report.machines);
        problems = report.problems;
    }
    for problem in &problems {
        println!("problem: {problem}");
    }
    println!(
        "{}",
        if problems.is_empty() { "no problem found".to_owned() } else { format!("{} problems found", problems.len()) }
    );
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes every key as JSON lines.
pub fn export(config: &ServerConfig, out: &Path) -> anyhow::Result<ExitCode> {
    let to_stdout = out == Path::new("-");
    let mut sink: Box<dyn io::Write + Send> = if to_stdout {
        Box::new(io::BufWriter::new(io::stdout()))
    } else {
        let file = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
        Box::new(io::BufWriter::new(file))
    };
    let summary = run::block_on(async {
        let store = run::open_store(config).await?;
        let summary = transfer::export(&*store.store(), &prefixes(config), &mut *sink, &mut show).await?;
        sink.flush().context("cannot write the export")?;
        close(store).await;
        Ok(summary)
    })?;
    eprintln!("{} keys exported at revision {}", summary.keys, summary.revision);
    Ok(ExitCode::SUCCESS)
}

/// Reads an export into an empty store.
pub fn import(config: &ServerConfig, input: &Path) -> anyhow::Result<ExitCode> {
    let mut file = File::open(input).with_context(|| format!("cannot read {}", input.display()))?;
    let imported = run::block_on(async {
        let store = run::open_store(config).await?;
        let imported = transfer::import(&*store.store(), &prefixes(config), &mut file, &mut show).await?;
        close(store).await;
        Ok(imported)
    })?;
    eprintln!("{} keys imported", imported.keys);
    Ok(ExitCode::SUCCESS)
}

/// Says how far a long transfer has come, now and then.
fn show(progress: Progress) {
    const EVERY: u64 = 10_000;
    if progress.keys > 0 && progress.keys.is_multiple_of(EVERY) {
        let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        eprintln!("{:?}: {}{total} keys", progress.stage, progress.keys);
    }
}

/// Everything this installation stores.
fn prefixes(config: &ServerConfig) -> Vec<String> {
    vec![config.etcd_prefix.clone()]
}

async fn close(store: OpenStore) {
    if let OpenStore::Embedded(store) = store {
        store.shutdown().await;
    }
}

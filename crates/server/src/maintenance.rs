//! `sabakan store …`: checks, copies and moves stored data, on either store.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use sabakan_store::{
    Store, embedded,
    keys::Keys,
    repo::consistency,
    transfer::{self, Exported, Progress},
};

use crate::{
    config::{ServerConfig, StoreConfig},
    run::{self, OpenStore, STORE_FILE},
};

/// Looks for damage in the file and for contradictions in the registry.
pub fn check(config: &ServerConfig) -> anyhow::Result<ExitCode> {
    must_exist(config)?;
    if config.store == StoreConfig::Embedded {
        let path = config.data_dir.join(STORE_FILE);
        let report = embedded::check(&path)?;
        let (keys, revision, rows) = (report.keys, report.revision, report.rows);
        println!("{}: {keys} keys at revision {revision}, {rows} versions of them", path.display());
        if !report.is_clean() {
            // What a damaged file says about machines proves nothing.
            return Ok(verdict(&report.problems, report.problem_count));
        }
    }
    let report = run::block_on(async {
        let store = run::open_store(config).await?;
        let report =
            consistency::check(&*store.store(), &Keys::new(&config.etcd_prefix, &config.states_prefix)).await?;
        close(store).await;
        Ok(report)
    })?;
    println!("registry: {} machines read", report.machines);
    Ok(verdict(&report.problems, report.problems.len() as u64))
}

fn verdict(problems: &[String], count: u64) -> ExitCode {
    for problem in problems {
        println!("problem: {problem}");
    }
    match count {
        0 => println!("no problem found"),
        1 => println!("1 problem found"),
        n => println!("{n} problems found"),
    }
    if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes every key as JSON lines. A file appears only when it is complete and on the disk: an older export of the same name is
/// worth more than half of a new one. Nobody else may read it.
pub fn export(config: &ServerConfig, out: &Path) -> anyhow::Result<ExitCode> {
    must_exist(config)?;
    let exported = run::block_on(async {
        let store = run::open_store(config).await?;
        let exported = if out == Path::new("-") {
            let mut sink = io::BufWriter::new(io::stdout());
            let exported = transfer::export(&*store.store(), &prefixes(config), &mut sink, &mut show).await?;
            sink.flush().context("cannot write to the standard output")?;
            exported
        } else {
            export_to_file(&*store.store(), config, out).await?
        };
        close(store).await;
        Ok(exported)
    })?;
    eprintln!("{} keys exported at revision {}", exported.keys, exported.revision);
    Ok(ExitCode::SUCCESS)
}

async fn export_to_file(store: &dyn Store, config: &ServerConfig, out: &Path) -> anyhow::Result<Exported> {
    let cannot = || format!("cannot write {}", out.display());
    // A link is followed, so that it goes on pointing at the export. What is there and no file, such as a pipe, is written to.
    let out = &fs::canonicalize(out).unwrap_or_else(|_| out.to_owned());
    if fs::metadata(out).is_ok_and(|there| !there.is_file()) {
        let mut sink = io::BufWriter::new(File::options().write(true).open(out).with_context(cannot)?);
        let exported = transfer::export(store, &prefixes(config), &mut sink, &mut show).await?;
        sink.flush().with_context(cannot)?;
        return Ok(exported);
    }
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Made readable for its owner only.
    let draft = tempfile::NamedTempFile::new_in(dir).with_context(cannot)?;
    let mut sink = io::BufWriter::new(draft);
    let exported = transfer::export(store, &prefixes(config), &mut sink, &mut show).await?;
    let draft = sink.into_inner().map_err(io::IntoInnerError::into_error).with_context(cannot)?;
    draft.as_file().sync_all().with_context(cannot)?;
    draft.persist(out).with_context(cannot)?;
    File::open(dir).and_then(|dir| dir.sync_all()).with_context(cannot)?;
    Ok(exported)
}

/// Reading from a store that is not there is a mistyped directory, not an empty store.
fn must_exist(config: &ServerConfig) -> anyhow::Result<()> {
    let path = config.data_dir.join(STORE_FILE);
    if config.store == StoreConfig::Embedded && !path.exists() {
        bail!("there is no store at {}; give the --data-dir of a server", path.display());
    }
    Ok(())
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
    vec![config.etcd_prefix.clone(), config.states_prefix.clone()]
}

async fn close(store: OpenStore) {
    if let OpenStore::Embedded(store) = store {
        store.shutdown().await;
    }
}

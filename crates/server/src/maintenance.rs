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
    repo::{consistency, crypts},
    transfer::{self, Exported, Progress},
};

use crate::{
    config::{ServerConfig, StoreConfig},
    keys::name_raw,
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
        let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
        let mut report = consistency::check(&*store.store(), &keys).await?;
        let raw = crypts::list_raw(&*store.store(), &keys).await?;
        report
            .notes
            .extend(raw.iter().map(|name| format!("takeover: crypts/{name} is a raw key that waits to be imported")));
        close(store).await;
        Ok(report)
    })?;
    println!("registry: {} machines read", report.machines);
    for note in &report.notes {
        println!("note: {note}");
    }
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
        let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
        name_raw(
            &crypts::list_raw(&*store.store(), &keys).await?,
            "are in the export, readable for whoever has the file",
        );
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

/// Exit code of an export that had to leave something out.
const SOMETHING_LOST: u8 = 3;

/// Writes every key that is readable, whatever the file is like, and lists the rest: for people on the standard error, and as JSON
/// beside the export. The data file is not changed.
pub fn salvage(config: &ServerConfig, out: &Path) -> anyhow::Result<ExitCode> {
    must_exist(config)?;
    if config.store != StoreConfig::Embedded {
        bail!("--salvage reads a damaged file of the embedded store; etcd repairs its own data, export without it");
    }
    let path = config.data_dir.join(STORE_FILE);
    let (store, report) = embedded::EmbeddedStore::open_salvaged(&path)?;
    let (exported, records) = run::block_on(async {
        let exported = if out == Path::new("-") {
            let mut sink = io::BufWriter::new(io::stdout());
            let exported = transfer::export(&store, &prefixes(config), &mut sink, &mut show).await?;
            sink.flush().context("cannot write to the standard output")?;
            exported
        } else {
            export_to_file(&store, config, out).await?
        };
        let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
        // What is left may contradict itself, or not make sense; it is exported as it is.
        let records = consistency::check(&store, &keys).await.map(|report| report.problems);
        store.shutdown().await;
        Ok((exported, records.unwrap_or_else(|error| vec![error.to_string()])))
    })?;
    for page in &report.pages {
        eprintln!("damaged: {}", page.reason);
    }
    for lost in &report.lost {
        eprintln!("lost: {} (changed at revision {}): {}", lost.key, lost.revision, lost.reason);
    }
    for problem in &records {
        eprintln!("problem: {problem}");
    }
    if !report.names_all {
        eprintln!(
            "more may be lost: neither the table nor its index is whole, and some values may be older than the last ones"
        );
    }
    if out != Path::new("-") {
        write_summary(&report, exported, &records, out)?;
    }
    let (keys, revision, lost) = (exported.keys, exported.revision, report.lost.len());
    eprintln!("{keys} keys exported at revision {revision}, {lost} keys lost");
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(SOMETHING_LOST) })
}

/// The same for programs, in `<export>.salvage.json`.
fn write_summary(
    report: &embedded::SalvageReport,
    exported: Exported,
    records: &[String],
    out: &Path,
) -> anyhow::Result<()> {
    let lost: Vec<_> = report
        .lost
        .iter()
        .map(|lost| serde_json::json!({"key": lost.key, "revision": lost.revision.0, "reason": lost.reason}))
        .collect();
    let pages: Vec<_> =
        report.pages.iter().map(|page| serde_json::json!({"page": page.page, "reason": page.reason})).collect();
    let summary = serde_json::json!({
        "revision": exported.revision.0,
        "keys": exported.keys,
        "lost": lost,
        "lost-is-complete": report.names_all,
        "pages": pages,
        "problems": records,
    });
    let mut name = out.as_os_str().to_owned();
    name.push(".salvage.json");
    fs::write(&name, format!("{summary:#}\n")).with_context(|| format!("cannot write {}", Path::new(&name).display()))
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

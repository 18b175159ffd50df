//! Whether the file is as long as it says. SQLite reads what is missing at the end of the last page as zeros and says nothing, so
//! this looks at the bytes: the number of pages in the header of the file, and which of them only the write-ahead log holds.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufReader, ErrorKind, Read},
    path::Path,
};

use super::structure::FileFinding;

/// The part of the first page that says how large the file is.
const HEADER_BYTES: usize = 100;

/// The header of the write-ahead log, and of each page in it.
const WAL_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The first page that is not whole, neither in the file nor in the write-ahead log. A file that is not SQLite's is not judged.
pub(super) fn check(path: &Path) -> std::io::Result<Option<FileFinding>> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => {}
        Ok(()) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    // An old SQLite left the count alone; then these two numbers differ, and SQLite goes by the length of the file.
    if page_bytes == 0 || header[24..28] != header[92..96] {
        return Ok(None);
    }
    let pages = u64::from(word(&header[28..]));
    let whole = bytes / page_bytes;
    if whole >= pages {
        return Ok(None);
    }
    // A crash while the log was copied into the file leaves it short; what is missing is then still in the log.
    let logged = logged_pages(path, page_bytes)?;
    Ok((whole + 1..=pages).find(|page| !logged.contains(page)).map(|page| FileFinding {
        tree: None,
        page: Some(page),
        text: format!(
            "the file has {bytes} bytes, its {pages} pages need {}: it was cut off in page {page}",
            pages * page_bytes
        ),
    }))
}

/// Numbers of the pages in committed transactions of the write-ahead log.
fn logged_pages(path: &Path, page_bytes: u64) -> std::io::Result<HashSet<u64>> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let (mut committed, mut pending) = (HashSet::new(), Vec::new());
    let mut source = match File::open(name) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(committed),
        Err(error) => return Err(error),
    };
    let mut header = [0; WAL_HEADER_BYTES];
    if !fill(&mut source, &mut header)? {
        return Ok(committed);
    }
    let mut sum = WalSum { words_are_big: header[3] & 1 == 1, low: 0, high: 0 };
    sum.add(&header[..24]);
    if !sum.is(&header[24..]) {
        return Ok(committed);
    }
    let mut frame = [0; FRAME_HEADER_BYTES];
    let mut page = vec![0; usize::try_from(page_bytes).unwrap_or(0)];
    while fill(&mut source, &mut frame)? && fill(&mut source, &mut page)? {
        sum.add(&frame[..8]);
        sum.add(&page);
        // Behind the last change there may be older ones, which do not continue the sum.
        if frame[8..16] != header[16..24] || !sum.is(&frame[16..]) {
            break;
        }
        pending.push(u64::from(word(&frame)));
        if word(&frame[4..]) != 0 {
            committed.extend(pending.drain(..));
        }
    }
    Ok(committed)
}

/// Reads the whole buffer; `false` if the file ends before.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match source.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

/// The running checksum of the log, as <https://www.sqlite.org/fileformat2.html#checksum_algorithm> defines it.
struct WalSum {
    words_are_big: bool,
    low: u32,
    high: u32,
}

impl WalSum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(8) {
            let [first, second] = [word(pair), word(&pair[4..])];
            let read = |word: u32| if self.words_are_big { word } else { word.swap_bytes() };
            let (first, second) = (read(first), read(second));
            self.low = self.low.wrapping_add(first).wrapping_add(self.high);
            self.high = self.high.wrapping_add(second).wrapping_add(self.low);
        }
    }

    fn is(&self, stored: &[u8]) -> bool {
        (word(stored), word(&stored[4..])) == (self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_short_file_is_damaged_unless_the_log_has_what_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let wal = directory.path().join("a.db-wal");
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
                    INSERT INTO t SELECT zeroblob(3000) FROM n";
        db.execute_batch(fill).unwrap();
        let (log, before) = (std::fs::read(&wal).unwrap(), std::fs::metadata(&path).unwrap().len());
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        drop(db);
        assert!(check(&path).unwrap().is_none());
        let file = std::fs::read(&path).unwrap();

        // Cut in the middle of the last page: without the log it is damage, with it the end of a crash.
        std::fs::write(&path, &file[..file.len() - 100]).unwrap();
        let last = file.len() as u64 / 4096;
        assert_eq!(check(&path).unwrap().and_then(|finding| finding.page), Some(last));
        std::fs::write(&wal, &log).unwrap();
        assert!(check(&path).unwrap().is_none());
        std::fs::write(&path, &file[..before.try_into().unwrap()]).unwrap();
        assert!(check(&path).unwrap().is_none());

        // A log that was cut is worth as much as none: its only transaction did not end.
        std::fs::write(&wal, &log[..log.len() - 1]).unwrap();
        assert!(check(&path).unwrap().is_some());
        std::fs::write(&wal, b"no log").unwrap();
        assert!(check(&path).unwrap().is_some());
        std::fs::write(&path, b"something else").unwrap();
        assert!(check(&path).unwrap().is_none());
    }
}

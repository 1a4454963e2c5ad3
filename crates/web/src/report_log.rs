//! The reports of a session in memory and in their file (`spec/web.md#typed-stream`).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use crate::journal::private;
use crate::report_ring::{ReportLimits, ReportRing};

/// The kept reports. The file has a line for each: its number, a space and its JSON.
#[derive(Debug)]
pub(crate) struct ReportLog {
    ring: ReportRing,
    path: PathBuf,
    file: File,
    len: u64,
    /// Lines that are not in the file.
    unwritten: String,
}

impl ReportLog {
    /// Opens or creates the file. A damaged line ends it: the bytes from there on are dropped.
    pub(crate) fn open(path: &Path, limits: ReportLimits) -> io::Result<Self> {
        let mut file = private().read(true).append(true).create(true).open(path)?;
        let mut ring = ReportRing::new(limits);
        let mut len: u64 = 0;
        let mut reader = BufReader::new(&mut file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            let Some((number, report)) = parse(&line) else { break };
            ring.restore(number, report);
            len = len.saturating_add(u64::try_from(line.len()).unwrap_or_default());
            line.clear();
        }
        file.set_len(len)?;
        Ok(ReportLog { ring, path: path.to_owned(), file, len, unwritten: String::new() })
    }

    /// Returns the kept reports.
    pub(crate) fn ring(&self) -> &ReportRing {
        &self.ring
    }

    /// Adds a report, which is one line of JSON.
    pub(crate) fn push(&mut self, report: &str) {
        let number = self.ring.push(report);
        self.unwritten.push_str(&line(number, report));
    }

    /// Writes the reports that were added since the last call. Returns whether there were any.
    pub(crate) fn write(&mut self) -> io::Result<bool> {
        if self.unwritten.is_empty() {
            return Ok(false);
        }
        let lines = std::mem::take(&mut self.unwritten);
        self.file.write_all(lines.as_bytes())?;
        self.len = self.len.saturating_add(u64::try_from(lines.len()).unwrap_or_default());
        let kept = u64::try_from(self.ring.bytes()).unwrap_or(u64::MAX);
        if self.len > MIN_REWRITE && self.len / 2 > kept {
            self.rewrite()?;
        }
        Ok(true)
    }

    /// Leaves only the kept reports in the file.
    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("reports-new");
        // Left by a server that was killed.
        let _ = fs::remove_file(&new);
        let mut file = private().append(true).create_new(true).open(&new)?;
        let lines: String = self.ring.all().map(|(number, report)| line(*number, report)).collect();
        file.write_all(lines.as_bytes())?;
        fs::rename(&new, &self.path)?;
        self.file = file;
        self.len = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// Returns the path of the reports beside a history.
pub(crate) fn path_beside(history: &Path) -> PathBuf {
    history.with_extension(EXTENSION)
}

fn line(number: u64, report: &str) -> String {
    format!("{number} {report}\n")
}

/// Parses a whole line.
fn parse(line: &[u8]) -> Option<(u64, &str)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (number, report) = line.split_once(' ')?;
    serde_json::from_str::<IgnoredAny>(report).ok()?;
    Some((number.parse().ok()?, report))
}

/// The extension of the files.
pub(crate) const EXTENSION: &str = "reports";
/// The shortest file that is rewritten.
const MIN_REWRITE: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LIMITS: ReportLimits = ReportLimits { reports: 100, bytes: 1024 * 1024 };

    fn texts(log: &ReportLog) -> Vec<String> {
        log.ring().all().map(|(_, text)| text.to_string()).collect()
    }

    #[test]
    fn reports_are_read_again_up_to_a_damaged_line() {
        let directory =
            std::env::temp_dir().join(format!("aifo-web-reports-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("x.reports");
        let mut log = ReportLog::open(&path, LIMITS).unwrap();
        assert!(!log.write().unwrap());
        log.push("{\"type\":\"draft\"}");
        log.push("{\"type\":\"final\"}");
        assert!(log.write().unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (whole, first) = (fs::read(&path).unwrap(), log.ring().first());
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut log = ReportLog::open(&path, LIMITS).unwrap();
            let expected = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(texts(&log).len(), expected, "cut at {cut}");
            log.push("{\"type\":\"gap\"}");
            log.write().unwrap();
            let again = ReportLog::open(&path, LIMITS).unwrap();
            assert_eq!(texts(&again).len(), expected + 1, "appended after a cut at {cut}");
            if expected > 0 {
                assert_eq!(again.ring().first(), first, "numbers stay");
            }
            let after = again.ring().after(first + 1, 10);
            assert!(!after.has_gap || expected == 0, "cut at {cut}");
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn the_file_is_bounded() {
        let directory =
            std::env::temp_dir().join(format!("aifo-web-bounded-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("x.reports");
        let mut log = ReportLog::open(&path, LIMITS).unwrap();
        let report = format!("\"{}\"", "x".repeat(50_000));
        for _ in 0..200 {
            log.push(&report);
            log.write().unwrap();
            assert!(fs::metadata(&path).unwrap().len() < 3 * 1024 * 1024);
        }
        let again = ReportLog::open(&path, LIMITS).unwrap();
        assert_eq!(texts(&again).last(), Some(&report));
        assert!(again.ring().bytes() <= LIMITS.bytes);
        fs::remove_dir_all(directory).unwrap();
    }
}

//! Reads a text file, or some of its lines.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;

use aifo_acp::RpcError;
use nix::fcntl::OFlag;
use serde_json::Value;

use super::limits::FileLimits;
use crate::rpc::{failed, invalid, optional, refused};
use crate::workspace::{Workspace, regular};

/// The requested lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Lines before the first one.
    skip: u64,
    /// Number of lines; `None` for all.
    count: Option<u64>,
}

impl Slice {
    /// `line`, which counts from 1, and `limit`. Some agents count from 0, so 0 is the first line
    /// as well.
    pub(super) fn parse(params: &Value) -> Result<Self, RpcError> {
        let number = |name| {
            let whole = |value: &Value| {
                value.as_u64().ok_or_else(|| invalid(format!("'{name}' must be an integer")))
            };
            optional(params, name).map(whole).transpose()
        };
        let skip = number("line")?.unwrap_or_default().saturating_sub(1);
        Ok(Slice { skip, count: number("limit")? })
    }
}

/// Returns the requested lines of a file unchanged. Checks the path as far as it resolves, then the
/// opened file.
pub(super) fn read(
    workspace: &Workspace,
    path: &str,
    beneath: &Path,
    slice: Slice,
    limits: &FileLimits,
    judge: impl Fn(&Path) -> Result<(), RpcError>,
) -> Result<String, RpcError> {
    let refuse = |errno| refused(path, errno);
    judge(&workspace.resolve_beneath(beneath).map_err(refuse)?)?;
    // Opening must not block on a FIFO nor acquire a controlling terminal.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = workspace.open_beneath(beneath, flags).and_then(regular);
    let (file, _) = opened.map_err(refuse)?;
    judge(&workspace.real_path(file.as_fd()).map_err(refuse)?)?;
    let bytes = match lines(file, slice, limits) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            return Err(invalid(format!(
                "'{path}' is too large: {} bytes are read at once; 'line' and 'limit' ask for less",
                limits.read
            )));
        }
        Err(error) => return Err(failed(format!("'{path}': {}", error.kind()))),
    };
    String::from_utf8(bytes).map_err(|_| invalid(format!("'{path}' is not UTF-8 text")))
}

/// Returns the bytes of the lines; `None` if they exceed the limits.
fn lines(file: impl Read, slice: Slice, limits: &FileLimits) -> io::Result<Option<Vec<u8>>> {
    let mut file = BufReader::with_capacity(BUFFER, file);
    let mut ahead = (&mut file).take(limits.skipped);
    for _ in 0..slice.skip {
        if ahead.skip_until(b'\n')? == 0 {
            break;
        }
    }
    if ahead.limit() == 0 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let mut counted = 0;
    while slice.count.is_none_or(|count| counted < count) {
        // Read one byte more than permitted, to detect the excess.
        let room = limits.read.saturating_sub(bytes.len()).saturating_add(1);
        if (&mut file).take(room as u64).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if bytes.len() > limits.read {
            return Ok(None);
        }
        counted += 1;
    }
    Ok(Some(bytes))
}

const BUFFER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMITS: FileLimits = FileLimits { read: 8, skipped: 32, write: 0 };

    fn slice(line: u64, limit: Option<u64>) -> Slice {
        Slice::parse(&json!({"line": line, "limit": limit})).unwrap()
    }

    #[test]
    fn lines_are_counted_from_one_and_kept_as_they_are() {
        let rows = [
            ("a\nb\nc\n", slice(1, None), "a\nb\nc\n"),
            ("a\nb\nc\n", slice(0, None), "a\nb\nc\n"),
            ("a\nb\nc\n", slice(2, None), "b\nc\n"),
            ("a\nb\nc\n", slice(2, Some(1)), "b\n"),
            ("a\nb\nc\n", slice(3, Some(9)), "c\n"),
            ("a\nb\nc\n", slice(4, None), ""),
            ("a\nb\nc\n", slice(u64::MAX, Some(u64::MAX)), ""),
            ("a\nb\nc\n", slice(1, Some(0)), ""),
            ("a\nb", slice(2, Some(1)), "b"),
            ("a\nb", slice(3, None), ""),
            ("a\r\nb\r\n", slice(2, Some(1)), "b\r\n"),
            ("\n\n\n", slice(2, Some(2)), "\n\n"),
            ("", slice(1, None), ""),
            ("\u{feff}a", slice(1, None), "\u{feff}a"),
        ];
        for (text, slice, expected) in rows {
            let found = lines(text.as_bytes(), slice, &LIMITS).unwrap();
            assert_eq!(found.as_deref(), Some(expected.as_bytes()), "{text:?} {slice:?}");
        }
    }

    #[test]
    fn the_limit_applies_to_the_result() {
        let rows = [
            ("12345678", slice(1, None), true),
            ("123456789", slice(1, None), false),
            ("1234567\n9", slice(1, Some(1)), true),
            ("1234567\n9", slice(1, Some(2)), false),
            ("12345678901234567890\n1", slice(2, None), true),
            // As far as is looked for a line.
            ("1234567890123456789012345678901\n1", slice(2, None), false),
            ("123456789012345678901234567890123456789", slice(9, None), false),
        ];
        for (text, slice, fits) in rows {
            let found = lines(text.as_bytes(), slice, &LIMITS).unwrap();
            assert_eq!(found.is_some(), fits, "{text:?} {slice:?}");
        }
        // Bounded, too, where a line never ends.
        assert_eq!(lines(io::repeat(b'x'), slice(1, Some(1)), &LIMITS).unwrap(), None);
        assert_eq!(lines(io::repeat(b'x'), slice(2, Some(1)), &LIMITS).unwrap(), None);
    }

    #[test]
    fn a_slice_is_whole_numbers() {
        assert_eq!(Slice::parse(&json!({})).unwrap(), Slice { skip: 0, count: None });
        let null = json!({"line": null, "limit": null});
        assert_eq!(Slice::parse(&null).unwrap(), Slice { skip: 0, count: None });
        for params in [json!({"line": -1}), json!({"limit": 1.5}), json!({"line": "2"})] {
            assert!(Slice::parse(&params).is_err(), "{params}");
        }
    }
}

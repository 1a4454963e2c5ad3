//! The files that a call names in options, or by URLs.

use super::glob::{UNKNOWN, is_unknown};
use super::normal::NormalCall;
use super::table::base_name;

impl NormalCall {
    /// Returns the paths in values of options.
    pub(super) fn paths(&self) -> Vec<&[u8]> {
        let mut paths = Vec::new();
        for name in &self.known.table.path_options {
            let (option, separator) = match name.strip_suffix([':', ',']) {
                Some(option) => (option, name.bytes().last()),
                None => (*name, None),
            };
            for value in self.values(option.as_bytes()) {
                match separator {
                    Some(b':') => {
                        let source = value.split(|byte| *byte == b':').next().unwrap_or_default();
                        // A name is a volume, and no path.
                        let is_path = source
                            .first()
                            .is_some_and(|byte| b"/.~".contains(byte) || is_unknown(*byte));
                        let is_whole = source.len() == value.len() && !source.contains(&UNKNOWN);
                        paths.extend((is_path && !is_whole).then_some(source));
                    }
                    Some(_) => paths.extend(fields(value).into_iter().filter_map(source)),
                    None => paths.push(value),
                }
            }
        }
        paths
    }

    /// Returns the names of the files that the tool saves by their URLs.
    pub(super) fn saved_urls(&self) -> impl Iterator<Item = &[u8]> {
        let option = self.known.table.saves_urls;
        let saves = option == "*" || (!option.is_empty() && self.has_option(option.as_bytes()));
        let operands = self.operands.iter().filter(move |_| saves);
        operands.map(|operand| base_name(&operand.word))
    }
}

/// Returns the fields of a line of comma-separated values, without quotes.
fn fields(line: &[u8]) -> Vec<&[u8]> {
    let mut is_quoted = false;
    let fields = line.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    let without = |field| {
        let inner = <[u8]>::strip_prefix(field, b"\"")?;
        inner.strip_suffix(b"\"")
    };
    fields.map(|field| without(field).unwrap_or(field)).collect()
}

/// Returns the path of a field that names the source of a mount.
fn source(field: &[u8]) -> Option<&[u8]> {
    let at = field.iter().position(|byte| *byte == b'=');
    if field.iter().take(at.unwrap_or(field.len())).any(|byte| is_unknown(*byte)) {
        return Some(field);
    }
    let (key, value) = field.split_at_checked(at? + 1)?;
    match key.to_ascii_lowercase().as_slice() {
        b"source=" | b"src=" => Some(value),
        // Of the local driver, which mounts what it names.
        b"volume-opt=" => {
            let device = value.strip_prefix(b"device=")?;
            device.first().is_some_and(|byte| b"/.~".contains(byte)).then_some(device)
        }
        _ => None,
    }
}

//! The files that a call names in options, or by URLs.

use super::glob::is_unknown;
use super::normal::NormalCall;
use super::table::base_name;

impl NormalCall {
    /// Returns the paths in values of options.
    pub(super) fn paths(&self) -> Vec<&[u8]> {
        let mut paths = Vec::new();
        for name in &self.known.table.path_options {
            let (option, separator) = match name.strip_suffix([':', ',']) {
                Some(option) => (option, name.bytes().last()),
                None => (name.as_str(), None),
            };
            for value in self.values(option.as_bytes()) {
                match separator {
                    Some(b':') => {
                        let source = value.split(|byte| *byte == b':').next().unwrap_or_default();
                        // A name is a volume, and no path.
                        let is_path = source
                            .first()
                            .is_some_and(|byte| b"/.~".contains(byte) || is_unknown(*byte));
                        paths.extend((is_path && source.len() < value.len()).then_some(source));
                    }
                    Some(_) => {
                        let fields = value.split(|byte| *byte == b',');
                        paths.extend(fields.filter_map(|field| {
                            field.strip_prefix(b"source=").or(field.strip_prefix(b"src="))
                        }));
                    }
                    None => paths.push(value),
                }
            }
        }
        paths
    }

    /// Returns the names of the files that the tool saves by their URLs.
    pub(super) fn saved_urls(&self) -> impl Iterator<Item = &[u8]> {
        let option = self.known.table.saves_urls.as_str();
        let saves = option == "*" || (!option.is_empty() && self.has_option(option.as_bytes()));
        let operands = self.operands.iter().filter(move |_| saves);
        operands.map(|operand| base_name(&operand.word))
    }
}

//! The effects of a push, and the answer that refuses it (gitprotocol-pack(5)).

use crate::oid::Oid;
use crate::pkt_line::{MAX_BAND, flush, put};

/// A push, by its ref updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    pub(crate) updates: Vec<RefUpdate>,
    /// Commits whose parents the client has not.
    pub(crate) shallow: Vec<Oid>,
    pub(crate) capabilities: Vec<String>,
    pub(crate) options: Vec<String>,
}

/// A ref, and its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// The id that the client believes the ref to have; zero if none.
    pub old: Oid,
    /// The new id; zero for none.
    pub new: Oid,
    /// The full name, `refs/..`.
    pub name: String,
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefChange {
    /// It is new.
    Create,
    /// It has another id afterwards. A push does not say whether that descends from the old one.
    Update,
    /// It is removed.
    Delete,
}

impl RefUpdate {
    /// Returns its change.
    pub fn change(&self) -> RefChange {
        match (self.old.is_zero(), self.new.is_zero()) {
            (true, _) => RefChange::Create,
            (false, true) => RefChange::Delete,
            (false, false) => RefChange::Update,
        }
    }
}

/// The capability by which the forge tells each ref's result. Without it git takes any answer for success.
pub(crate) const REPORT: [&str; 2] = ["report-status", "report-status-v2"];
pub(crate) const OPTIONS: &str = "push-options";
const SIDE_BAND: &str = "side-band-64k";

/// Bands.
const BAND_REPORT: &[u8] = &[1];
const BAND_MESSAGE: &[u8] = &[2];

impl Push {
    /// Returns the updates; none for the probe that git sends before a large push.
    pub fn updates(&self) -> &[RefUpdate] {
        &self.updates
    }

    /// Returns the options for the forge, such as those that open a merge request.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Returns the bytes before the pack, written anew.
    pub fn head(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for id in &self.shallow {
            put(&mut bytes, &[b"shallow ", id.as_str().as_bytes()]);
        }
        let capabilities = format!("\0 {}", self.capabilities.join(" "));
        for (index, RefUpdate { old, new, name }) in self.updates.iter().enumerate() {
            let capabilities = if index == 0 { capabilities.as_bytes() } else { b"" };
            let ids = format!("{} {} ", old.as_str(), new.as_str());
            put(&mut bytes, &[ids.as_bytes(), name.as_bytes(), capabilities]);
        }
        flush(&mut bytes);
        if self.has(OPTIONS) {
            for option in &self.options {
                put(&mut bytes, &[option.as_bytes()]);
            }
            flush(&mut bytes);
        }
        bytes
    }

    /// Returns the answer of a forge that rejects every update for `reason`, which git shows at each ref;
    /// `message` is shown as the forge's text. Line breaks in both are blanks.
    pub fn rejection(&self, reason: &str, message: &str) -> Vec<u8> {
        let reason = one_line(reason);
        let mut report = Vec::new();
        put(&mut report, &[b"unpack ok\n"]);
        for update in &self.updates {
            let line = format!("ng {} {reason}\n", update.name);
            put(&mut report, &[line.as_bytes()]);
        }
        flush(&mut report);
        if !self.has(SIDE_BAND) {
            return report;
        }
        let mut answer = Vec::new();
        let message = one_line(message) + "\n";
        for (band, text) in [(BAND_MESSAGE, message.as_bytes()), (BAND_REPORT, &report)] {
            text.chunks(MAX_BAND).for_each(|part| put(&mut answer, &[band, part]));
        }
        flush(&mut answer);
        answer
    }

    pub(crate) fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|it| it == capability)
    }
}

/// A line has its limit.
fn one_line(text: &str) -> String {
    let blank = |character: char| if character.is_control() { ' ' } else { character };
    text.chars().take(MAX_TEXT).map(blank).collect()
}

const MAX_TEXT: usize = 1000;

#[cfg(test)]
mod tests {
    use crate::push_reader::{PushReader, tests::body};

    #[test]
    fn a_head_is_written_as_it_was_read() {
        for (capabilities, more) in
            [("report-status", ""), ("report-status push-options agent=git/2.47", "0005a0000")]
        {
            let body =
                body(&[("1", "2", "refs/heads/a"), ("0", "2", "refs/heads/b")], capabilities);
            let body = [&body, more.as_bytes()].concat();
            let (push, rest) = PushReader::default().read(&body).unwrap().unwrap();
            assert!(rest.is_empty());
            let again = PushReader::default().read(&push.head()).unwrap().unwrap().0;
            assert_eq!(again, push);
        }
    }

    #[test]
    fn a_rejection_is_a_report() {
        let read = |capabilities| {
            let body = body(&[("1", "2", "refs/heads/a")], capabilities);
            PushReader::default().read(&body).unwrap().unwrap().0
        };
        let line = "ng refs/heads/a denied by x\n";
        let expected = format!("000eunpack ok\n{:04x}{line}0000", line.len() + 4);
        let plain = read("report-status").rejection("denied\nby x", "text");
        assert_eq!(String::from_utf8_lossy(&plain), expected);
        let banded = read("report-status side-band-64k").rejection("no", "text");
        let text = String::from_utf8_lossy(&banded).into_owned();
        assert!(text.starts_with("000a\u{2}text\n"), "{text:?}");
        assert!(
            text.contains("\u{1}000eunpack ok\n") && text.ends_with("ng refs/heads/a no\n00000000")
        );
    }
}

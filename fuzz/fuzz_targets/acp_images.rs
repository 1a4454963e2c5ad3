//! Text with images.

#![no_main]

use aifo_acp::rewrite_data_uris;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut stored = 0usize;
    let mut bytes = 0usize;
    let rewritten = rewrite_data_uris(text, LIMIT, |image| {
        assert!((1..=LIMIT).contains(&image.bytes.len()));
        stored += 1;
        bytes += image.bytes.len();
        Some(NAME.to_owned())
    });
    assert_eq!(rewritten.matches(NAME).count(), text.matches(NAME).count() + stored);
    assert!(bytes <= text.len(), "nothing is larger than it was");
    assert!(rewritten.len() <= text.len() + stored * NAME.len());
    let refused = rewrite_data_uris(text, LIMIT, |_| None);
    assert_eq!(refused, text, "what is not stored stays");
    if stored == 0 {
        assert_eq!(rewritten, text);
    }
});

const LIMIT: usize = 64;
/// No text has it by chance.
const NAME: &str = "\u{1}\u{2}";

//! Forms: no byte is added, and text is decoded as by the URL standard's parser.

#![no_main]

use aifo_wire::{Form, decode_form, encode_form};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let form = decode_form(body);
    let size: usize = form.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(size <= body.len(), "no byte is added");
    check_as_text(body, &form);
    check_reencoded(&form);
});

/// Compares with the URL standard's parser, as lossy text.
fn check_as_text(body: &[u8], form: &Form) {
    let expected = form_urlencoded::parse(body);
    let decoded = form
        .iter()
        .map(|(key, value)| (String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
    assert!(decoded.eq(expected), "{:?}", body.escape_ascii());
}

/// Checks that a re-encoded form is decoded as the same form.
fn check_reencoded(form: &Form) {
    let pairs = form.iter().map(|(key, value)| Some((std::str::from_utf8(key).ok()?, value)));
    // The encoder takes keys as text.
    let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else { return };
    let again = decode_form(&encode_form(pairs.iter().copied()));
    assert_eq!(&again, form);
}

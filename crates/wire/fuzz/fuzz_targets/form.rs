//! Forms: exact to the byte, and where they are text, what everybody else reads.

#![no_main]

use aifo_wire::{Form, decode_form, encode_form};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let form = decode_form(body);
    let size: usize = form.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(size <= body.len(), "nothing is made up");
    check_as_text(body, &form);
    check_again(&form);
});

/// The URL standard's own parser reads the same, as far as it can tell bytes apart.
fn check_as_text(body: &[u8], form: &Form) {
    let theirs = form_urlencoded::parse(body);
    let ours = form
        .iter()
        .map(|(key, value)| (String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
    assert!(ours.eq(theirs), "{:?}", body.escape_ascii());
}

/// A form that was understood is understood alike when it is written anew.
fn check_again(form: &Form) {
    let pairs = form.iter().map(|(key, value)| Some((std::str::from_utf8(key).ok()?, value)));
    // Keys are ours to choose, so the encoder takes text.
    let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else { return };
    let again = decode_form(&encode_form(pairs.iter().copied()));
    assert_eq!(&again, form);
}

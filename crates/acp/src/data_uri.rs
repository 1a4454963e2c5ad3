//! Extracts images from `data:` URIs in text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The declared type.
    pub kind: ImageKind,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// Image types that are inert when shown, unlike SVG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/gif`
    Gif,
    /// `image/webp`
    Webp,
}

/// Passes each image in a base64 `data:` URI to `store` and replaces the URI with the returned name
/// (`spec/acp.md#images`).
///
/// `text` is one whole message, as a URI may span chunks. URIs of another type, without valid
/// base64, of more than `limit` bytes, or for which `store` returns `None`, are unchanged.
pub fn rewrite_data_uris<'a>(
    text: &'a str,
    limit: usize,
    mut store: impl FnMut(Image) -> Option<String>,
) -> Cow<'a, str> {
    let mut written = String::new();
    let mut rest = text;
    while let Some(uri) = DataUri::find(rest) {
        let name = Image::decode(uri.mime, uri.data, limit).and_then(&mut store);
        written.push_str(uri.before);
        written.push_str(name.as_deref().unwrap_or(uri.whole));
        rest = uri.after;
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    written.push_str(rest);
    Cow::Owned(written)
}

impl Image {
    /// Decodes base64 of a MIME type; `None` if the type, the size or the encoding is not accepted.
    pub fn decode(mime: &str, data: &str, limit: usize) -> Option<Self> {
        let kind = ImageKind::of_mime(mime)?;
        // Checked before decoding: four characters are three bytes.
        let about = data.len().div_ceil(4).saturating_mul(3);
        if about > limit.saturating_add(3) {
            return None;
        }
        let bytes = ENGINE.decode(data).ok()?;
        (!bytes.is_empty() && bytes.len() <= limit).then_some(Image { kind, bytes })
    }

    /// Decodes a content block of type `image`; `None` for any other, or if not accepted.
    pub fn of_block(block: &Value, limit: usize) -> Option<Self> {
        if block.get("type")? != "image" {
            return None;
        }
        Image::decode(block.get("mimeType")?.as_str()?, block.get("data")?.as_str()?, limit)
    }
}

impl ImageKind {
    fn of_mime(mime: &str) -> Option<Self> {
        let named = |kind: &&ImageKind| kind.mime().eq_ignore_ascii_case(mime);
        ImageKind::ALL.iter().find(named).copied()
    }

    const ALL: [ImageKind; 4] = [ImageKind::Png, ImageKind::Jpeg, ImageKind::Gif, ImageKind::Webp];

    /// Returns the MIME type.
    pub fn mime(self) -> &'static str {
        match self {
            ImageKind::Png => "image/png",
            ImageKind::Jpeg => "image/jpeg",
            ImageKind::Gif => "image/gif",
            ImageKind::Webp => "image/webp",
        }
    }
}

/// A base64 `data:` URI and the text around it.
struct DataUri<'a> {
    before: &'a str,
    whole: &'a str,
    mime: &'a str,
    data: &'a str,
    after: &'a str,
}

impl<'a> DataUri<'a> {
    fn find(text: &'a str) -> Option<Self> {
        let mut from = 0usize;
        while let Some(at) = find_scheme(text.get(from..)?) {
            let at = from.checked_add(at)?;
            if let Some(uri) = Self::at(text, at) {
                return Some(uri);
            }
            from = at.checked_add(SCHEME.len())?;
        }
        None
    }

    /// Parses a URI at the offset of a scheme.
    fn at(text: &'a str, at: usize) -> Option<Self> {
        let (before, uri) = text.split_at_checked(at)?;
        let head = uri.get(SCHEME.len()..)?;
        let comma = head.bytes().take(LONGEST_HEAD).position(|byte| byte == b',')?;
        let (head, data) = head.split_at_checked(comma)?;
        // Otherwise distant pieces of text could be taken for one URI.
        if !head.bytes().all(is_head) {
            return None;
        }
        let mut words = head.split(';');
        let mime = words.next().filter(|mime| mime.bytes().all(is_mime))?;
        if !words.next_back()?.eq_ignore_ascii_case("base64") {
            return None;
        }
        let data = data.get(1..)?;
        let end = data.bytes().position(|byte| !is_base64(byte)).unwrap_or(data.len());
        let (data, after) = data.split_at_checked(end)?;
        // A character of base64url or of a URI follows: not plain base64.
        if after.bytes().next().is_some_and(|byte| b"-_%.~".contains(&byte)) {
            return None;
        }
        let whole = uri.get(..uri.len().checked_sub(after.len())?)?;
        Some(DataUri { before, whole, mime, data, after })
    }
}

/// Returns the offset of the first scheme, in any case.
fn find_scheme(text: &str) -> Option<usize> {
    let colons = memchr::memchr_iter(b':', text.as_bytes());
    let mut starts = colons.filter_map(|colon| colon.checked_add(1)?.checked_sub(SCHEME.len()));
    starts.find(|start| {
        let word = text.as_bytes().get(*start..).and_then(|rest| rest.get(..SCHEME.len()));
        word.is_some_and(|word| word.eq_ignore_ascii_case(SCHEME.as_bytes()))
    })
}

fn is_head(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'()<>[]{}\\`".contains(&byte)
}

fn is_mime(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

const SCHEME: &str = "data:";
/// The longest text between the scheme and the comma, in bytes.
const LONGEST_HEAD: usize = 128;
/// As lenient as browsers: padding may be missing, and trailing bits are ignored.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Rewrites with names that show the type and the size.
    fn rewrite(text: &str) -> String {
        let store = |image: Image| {
            (image.bytes != b"refused")
                .then(|| format!("/media/{}-{}", image.kind.mime(), image.bytes.len()))
        };
        rewrite_data_uris(text, 12, store).into_owned()
    }

    #[test]
    fn only_images_are_replaced() {
        let rows = [
            ("![a](data:image/png;base64,aGVsbG8=) x", "![a](/media/image/png-5) x"),
            ("data:image/png;base64,aGVsbG8", "/media/image/png-5"),
            ("<img src=\"DATA:Image/JPEG;Base64,aGk=\">", "<img src=\"/media/image/jpeg-2\">"),
            ("data:image/gif;name=x;base64,aGk=", "/media/image/gif-2"),
            (
                "a data:image/webp;base64,aGk= b data:image/png;base64,aGk=",
                "a /media/image/webp-2 b /media/image/png-2",
            ),
            ("data:data:image/png;base64,aGk=", "data:/media/image/png-2"),
            ("é(data:image/png;base64,aGk=)é", "é(/media/image/png-2)é"),
        ];
        for (text, expected) in rows {
            assert_eq!(rewrite(text), expected, "{text}");
        }
    }

    #[test]
    fn other_uris_are_unchanged() {
        let rows = [
            "",
            "no data: here",
            "data:",
            "data:,x",
            "data:text/plain;base64,aGk=",
            "data:image/svg+xml;base64,aGk=",
            "data:image/png,aGk=",
            "data:image/png;base64,",
            "data:image/png;base64,a",
            "data:image/png;base64,a=Gk",
            "data:image/png;base64,aGk-aGk=",
            "data:image/png;base64,cmVmdXNlZA==",
            "data:image/png;base64,MTIzNDU2Nzg5MDEyMw==",
            "data:image/png;base64",
            "(data:image/png;a) and b;base64,aGk=",
            "é:data",
        ];
        for text in rows {
            assert_eq!(rewrite(text), text);
            assert_eq!(rewrite(&format!("x {text}")), format!("x {text}"));
        }
        let long_head = format!("data:image/png;{};base64,aGk=", "x".repeat(200));
        assert_eq!(rewrite(&long_head), long_head);
    }

    #[test]
    fn an_image_of_the_size_limit_is_accepted() {
        let text = "data:image/png;base64,MTIzNDU2Nzg5MDEy";
        assert_eq!(rewrite(text), "/media/image/png-12");
    }

    #[test]
    fn image_blocks_are_decoded() {
        let block =
            |kind: &str, mime: &str| json!({"type": kind, "mimeType": mime, "data": "aGk="});
        let image = Image { kind: ImageKind::Png, bytes: b"hi".to_vec() };
        assert_eq!(Image::of_block(&block("image", "image/png"), 9), Some(image));
        assert_eq!(Image::of_block(&block("image", "image/png"), 1), None);
        assert_eq!(Image::of_block(&block("audio", "image/png"), 9), None);
        assert_eq!(Image::of_block(&block("image", "image/svg+xml"), 9), None);
        assert_eq!(Image::of_block(&json!({"type": "image"}), 9), None);
    }
}

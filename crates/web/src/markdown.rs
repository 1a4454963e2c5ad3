//! Markdown of agents as HTML (`spec/web.md#markdown`).
//!
//! A text is rendered by top-level block, so that a growing text changes only its last block.

mod sanitiser;

use std::ops::Range;

use aifo_acp::Image;
use aifo_types::replace_hidden;
use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, TextMergeWithOffset,
};

use sanitiser::sanitise;

/// A top-level block of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderedBlock {
    /// Where its source ends, in bytes. Blocks are adjacent: the first begins at 0.
    pub(crate) end: usize,
    /// Sanitised HTML.
    pub(crate) html: String,
}

/// Renders a text. Empty for a text of white space.
pub(crate) fn render(text: &str) -> Vec<RenderedBlock> {
    let mut blocks: Vec<RenderedBlock> = Vec::new();
    let mut depth = 0usize;
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut start: Option<usize> = None;
    let mut writer = Writer::default();
    for (event, range) in
        TextMergeWithOffset::new(Parser::new_ext(text, options()).into_offset_iter())
    {
        if depth == 0 {
            // A block ends where the next one begins: what is between belongs to the first.
            if let (Some(last), Some(begin)) = (blocks.last_mut(), start.or(Some(range.start))) {
                last.end = last.end.max(begin.min(text.len()));
            }
            start = None;
        }
        match &event {
            Event::Start(_) => depth = depth.saturating_add(1),
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        writer.push(event, &mut events);
        if depth == 0 {
            let mut html = String::new();
            pulldown_cmark::html::push_html(&mut html, events.drain(..));
            blocks.push(RenderedBlock {
                end: range.end,
                html: replace_hidden(&sanitise(&html)).into_owned(),
            });
            writer = Writer::default();
        }
    }
    if let Some(last) = blocks.last_mut() {
        last.end = text.len();
    }
    blocks
}

/// Returns how many of a growing text's first blocks no longer change, link references aside: all
/// before the last one, once the first line of that is complete.
pub(crate) fn finished(text: &str, blocks: &[RenderedBlock]) -> usize {
    let Some((_, done)) = blocks.split_last() else { return 0 };
    let begin = done.last().map_or(0, |block| block.end);
    let last = text.get(begin..).unwrap_or_default();
    if last.trim_start_matches('\n').contains('\n') {
        done.len()
    } else {
        done.len().saturating_sub(1)
    }
}

/// Replaces images in base64 `data:` URIs with the names that `store` returns, except in code
/// (`spec/web.md#media`). Errors of `store` leave the URI as it is.
pub(crate) fn extract_images(
    text: &str,
    limit: usize,
    mut store: impl FnMut(Image) -> Option<String>,
) -> Option<String> {
    if !has_data_uri(text) {
        return None;
    }
    let code = code_ranges(text);
    let mut written = String::with_capacity(text.len().min(64 * 1024));
    let mut at = 0;
    let end = text.len();
    for range in code.into_iter().chain(std::iter::once(end..end)) {
        let between = text.get(at..range.start).unwrap_or_default();
        let path = |image| Some(format!("{MEDIA}{}", store(image)?));
        written.push_str(&aifo_acp::rewrite_data_uris(between, limit, path));
        written.push_str(text.get(range.clone()).unwrap_or_default());
        at = range.end.max(at);
    }
    (written != text).then_some(written)
}

/// Returns the ranges of code blocks and code spans, in order.
fn code_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        let is_code = matches!(event, Event::Start(Tag::CodeBlock(_)) | Event::Code(_));
        let begins = ranges.last().is_none_or(|last| range.start >= last.end);
        if is_code && begins {
            ranges.push(range);
        }
    }
    ranges
}

fn has_data_uri(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(SCHEME.len()).any(|word| word.eq_ignore_ascii_case(SCHEME))
}

const SCHEME: &[u8] = b"data:";

/// Escapes text for HTML. Characters that have no glyph or reorder others could show a command as another one
/// than it is.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in replace_hidden(text).chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Changes events on their way to HTML.
#[derive(Default)]
struct Writer {
    /// Within an image, whose text is its description.
    images: Vec<ImageKind>,
    is_code: bool,
}

enum ImageKind {
    Shown,
    Linked,
    Removed,
}

impl Writer {
    fn push<'a>(&mut self, event: Event<'a>, events: &mut Vec<Event<'a>>) {
        match event {
            // The text of raw HTML is shown: `Vec<String>` in a sentence is no element.
            Event::Html(html) => match stored_image(&html) {
                Some((_, name, _)) if html.trim_start().starts_with("<img") => {
                    events.push(image(name));
                }
                _ => events.push(Event::Text(shortened(html))),
            },
            Event::InlineHtml(html) if is_break(&html) => events.push(Event::HardBreak),
            Event::InlineHtml(html) => match stored_image(&html) {
                Some((_, name, _)) if html.starts_with("<img") => events.push(image(name)),
                _ => events.push(Event::Text(shortened(html))),
            },
            Event::TaskListMarker(is_done) => {
                let (checked, label) = if is_done { (" checked", "done") } else { ("", "to do") };
                let html =
                    format!("<input type=\"checkbox\" disabled{checked} aria-label=\"{label}\">");
                events.push(Event::InlineHtml(html.into()));
            }
            Event::Start(Tag::HtmlBlock) => events.push(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => events.push(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                if is_media(&dest_url) {
                    self.images.push(ImageKind::Shown);
                    events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
                } else if is_data(&dest_url) {
                    self.images.push(ImageKind::Removed);
                    events.push(Event::Text("[image: ".into()));
                } else {
                    // The page requests nothing from other hosts.
                    self.images.push(ImageKind::Linked);
                    events.push(Event::Start(link(link_type, dest_url, title, id)));
                    events.push(Event::Text("image: ".into()));
                }
            }
            Event::End(TagEnd::Image) => match self.images.pop() {
                Some(ImageKind::Shown) => events.push(Event::End(TagEnd::Image)),
                Some(ImageKind::Linked) => events.push(Event::End(TagEnd::Link)),
                Some(ImageKind::Removed) | None => events.push(Event::Text("]".into())),
            },
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                events.push(Event::Start(link(link_type, dest_url, title, id)));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                self.is_code = true;
                let kind = match kind {
                    CodeBlockKind::Fenced(info) => {
                        let word = info.split([' ', ',', '{']).next().unwrap_or_default();
                        CodeBlockKind::Fenced(CowStr::from(word.to_owned()))
                    }
                    indented => indented,
                };
                events.push(Event::Start(Tag::CodeBlock(kind)));
            }
            Event::End(TagEnd::CodeBlock) => {
                self.is_code = false;
                events.push(Event::End(TagEnd::CodeBlock));
            }
            Event::Text(text) if !self.is_code && self.images.is_empty() => {
                let text = shortened(text);
                let mut rest: &str = &text;
                while let Some((before, name, after)) = stored_image(rest) {
                    events.push(Event::Text(before.to_owned().into()));
                    events.push(image(name));
                    rest = after;
                }
                match rest.len() == text.len() {
                    true => events.push(Event::Text(text)),
                    false => events.push(Event::Text(rest.to_owned().into())),
                }
            }
            event => events.push(event),
        }
    }
}

/// Finds the path of a stored image: the text before, the path, the text after.
fn stored_image(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find(MEDIA)?;
    let end = at.checked_add(MEDIA.len())?.checked_add(64)?;
    let path = text.get(at..end).filter(|path| is_media(path))?;
    Some((text.get(..at)?, path, text.get(end..)?))
}

fn image<'a>(path: &str) -> Event<'a> {
    Event::InlineHtml(format!("<img src=\"{path}\" alt=\"image\">").into())
}

fn link<'a>(
    link_type: LinkType,
    dest_url: CowStr<'a>,
    title: CowStr<'a>,
    id: CowStr<'a>,
) -> Tag<'a> {
    Tag::Link { link_type, dest_url, title, id }
}

fn is_data(url: &str) -> bool {
    url.as_bytes().get(..SCHEME.len()).is_some_and(|word| word.eq_ignore_ascii_case(SCHEME))
}

fn is_break(html: &str) -> bool {
    ["<br>", "<br/>", "<br />"].iter().any(|tag| html.eq_ignore_ascii_case(tag))
}

/// Shortens the base64 of a `data:` URI that was not replaced: one that is incomplete, too long or
/// of another type.
fn shortened(text: CowStr<'_>) -> CowStr<'_> {
    if text.len() < LONG_URI || !has_data_uri(&text) {
        return text;
    }
    let mut written = String::new();
    let mut rest: &str = &text;
    while let Some(at) = rest.find(";base64,") {
        let end = at.saturating_add(";base64,".len());
        let (before, data) = rest.split_at(end);
        written.push_str(before);
        let is_data = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        let len = data.bytes().position(|byte| !is_data(byte)).unwrap_or(data.len());
        let (data, after) = data.split_at(len);
        if len > LONG_URI {
            written.push_str(&format!("[{len} characters]"));
        } else {
            written.push_str(data);
        }
        rest = after;
    }
    written.push_str(rest);
    CowStr::from(written)
}

const LONG_URI: usize = 256;

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

fn is_media(url: &str) -> bool {
    let name = url.strip_prefix(MEDIA).unwrap_or_default();
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The path of stored images.
pub(crate) const MEDIA: &str = "/media/";

/// Classes of code blocks that survive.
const LANGUAGES: [&str; 24] = [
    "language-bash",
    "language-c",
    "language-cpp",
    "language-css",
    "language-diff",
    "language-go",
    "language-html",
    "language-java",
    "language-javascript",
    "language-js",
    "language-json",
    "language-markdown",
    "language-py",
    "language-python",
    "language-rust",
    "language-sh",
    "language-shell",
    "language-sql",
    "language-toml",
    "language-ts",
    "language-tsx",
    "language-typescript",
    "language-xml",
    "language-yaml",
];

#[cfg(test)]
mod tests;

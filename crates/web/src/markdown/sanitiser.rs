//! The second defence of rendered markdown.

use std::sync::LazyLock;

use super::{LANGUAGES, is_media};

/// Sanitises what the renderer has written. The page's policy allows no inline style, so the
/// alignment of a table's cell becomes a class.
pub(super) fn sanitise(html: &str) -> String {
    // A text cannot contain `<`.
    let mut html = std::borrow::Cow::Borrowed(html);
    for (style, class) in ALIGNMENTS {
        if html.contains(style) {
            html = html.replace(style, class).into();
        }
    }
    SANITISER.clean(&html).to_string()
}

/// Attributes of cells.
const ALIGNMENTS: [(&str, &str); 4] = [
    ("<th style=\"text-align: right\"", "<th class=\"right\""),
    ("<td style=\"text-align: right\"", "<td class=\"right\""),
    ("<th style=\"text-align: center\"", "<th class=\"center\""),
    ("<td style=\"text-align: center\"", "<td class=\"center\""),
];

/// The second defence: the renderer writes no other elements anyway.
static SANITISER: LazyLock<ammonia::Builder<'static>> = LazyLock::new(|| {
    let mut builder = ammonia::Builder::empty();
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "img",
        "input",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    builder
        .add_tags(tags)
        .add_tag_attributes("a", ["href", "title"])
        .add_tag_attributes("img", ["src", "alt", "title"])
        .add_tag_attributes("ol", ["start"])
        .add_tag_attribute_values("input", "type", ["checkbox"])
        .add_tag_attribute_values("input", "disabled", [""])
        .add_tag_attributes("input", ["checked", "aria-label"])
        .add_allowed_classes("th", ["right", "center"])
        .add_allowed_classes("td", ["right", "center"])
        .add_allowed_classes("code", LANGUAGES)
        .url_schemes(["http", "https", "mailto"].into())
        .link_rel(Some("noopener noreferrer nofollow"))
        .set_tag_attribute_value("a", "target", "_blank")
        .set_tag_attribute_value("img", "loading", "lazy")
        .attribute_filter(|element, name, value| match (element, name) {
            ("img", "src") => is_media(value).then(|| value.into()),
            // A link to a path of this server would look like one to the project.
            ("a", "href") => (value.contains(':')).then(|| value.into()),
            _ => Some(value.into()),
        });
    builder
});

//! The page's own files, which are part of the program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Files: name, type, content.
const FILES: [(&str, &str, &str); 9] = [
    ("page.css", CSS, include_str!("../../assets/page.css")),
    ("main.js", JS, include_str!("../../assets/main.js")),
    ("stream.js", JS, include_str!("../../assets/stream.js")),
    ("blocks.js", JS, include_str!("../../assets/blocks.js")),
    ("api.js", JS, include_str!("../../assets/api.js")),
    ("composer.js", JS, include_str!("../../assets/composer.js")),
    ("timeline.js", JS, include_str!("../../assets/timeline.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../assets/icon.svg")),
    ("manifest.json", "application/manifest+json", include_str!("../../assets/manifest.json")),
];

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const INDEX: &str = include_str!("../../assets/index.html");

/// The empty page. It has no data, so it needs no credentials.
pub(super) async fn index() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], INDEX).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let Some((_, mime, content)) = FILES.iter().find(|(known, _, _)| *known == name) else {
        return (StatusCode::NOT_FOUND, "no such file\n").into_response();
    };
    let headers = [(header::CONTENT_TYPE, *mime), (header::CACHE_CONTROL, "no-cache")];
    (headers, *content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_load_is_small_and_has_no_inline_script() {
        let total: usize = FILES.iter().map(|(_, _, content)| content.len()).sum();
        assert!(total + INDEX.len() <= 100_000, "{total}");
        assert!(!INDEX.contains("style=") && !INDEX.contains("onclick"));
        for script in INDEX.split("<script").skip(1) {
            assert!(script.contains("src=\"/assets/"), "inline script");
        }
        for (name, _, content) in FILES {
            assert!(
                !content.contains("https://")
                    && !content.contains("@import")
                    && !content.contains("//cdn"),
                "{name}"
            );
        }
    }
}

//! Tests of rendering.

use proptest::prelude::*;

use super::*;

fn html(text: &str) -> String {
    render(text).into_iter().map(|block| block.html).collect()
}

#[test]
fn markdown_becomes_html() {
    let rows = [
        ("a *b* `c<d>`", "<p>a <em>b</em> <code>c&lt;d&gt;</code></p>\n"),
        ("# T", "<h1>T</h1>\n"),
        (
            "```rust\nlet x = a<b>;\n```",
            "<pre><code class=\"language-rust\">let x = a&lt;b&gt;;\n</code></pre>\n",
        ),
        ("use Vec<String> here", "<p>use Vec&lt;String&gt; here</p>\n"),
        ("one<br>two", "<p>one<br>\ntwo</p>\n"),
        (
            "|a|b|\n|-|-|\n|1|2|",
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n<tr><td>1</td><td>2</td></tr>\n</tbody></table>\n",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(html(text), expected, "{text}");
    }
}

#[test]
fn scripts_and_foreign_requests_do_not_survive() {
    let rows = [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](https://evil.example/p.png)",
        "![x](//evil.example/p.png)",
        "![x](/media/../secret)",
        "![x](/api/stream)",
        "<svg onload=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "[x](/api/sessions)",
        "```<script>\nx\n```",
        "``` \"onclick=alert(1)\nx\n```",
        "<style>*{display:none}</style>",
        "<iframe src=https://evil.example>",
        "[x]: javascript:alert(1)\n\n[x]",
        "<javascript:alert(1)>",
    ];
    for text in rows {
        let html = html(text);
        for bad in [
            "<script",
            "<svg",
            "<iframe",
            "<style",
            "href=\"javascript",
            "href=\"data",
            "src=\"http",
            "src=\"//",
            "src=\"/api",
            "href=\"/",
        ] {
            assert!(!html.to_lowercase().contains(bad), "{text:?} gives {html:?}");
        }
        assert!(!html.contains("<img"), "{text:?} gives {html:?}");
    }
}

#[test]
fn text_hides_and_reorders_nothing() {
    let name = "a".repeat(64);
    let places = [
        "x{}y".to_owned(),
        "`x{}y`".to_owned(),
        "```sh\nrm {}x\n```".to_owned(),
        "    rm {}x".to_owned(),
        "[x{}](https://a.example \"t{}\")".to_owned(),
        format!("![x{{}}](/media/{name} \"t{{}}\")"),
        "<b title='{}'>".to_owned(),
        "# x{}\n\n- [ ] {}\n\n|a{}|\n|-|\n|{}|".to_owned(),
        "https://a.example/{}".to_owned(),
    ];
    let hidden =
        ['\u{202e}', '\u{2066}', '\u{200e}', '\u{61c}', '\u{200b}', '\u{2060}', '\u{feff}'];
    let hidden = hidden.into_iter().chain(['\u{ad}', '\u{e0041}', '\u{3164}', '\u{1b}', '\u{9b}']);
    for char in hidden {
        for place in &places {
            for written in [char.to_string(), format!("&#x{:x};", u32::from(char))] {
                let html = html(&place.replace("{}", &written));
                assert!(!html.contains(char), "{place:?} {char:?} gives {html:?}");
            }
        }
    }
    let family = "\u{1f469}\u{200d}\u{1f467}";
    assert_eq!(html(family), format!("<p>{family}</p>\n"));
    let lines = "a\r\nb\r\n\r\n```\r\nc\r\n\td\r\n```\r\n";
    assert_eq!(html(lines), "<p>a\nb</p>\n<pre><code>c\n\td\n</code></pre>\n");
}

#[test]
fn only_stored_images_are_shown() {
    let name = "a".repeat(64);
    let shown = html(&format!("![a \"b\"](/media/{name})"));
    assert_eq!(
        shown,
        format!("<p><img src=\"/media/{name}\" alt=\"a &quot;b&quot;\" loading=\"lazy\"></p>\n")
    );
    let link = html("![cat](https://example.org/cat.png)");
    assert!(
        link.contains("href=\"https://example.org/cat.png\"") && link.contains("image: cat"),
        "{link}"
    );
}

#[test]
fn images_are_extracted_except_from_code() {
    let uri = "data:image/png;base64,aGk=";
    let text = format!("![a]({uri}) `{uri}`\n\n```\n{uri}\n```\n\n    {uri}\n\nend {uri}");
    let written = extract_images(&text, 100, |_| Some("x".to_owned())).unwrap();
    assert_eq!(
        written,
        format!("![a](/media/x) `{uri}`\n\n```\n{uri}\n```\n\n    {uri}\n\nend /media/x")
    );
    assert_eq!(extract_images("no uri", 100, |_| Some(String::new())), None);
    assert_eq!(extract_images(&text, 100, |_| None), None, "refused by the store");
}

#[test]
fn stored_images_in_text_and_in_elements_are_shown() {
    let path = format!("/media/{}", "a".repeat(64));
    let shown = format!("<img src=\"{path}\" alt=\"image\" loading=\"lazy\">");
    assert_eq!(html(&format!("a {path} b {path}.")), format!("<p>a {shown} b {shown}.</p>\n"));
    assert!(html(&format!("a <img src=\"{path}\"> b")).contains(&shown));
    assert!(html(&format!("<img src=\"{path}\" onload=x>\n")).contains(&shown));
    assert!(!html(&format!("`{path}` [x]({path})")).contains("<img"));
}

#[test]
fn an_incomplete_image_is_shortened() {
    let text = format!("![a](data:image/png;base64,{}", "A".repeat(5000));
    let html = html(&text);
    assert!(html.len() < 200 && html.contains("[5000 characters]"), "{html}");
    let code = format!("```\ndata:image/png;base64,{}\n```", "A".repeat(5000));
    assert!(render(&code)[0].html.len() > 5000, "code is shown as it is");
}

#[test]
fn blocks_cover_the_text() {
    let text = "# A\n\nb\n\n- c\n- d\n\n```\ne\n\nf\n```\n\n---\n\ng";
    let blocks = render(text);
    let sources: Vec<&str> = blocks
        .iter()
        .scan(0, |at, block| {
            let source = &text[*at..block.end];
            *at = block.end;
            Some(source)
        })
        .collect();
    assert_eq!(
        sources,
        ["# A\n\n", "b\n\n", "- c\n- d\n\n", "```\ne\n\nf\n```\n\n", "---\n\n", "g"]
    );
    assert!(render(" \n ").is_empty());
}

/// Renders a text as it grows by these cuts, keeping finished blocks, and compares the result.
fn check_growing(text: &str, cuts: &[usize]) {
    let mut kept = String::new();
    let mut stable = 0;
    let mut last = String::new();
    for cut in cuts.iter().copied().chain([text.len()]) {
        let Some(tail) = text.get(stable..cut) else { continue };
        let blocks = render(tail);
        let (done, open) = blocks.split_at(finished(tail, &blocks));
        done.iter().for_each(|block| kept.push_str(&block.html));
        stable += done.last().map_or(0, |block| block.end);
        last = open.iter().map(|block| block.html.as_str()).collect();
    }
    assert_eq!(kept + &last, html(text), "{text:?}");
}

#[test]
fn a_text_in_single_characters_is_the_text_as_a_whole() {
    let rows = [
        "# T\n\nA *b* c.\n\n```rust\nfn main() {}\n\n// x\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
        "1. a\n\n   b\n2. c\n\ntext\n====\n\n> q\n> r\n\n- [ ] x\n- [x] y",
        "~~~\n```\n~~~\n\n`a``b`\n\n&amp; &lt;",
    ];
    for text in rows {
        let cuts: Vec<usize> = (0..text.len()).collect();
        check_growing(text, &cuts);
    }
    let mut table = "| a | b |\n|---|---|\n".to_owned();
    (0..40).for_each(|row| table.push_str(&format!("| {row} | `x|y` |\n")));
    check_growing(&table, &(0..table.len()).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_gives_inert_html(text in "(?s)[ -~\n]{0,80}|(<|script|>|\\[|\\]|\\(|\\)|javascript:|`|\n|!|data:|\"|'|onload=){0,20}") {
        let html = html(&text);
        prop_assert!(!html.contains("<script") && !html.contains("href=\"javascript"), "{html}");
        prop_assert_eq!(render(&text), render(&text));
    }
}

#[test]
fn task_lists_have_labels_and_cells_are_aligned() {
    let html = html("- [x] read\n- [ ] write\n\n| a | b |\n| ---: | :---: |\n| 1 | 2 |\n");
    for part in [
        "aria-label=\"done\"",
        "aria-label=\"to do\"",
        "<th class=\"right\">a</th><th class=\"center\">b</th>",
        "<td class=\"right\">1</td><td class=\"center\">2</td>",
    ] {
        assert!(html.contains(part), "no {part} in {html}");
    }
    assert!(!html.contains("style"), "{html}");
}

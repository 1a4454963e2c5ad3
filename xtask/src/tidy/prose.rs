//! Habits of phrasing in comments and in the specification that hide who does what.

use super::source::Source;
use super::{Finding, Page};

/// Offences per 1,000 words above which each is a finding.
const MAX_RATE: f64 = 0.3;

/// A habit: its name, and whether the word at this place of the text has it.
struct Habit {
    name: &'static str,
    is_at: fn(&str, usize, &str) -> bool,
}

const HABITS: [Habit; 3] = [
    Habit {
        name: "nobody, somebody or whoever",
        is_at: |_, _, word| matches!(word, "nobody" | "somebody" | "whoever"),
    },
    Habit {
        name: "tell or told",
        is_at: |_, _, word| matches!(word, "tell" | "tells" | "told" | "telling"),
    },
    Habit { name: "a sentence with a 'What ..' clause as its subject", is_at: begins_with_clause },
];

/// Checks comments, the specification and README: lists every offence of a habit whose rate is too
/// high.
pub(super) fn check(pages: &[Page], sources: &[Source]) -> Vec<Finding> {
    let texts = [of_pages(pages), of_comments(sources)].concat();
    let count: usize = texts.iter().map(|(_, text)| words(text).count()).sum();
    let mut findings = Vec::new();
    for habit in &HABITS {
        let offences: Vec<Finding> = texts
            .iter()
            .flat_map(|(path, text)| {
                let found = words(text).filter(|(at, word)| (habit.is_at)(text, *at, word));
                found.map(|(at, _)| Finding::at(path, text[..at].matches('\n').count(), habit.name))
            })
            .collect();
        if 1000.0 * offences.len() as f64 > MAX_RATE * count as f64 {
            findings.extend(offences);
        }
    }
    findings
}

/// The prose of the specification and README, by path.
pub(super) fn of_pages(pages: &[Page]) -> Vec<(&str, String)> {
    let current = pages.iter().filter(|page| page.path != "CHANGELOG.md");
    let prose = |page: &Page| without_code(&page.text.lines().collect::<Vec<_>>());
    current.map(|page| (page.path.as_str(), prose(page))).collect()
}

/// The prose of the comments, by path.
pub(super) fn of_comments(sources: &[Source]) -> Vec<(&str, String)> {
    let prose = |source: &Source| {
        without_code(&source.comments.iter().map(|line| text_of(line)).collect::<Vec<_>>())
    };
    sources.iter().map(|source| (source.path.as_str(), prose(source))).collect()
}

/// "of a" and "of the" per 1,000 words.
pub(super) fn rate_of_articles(texts: &[(&str, String)]) -> f64 {
    let is_article = |(_, word): (usize, &str)| matches!(word, "a" | "the");
    rate(texts, |text, at, word| {
        word == "of" && words(&text[at + word.len()..]).next().is_some_and(is_article)
    })
}

/// Possessive 's per 1,000 words.
pub(super) fn rate_of_possessives(texts: &[(&str, String)]) -> f64 {
    rate(texts, |text, at, word| word == "s" && text[..at].ends_with(['\'', '’']))
}

fn rate(texts: &[(&str, String)], is_at: impl Fn(&str, usize, &str) -> bool) -> f64 {
    let (mut count, mut found) = (0usize, 0usize);
    for (_, text) in texts {
        for (at, word) in words(text) {
            count += 1;
            found += usize::from(is_at(text, at, word));
        }
    }
    1000.0 * found as f64 / count.max(1) as f64
}

/// The text of a comment's line.
fn text_of(comment: &str) -> &str {
    let text = comment.trim_start().trim_start_matches('/');
    let text = text.strip_prefix('!').unwrap_or(text);
    text.strip_prefix(' ').unwrap_or(text)
}

/// Blanks fences and code spans; lines stay where they are. A span ends with its paragraph.
fn without_code(lines: &[&str]) -> String {
    let (mut in_fence, mut in_span) = (false, false);
    let mut text = String::new();
    for line in lines {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            in_span &= !line.trim().is_empty();
            for (index, part) in line.split('`').enumerate() {
                if index > 0 {
                    in_span = !in_span;
                    text.push(' ');
                }
                if !in_span {
                    text += part;
                }
            }
        }
        text.push('\n');
    }
    text
}

/// The words of a text, each with its place.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].find(is_word)?;
        let length = text[at..].find(|c| !is_word(c)).unwrap_or(text.len() - at);
        let word = (at, &text[at..at + length]);
        at += length;
        Some(word)
    })
}

/// Returns whether a sentence begins at this word with a clause instead of a subject. A question does not.
fn begins_with_clause(text: &str, at: usize, word: &str) -> bool {
    let before = text[..at].trim_end();
    let follows = before.len() < at && before.ends_with(['.', '!', '?', ':']);
    let is_start = at == 0 || text[..at].ends_with('\n') || follows;
    let end = text[at..].find(['.', '?', '!']).map(|end| &text[at + end..]);
    let is_question = end.is_some_and(|end| end.starts_with('?'));
    is_start && matches!(word, "What" | "Whoever" | "Who" | "Whether") && !is_question
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(comment: &str) -> usize {
        let source = Source::parse("crates/x/src/y.rs", comment);
        check(&[], &[source]).len()
    }

    #[test]
    fn each_habit_is_found_in_comments_only() {
        let rows = [
            ("// nobody reads it", 1),
            ("/// The shim is told to wait.", 1),
            ("//! What is written is read.", 1),
            ("// It ends. Whoever\n// waits is woken.", 1),
            ("// What is it?", 0),
            ("// Sends what is left, `nobody` too.", 0),
            ("let s = \"What nobody told\";", 0),
            ("// ```\n// What nobody told\n// ```\n// Fine.", 0),
            ("// an `open span\n//\n// nobody ends it", 1),
        ];
        for (text, count) in rows {
            assert_eq!(found(text), count, "{text}");
        }
    }

    #[test]
    fn rates_count_articles_and_possessives() {
        let rows = [
            ("// the end of the pipe", 200.0, 0.0),
            ("// the end of\n// a pipe", 200.0, 0.0),
            ("// of all, often the `end of the`", 0.0, 0.0),
            ("// the pipe's end, `x`'s too", 0.0, 2000.0 / 6.0),
            ("// callers' s", 0.0, 0.0),
            ("", 0.0, 0.0),
        ];
        for (text, articles, possessives) in rows {
            let sources = [Source::parse("x.rs", text)];
            let texts = of_comments(&sources);
            assert_eq!(rate_of_articles(&texts), articles, "{text}");
            assert_eq!(rate_of_possessives(&texts), possessives, "{text}");
        }
    }

    #[test]
    fn a_low_rate_is_no_finding() {
        let text = format!("// nobody\n{}", "// word word word word word\n".repeat(1000));
        assert_eq!(found(&text), 0);
        let page = Page { path: "spec/a.md".to_owned(), text: "# A\n\nWhat is told.\n".to_owned() };
        let places: Vec<String> = check(&[page], &[]).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["spec/a.md:3"; 2]);
    }
}

//! Rules of codex and Claude Code, as their documentation publishes them.

use aifo_policy::{ImportedRules, Judge, JudgedCall, RuleOrigin, RuleText, Verdict};
use aifo_policy::{import_claude, import_codex};

#[derive(serde::Deserialize)]
struct File {
    #[serde(default)]
    rule: Vec<RuleText>,
}

/// The judge with imported rules, whose examples hold.
fn judge(imported: &ImportedRules) -> Judge {
    let file: File = toml::from_str(&imported.toml).unwrap();
    let rules: Vec<_> = file.rule.into_iter().map(|rule| (rule, "file".to_owned())).collect();
    let mut judge = Judge::default();
    judge.add(&rules, RuleOrigin::User).unwrap_or_else(|(at, error)| panic!("{at}: {error}"));
    judge
}

fn verdict(judge: &Judge, command: &str) -> Verdict {
    let argv: Vec<Vec<u8>> =
        shlex::split(command).unwrap().into_iter().map(String::into_bytes).collect();
    let workspace = [b"/w".to_vec()];
    judge.judge(&JudgedCall { argv: &argv, directory: b"/w", workspace: &workspace }).verdict
}

fn notes(imported: &ImportedRules) -> Vec<String> {
    imported.notes.iter().map(|note| format!("{}: {}", note.line, note.what)).collect()
}

const CODEX: &str = include_str!("codex.rules");

#[test]
fn the_published_codex_rules_are_imported() {
    let imported = import_codex(CODEX).unwrap();
    let judge = judge(&imported);
    let rows = [
        ("git reset --hard", Verdict::Deny),
        ("git -C x reset --hard", Verdict::Deny),
        ("git reset --keep", Verdict::Allow),
        ("git push origin main", Verdict::Ask),
        ("git fetch", Verdict::Ask),
        ("git status", Verdict::Allow),
        ("gh pr view 7888 --json title,body,comments", Verdict::Ask),
        ("cp -r src dest", Verdict::Ask),
        ("rm -rf x", Verdict::Deny),
        ("rm -f -r x", Verdict::Deny),
        ("npm run danger", Verdict::Deny),
        ("npm run test", Verdict::Allow),
    ];
    for (command, expected) in rows {
        assert_eq!(verdict(&judge, command), expected, "{command}");
    }
    assert_eq!(
        notes(&imported),
        [
            "12: the rule 'gh pr view': the rule also matches 'gh pr --repo openai/codex view 7888' here",
            "60: network_rule cannot be expressed: use net.allow or net.deny",
            "61: host_executable cannot be expressed: a tool is judged by its base name",
            "62: this statement cannot be expressed: only rules of literals can",
        ]
    );
}

/// Every rule that codex publishes decides on its own examples as codex does.
#[test]
fn each_published_codex_rule_holds() {
    let rows = include_str!("codex_published.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for row in rows {
        let (source, json) = row.split_once('\t').unwrap_or_else(|| panic!("{row}"));
        let rule: serde_json::Value = serde_json::from_str(json).unwrap();
        let arguments = rule.as_object().unwrap().iter();
        let arguments: Vec<_> = arguments.map(|(name, value)| format!("{name}={value}")).collect();
        let imported = import_codex(&format!("prefix_rule({})", arguments.join(", "))).unwrap();
        let judge = judge(&imported);
        let expected = match rule["decision"].as_str() {
            Some("prompt") => Verdict::Ask,
            Some("forbidden") => Verdict::Deny,
            _ => Verdict::Allow,
        };
        let commands = |name: &str| -> Vec<String> {
            let words = |example: &serde_json::Value| match example.as_array() {
                Some(words) => {
                    words.iter().map(|it| it.as_str().unwrap()).collect::<Vec<_>>().join(" ")
                }
                None => example.as_str().unwrap().to_owned(),
            };
            rule[name].as_array().unwrap().iter().map(words).collect()
        };
        for command in commands("match") {
            assert_eq!(verdict(&judge, &command), expected, "{source}: {command}");
        }
        let listed = notes(&imported).join("\n");
        for command in commands("not_match") {
            let is_other = verdict(&judge, &command) != expected || expected == Verdict::Allow;
            // The normal form finds one more, and the import says so.
            assert!(is_other || listed.contains(&command), "{source}: {command}");
        }
        count += 1;
    }
    assert_eq!(count, 12);
}

/// Every form of Claude Code's documentation is a rule or a note, in each of the three lists.
#[test]
fn each_published_claude_form_is_imported_or_listed() {
    let forms = include_str!("claude_published.txt").lines().filter(|line| !line.starts_with('#'));
    let mut imported_forms = 0;
    for form in forms {
        for list in ["allow", "ask", "deny"] {
            let settings = serde_json::json!({ "permissions": { list: [form] } });
            let imported = import_claude(&settings.to_string()).unwrap();
            let has_rule = imported.toml.contains("[[rule]]");
            let is_listed = notes(&imported).iter().any(|note| note.contains(form));
            assert!(has_rule || is_listed, "{list} {form}: {}", imported.toml);
            judge(&imported);
            imported_forms += usize::from(has_rule);
        }
    }
    assert!(imported_forms >= 40, "{imported_forms}");
}

#[test]
fn broken_codex_rules_are_listed() {
    let rows = [
        ("prefix_rule(pattern = [])", "1: the rule has no pattern"),
        ("prefix_rule(pattern = [1])", "1: the pattern has an element that is no text"),
        ("\nprefix_rule(pattern = [\"a\"], decision = \"x\")", "2: there is no decision 'x'"),
        (
            "prefix_rule(pattern = [\"a\"], x = 1)",
            "1: the argument 'x' of prefix_rule cannot be expressed",
        ),
        ("prefix_rule(\"a\")", "1: this statement cannot be expressed: only rules of literals can"),
        (
            "prefix_rule(pattern = [\"a\"",
            "1: this statement cannot be expressed: only rules of literals can",
        ),
        ("x()", "1: 'x' cannot be expressed"),
    ];
    for (text, expected) in rows {
        assert_eq!(notes(&import_codex(text).unwrap()), [expected], "{text}");
    }
}

#[test]
fn the_documented_claude_forms_are_imported_or_listed() {
    let text = r#"{
  "permissions": {
    "allow": [
      "Bash(npm run lint)",
      "Bash(npm run test:*)",
      "Bash(npm run build *)",
      "Bash(git diff *)",
      "Bash(* --version)",
      "Bash(git push origin main)",
      "Bash(npm run dev && x)",
      "Bash(ls*)",
      "Read(~/.zshrc)",
      "mcp__puppeteer"
    ],
    "ask": ["Bash(git push:*)", "Bash(git * main)", "Bash(docker run *)"],
    "deny": ["Bash(curl:*)", "Bash(npm publish*)", "WebFetch(domain:example.com)", "Read(./.env)"],
    "defaultMode": "acceptEdits"
  }
}"#;
    let imported = import_claude(text).unwrap();
    let judge = judge(&imported);
    let rows = [
        ("git push", Verdict::Ask),
        ("git push origin main", Verdict::Ask),
        ("git -C x push -f", Verdict::Ask),
        ("git merge main", Verdict::Ask),
        ("git diff", Verdict::Allow),
        ("docker run x", Verdict::Ask),
        ("curl -s x", Verdict::Deny),
        ("env curl x", Verdict::Deny),
        ("npm publish --tag x", Verdict::Deny),
        ("npm run lint", Verdict::Allow),
    ];
    for (command, expected) in rows {
        assert_eq!(verdict(&judge, command), expected, "{command}");
    }
    assert_eq!(
        notes(&imported),
        [
            "8: 'Bash(* --version)' cannot be expressed: text between its parts would be allowed that no rule has seen",
            "9: 'Bash(git push origin main)' is left out: the stricter 'Bash(git push:*)' of line 15 overrules it",
            "10: 'Bash(npm run dev && x)' cannot be expressed: it is shell text; each of its commands needs a rule of its own",
            "11: 'Bash(ls*)' cannot be expressed: a rule names a whole tool",
            "12: 'Read(~/.zshrc)' cannot be expressed: it is about files; see [permissions]",
            "13: 'mcp__puppeteer' cannot be expressed: it is not about commands",
            "16: 'WebFetch(domain:example.com)' cannot be expressed: it is about the network; see net.allow and net.deny",
            "16: 'Read(./.env)' cannot be expressed: it is about files; see [permissions]",
            "17: 'defaultMode' cannot be expressed: see permissions.default",
        ],
        "{}",
        imported.toml
    );
}

#[test]
fn an_invalid_settings_file_is_an_error() {
    assert_eq!(import_claude("{\n\"permissions\": 1}").unwrap_err().line, 2);
    assert!(import_claude("").is_err());
}

/// The sections of a data file: name and lines.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("= "), sections.last_mut()) {
            (Some(name), _) => sections.push((name, Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => panic!("{line}"),
        }
    }
    sections
}

/// Returns the strictest verdict of the rules whose words begin a call.
fn verdict_of_prefixes(rules: &[(Verdict, Vec<Vec<&str>>)], call: &[&str]) -> Verdict {
    let begins = |words: &[Vec<&str>]| {
        words.len() <= call.len()
            && words.iter().zip(call).all(|(words, word)| words.contains(word))
    };
    let matching = rules.iter().filter(|(_, words)| begins(words));
    matching.map(|(then, _)| *then).max().unwrap_or_default()
}

/// Calls of a set's own words, and of each pair of rules, get no looser verdict than by the set itself.
#[test]
fn no_set_of_codex_rules_becomes_looser() {
    let sections = sections(include_str!("codex_sets.txt"));
    let (mut rules_count, mut listed) = (0, 0);
    let mut looser = Vec::new();
    for (name, lines) in &sections {
        let rules: Vec<(Verdict, Vec<Vec<&str>>)> = lines
            .iter()
            .map(|line| {
                let (then, words) = line.split_once(' ').unwrap();
                let then = match then {
                    "forbidden" => Verdict::Deny,
                    "prompt" => Verdict::Ask,
                    _ => Verdict::Allow,
                };
                (then, words.split(' ').map(|word| word.split('|').collect()).collect())
            })
            .collect();
        let text: String = lines
            .iter()
            .map(|line| {
                let (then, words) = line.split_once(' ').unwrap();
                let words: Vec<Vec<&str>> =
                    words.split(' ').map(|word| word.split('|').collect()).collect();
                format!("prefix_rule(pattern={words:?}, decision=\"{then}\")\n")
            })
            .collect();
        let imported = import_codex(&text).unwrap();
        rules_count += rules.len();
        listed += imported.notes.iter().filter(|note| note.what.contains("cannot be")).count();
        let mut judge = judge(&imported);
        judge.add_defaults();
        let calls = rules
            .iter()
            .map(|(_, words)| words.iter().map(|words| words[0]).collect::<Vec<&str>>());
        let calls: Vec<Vec<&str>> = calls.collect();
        for first in &calls {
            for second in &calls {
                let tails: [&[&str]; 3] =
                    [&["x"], second.get(1..).unwrap_or_default(), &second[second.len() - 1..]];
                for tail in tails {
                    let middle = [&first[..1], tail, &first[1..]].concat();
                    for call in [[first.as_slice(), tail].concat(), middle] {
                        let expected = verdict_of_prefixes(&rules, &call);
                        let found = verdict(&judge, &call.join(" "));
                        if found < expected {
                            looser.push(format!(
                                "{name}: {}: {found:?}, not {expected:?}",
                                call.join(" ")
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(sections.len() >= 30 && rules_count >= 200, "{} {rules_count}", sections.len());
    assert!(looser.is_empty(), "{looser:#?}");
    assert!(listed * 50 <= rules_count, "{listed} of {rules_count} are listed");
}

/// Returns whether a pattern of Claude Code matches a command's text.
fn is_like(pattern: &str, text: &str) -> bool {
    let prefix = pattern.strip_suffix(":*").or(pattern.strip_suffix(" *"));
    if let Some(prefix) = prefix.filter(|prefix| !prefix.contains('*')) {
        return text == prefix || text.starts_with(&format!("{prefix} "));
    }
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len()).any(|at| is_like(rest, &text[at..])) || rest.is_empty()
        }),
    }
}

#[test]
fn no_set_of_claude_permissions_becomes_looser() {
    let sections = sections(include_str!("claude_sets.txt"));
    let (mut rules_count, mut listed) = (0, 0);
    let mut looser = Vec::new();
    for (name, lines) in &sections {
        let rules: Vec<(&str, &str)> =
            lines.iter().map(|line| line.split_once(' ').unwrap()).collect();
        let of = |list: &str| -> Vec<&str> {
            rules.iter().filter(|(it, _)| *it == list).map(|(_, form)| *form).collect()
        };
        let lists = serde_json::json!({
            "permissions": { "allow": of("allow"), "ask": of("ask"), "deny": of("deny") }
        });
        let imported = import_claude(&lists.to_string()).unwrap();
        rules_count += rules.len();
        let is_listed = |form: &str| {
            let is_it =
                |note: &String| note.contains(&format!("'{form}'")) && note.contains("cannot");
            notes(&imported).iter().any(is_it)
        };
        listed += rules.iter().filter(|(_, form)| is_listed(form)).count();
        let mut judge = judge(&imported);
        judge.add_defaults();
        let pattern = |form: &str| -> String {
            form.strip_prefix("Bash(").and_then(|it| it.strip_suffix(')')).unwrap_or("*").to_owned()
        };
        let bases: Vec<String> = rules
            .iter()
            .map(|(_, form)| pattern(form).replace(":*", "").replace(" *", "").replace('*', ""))
            .filter(|base| !base.contains('"') && !base.trim().is_empty())
            .filter(|base| !base.trim().starts_with('-'))
            .collect();
        for first in &bases {
            for second in bases.iter().map(String::as_str).chain(["x y"]) {
                let tail = second.split_once(' ').map_or("", |(_, tail)| tail);
                for call in [format!("{first} {tail} z"), format!("{first} {tail}"), first.clone()]
                {
                    let call = call.split_whitespace().collect::<Vec<_>>().join(" ");
                    let matching = rules.iter().filter(|(list, form)| {
                        *list != "allow" && !is_listed(form) && is_like(&pattern(form), &call)
                    });
                    let expected = matching
                        .map(|(list, _)| if *list == "deny" { Verdict::Deny } else { Verdict::Ask })
                        .max()
                        .unwrap_or_default();
                    let found = verdict(&judge, &format!("sh -c '{call}'"));
                    if found < expected {
                        looser.push(format!("{name}: {call}: {found:?}, not {expected:?}"));
                    }
                }
            }
        }
    }
    assert!(sections.len() >= 30 && rules_count >= 150, "{} {rules_count}", sections.len());
    assert!(looser.is_empty(), "{looser:#?}");
    assert!(listed * 10 <= rules_count, "{listed} of {rules_count} are listed");
}

//! Circles of imports between files of one crate.
//!
//! A module and the modules below it are one unit: an import from a module above does not count. Rooms, the files and
//! directories directly in `src/`, must not import each other in a circle either.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::Source;

/// A crate, the files or rooms of its circle, and the reason.
type Allowed = (&'static str, &'static [&'static str], &'static str);

/// Known circles. Files and rooms are below the crate's `src/`.
const ALLOWED: &[Allowed] = &[
    (
        "tests",
        &[
            "model/anthropic.rs",
            "model/chat.rs",
            "model/dialect.rs",
            "model/gemini.rs",
            "model/responses.rs",
        ],
        "one table: the dialects, and the types that its rows share",
    ),
    (
        "crates/process",
        &["limits", "signal_set", "spawn", "start", "sys", "syscall_filter"],
        "`sys` has the half of each that needs `unsafe`",
    ),
    ("tests", &["session", "session_setup"], "the default session comes from a default setup"),
];

/// Finds circles in crates, xtask and the tests' harness.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    compare(sources, ALLOWED)
}

/// Finds circles that are not allowed, and allowed ones that do not exist.
fn compare(sources: &[Source], allowed: &[Allowed]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        let is_test = source.path.ends_with("/tests.rs") || source.path.contains("/src/bin/");
        if let Some((dir, _)) = source.path.split_once("/src/").filter(|_| !is_test) {
            crates.entry(dir).or_default().push(source);
        }
    }
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (dir, sources) in crates {
        let files = Crate::new(&sources);
        for circle in files.circles().into_iter().chain(files.circles_of_rooms()) {
            let known = allowed.iter().position(|(of, members, _)| {
                *of == dir && circle.iter().all(|member| members.contains(&member.as_str()))
            });
            match known {
                Some(at) => _ = seen.insert(at),
                None => findings.push(Finding::new(
                    format!("{dir}/src"),
                    format!("imports run in a circle: {}", circle.join(" ")),
                )),
            }
        }
    }
    let gone = allowed.iter().enumerate().filter(|(at, _)| !seen.contains(at));
    findings.extend(gone.map(|(_, (dir, files, _))| {
        let what =
            format!("has no circle of {} any more; remove it from the list", files.join(" "));
        Finding::new(format!("{dir}/src"), what)
    }));
    findings
}

/// The files of a crate and their imports.
struct Crate<'a> {
    /// The path below `src/` of each module.
    files: BTreeMap<Vec<String>, &'a str>,
    /// The paths in each module's code, relative to the crate.
    paths: BTreeMap<Vec<String>, Vec<Vec<String>>>,
}

impl<'a> Crate<'a> {
    fn new(sources: &[&'a Source]) -> Self {
        let mut files = BTreeMap::new();
        for source in sources {
            if let Some((_, file)) = source.path.split_once("/src/") {
                files.insert(module(file), file);
            }
        }
        let mut paths = BTreeMap::new();
        for source in sources {
            let Some((_, file)) = source.path.split_once("/src/") else { continue };
            let module = module(file);
            let tokens = source.product_tokens();
            let words = super::source::paths(&tokens);
            let absolute = |(_, path): (usize, String)| absolute(&files, &module, &path);
            paths.insert(module.clone(), words.into_iter().filter_map(absolute).collect());
        }
        Crate { files, paths }
    }

    /// The module that defines what a path names, through re-exports.
    fn target(&self, path: &[String], depth: usize) -> Option<&Vec<String>> {
        let length = (0..=path.len()).rev().find(|n| self.files.contains_key(&path[..*n]))?;
        let (module, _) = self.files.get_key_value(&path[..length])?;
        let exported = path.get(length).filter(|_| depth < 8).and_then(|name| {
            let imports = self.paths.get(module)?.iter();
            let mut of_name = imports.filter(|import| import.last() == Some(name));
            of_name.find_map(|import| self.target(import, depth + 1).filter(|to| *to != module))
        });
        exported.or(Some(module))
    }

    /// The modules that a module imports from, without those above it.
    fn imports(&self, module: &[String]) -> BTreeSet<&Vec<String>> {
        let paths = self.paths.get(module).into_iter().flatten();
        let targets = paths.filter_map(|path| self.target(path, 0));
        targets.filter(|to| !module.starts_with(to)).collect()
    }

    /// The files of each circle, if not each is a room of its own.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        let imports = |module: &Vec<String>| self.imports(module).into_iter().cloned().collect();
        let circles = circles(self.files.keys().map(|it| (it.clone(), imports(it))).collect());
        let inner = circles.into_iter().filter(|circle| circle.iter().any(|it| it.len() > 1));
        inner.map(|circle| circle.iter().map(|it| self.files[it].to_owned()).collect()).collect()
    }

    /// The rooms of each circle: a room is a file or directory of `src/`.
    fn circles_of_rooms(&self) -> BTreeSet<Vec<String>> {
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for module in self.files.keys() {
            let Some(room) = module.first() else { continue };
            let to = self.imports(module).into_iter().filter_map(|to| to.first());
            let to = to.filter(|to| *to != room).cloned();
            imports.entry(room.clone()).or_default().extend(to);
        }
        circles(imports)
    }
}

/// Returns the members of each circle of imports.
fn circles<T: Ord + Clone>(imports: BTreeMap<T, BTreeSet<T>>) -> BTreeSet<Vec<T>> {
    let reached = |from: &T| {
        let mut reached = BTreeSet::new();
        let mut rest = vec![from.clone()];
        while let Some(module) = rest.pop() {
            let new = imports.get(&module).into_iter().flatten();
            rest.extend(new.filter(|to| reached.insert((*to).clone())).cloned());
        }
        reached
    };
    let reached: BTreeMap<_, _> = imports.keys().map(|it| (it, reached(it))).collect();
    let members = |(module, to): (&&T, &BTreeSet<T>)| {
        let back = |it: &&T| reached.get(it).is_some_and(|reached| reached.contains(*module));
        to.iter().filter(back).cloned().collect::<Vec<_>>()
    };
    reached.iter().map(members).filter(|circle| !circle.is_empty()).collect()
}

/// The module of a file below `src/`: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Resolves a path of a module's code from the crate's root; `None` for another crate's.
fn absolute(
    files: &BTreeMap<Vec<String>, &str>,
    module: &[String],
    path: &str,
) -> Option<Vec<String>> {
    let mut words: Vec<String> = path.split("::").map(str::to_owned).collect();
    let mut base = module.to_vec();
    match words.first()?.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while words.get(1).is_some_and(|word| word == "super") {
                words.remove(0);
                base.pop();
            }
            base.pop();
        }
        _ => {
            let child: Vec<String> = module.iter().chain(words.first()).cloned().collect();
            let is_used = files.contains_key(&child) && words.len() > 1;
            return is_used.then(|| [module.to_vec(), words].concat());
        }
    }
    base.extend(words.drain(1..));
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_through_re_exports_and_between_rooms() {
        let check = |texts: &[(&str, &str)], allowed: &[Allowed]| {
            let parse =
                |(file, text): &(&str, &str)| Source::parse(&format!("crates/x/src/{file}"), text);
            let sources: Vec<Source> = texts.iter().map(parse).collect();
            compare(&sources, allowed).into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        let found = |texts: &[(&str, &str)]| check(texts, &[]);
        let lib = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;");
        let circle = ["imports run in a circle: a b"];
        assert_eq!(found(&[lib, ("a.rs", "use crate::B;"), ("b.rs", "use crate::{A};")]), circle);
        assert_eq!(
            found(&[lib, ("a.rs", "use super::b::B;"), ("b.rs", "fn f(_: crate::a::A) {}")]),
            circle
        );
        assert_eq!(found(&[lib, ("a.rs", "use crate::B;"), ("b.rs", "use std::fs;")]), [""; 0]);
        let test = "#[cfg(test)] mod tests { use crate::A; }";
        assert_eq!(found(&[lib, ("a.rs", "use crate::B;"), ("b.rs", test)]), [""; 0]);
        let lines =
            [("a/x.rs", "use crate::b::B;"), ("b.rs", "use crate::a::y::Y;"), ("a/y.rs", "")];
        assert_eq!(found(&lines), circle, "rooms, not files");
        let below = [("a.rs", "mod c; use c::C; struct A;"), ("a/c.rs", "use super::A;")];
        assert_eq!(found(&below), [""; 0], "a module and those below it are one");

        let texts = [lib, ("a.rs", "use crate::B;"), ("b.rs", "use crate::A;")];
        assert_eq!(check(&texts, &[("crates/x", &["a", "b"], "a reason")]), [""; 0]);
        let gone = check(&[lib], &[("crates/x", &["a", "b"], "a reason")]);
        assert_eq!(gone, ["has no circle of a b any more; remove it from the list"]);
    }
}

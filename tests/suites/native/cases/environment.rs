//! A tool directory and its environment.

use std::ffi::OsString;

use crate::native::invocation::{Invocation, bytes};

pub(crate) fn calls() -> Vec<Invocation> {
    let place = "pwd; pwd -P; readlink /proc/$$/cwd; echo made > made";
    let named = |title: &str, name: &'static str, value: OsString| {
        let show = format!("printenv {name}");
        Invocation::shell(title, show).env(name, value)
    };
    let text = |name: &'static str, value: &str| {
        named(&format!("{name} is {value:?}"), name, value.into())
    };
    vec![
        // Directories.
        Invocation::shell("where it is called", place),
        Invocation::shell("a directory below", place).after("mkdir -p a/b/c; cd a/b/c"),
        Invocation::shell("a directory by a link", place)
            .after("mkdir real; ln -s real link; cd link"),
        Invocation::shell("a directory behind a link, by its real path", place)
            .after("mkdir real; ln -s real link; cd -P link"),
        Invocation::shell("a link to elsewhere and back", "ls; cd ..; ls link")
            .after("mkdir -p real/sub; ln -s real/sub link; cd link"),
        Invocation::shell("a name of blanks", place).after("mkdir 'a  b'; cd 'a  b'"),
        Invocation::shell("a name of lines", place).after("mkdir 'a\nb'; cd 'a\nb'"),
        Invocation::shell("a name that is no text", place)
            .after("name=$(printf '\\377\\200'); mkdir \"$name\"; cd \"$name\""),
        Invocation::shell("a name of many letters", place)
            .after("name=größe-日本語; mkdir $name; cd $name"),
        Invocation::python("python's idea of it", "import os; print(os.getcwd())"),
        Invocation::node("node's idea of it", "console.log(process.cwd())"),
        // Variables.
        text("LANG", "C.UTF-8"),
        text("LC_ALL", "POSIX"),
        text("TZ", "Asia/Tokyo"),
        Invocation::shell("a clock of another zone", "date -d @0").env("TZ", "UTC-3"),
        text("TERM", "xterm-256color"),
        text("COLUMNS", "123"),
        text("NO_COLOR", "1"),
        text("NO_COLOR", ""),
        text("FORCE_COLOR", "2"),
        text("CI", "true"),
        text("CFLAGS", "-O2 -DNAME=\"a b\""),
        text("RUSTFLAGS", "-C debuginfo=0"),
        text("RUST_BACKTRACE", "full"),
        text("CARGO_TERM_COLOR", "always"),
        text("NODE_ENV", "production"),
        text("PYTHONDONTWRITEBYTECODE", "x"),
        text("SOURCE_DATE_EPOCH", "1700000000"),
        named("a value of two lines", "CFLAGS", "two\nlines=1".into()),
        named("a value that is no text", "CFLAGS", bytes(*b"\xff no text")),
        named("a value of 100,000 bytes", "CFLAGS", bytes(vec![b'x'; 100_000])),
        Invocation::python("a module below the workspace", "import ours; print(ours.VALUE)").after(
            "mkdir modules; echo 'VALUE = 7' > modules/ours.py; touch -d @0 modules/ours.py; \
             export PYTHONPATH=$PWD/modules",
        ),
        Invocation::python("python's buffering", "import os; print('a'); os.write(1, b'b\\n')")
            .env("PYTHONUNBUFFERED", "1"),
        Invocation::new("make's flags", "make", ["-f", "rules"])
            .file("rules", "all:\n\techo $(CFLAGS)\n")
            .env("CFLAGS", "-O3")
            .env("MAKEFLAGS", "s"),
        Invocation::shell("for one command", "echo $CI").caller("CI=1 \"$@\"; CI=2 \"$@\"; \"$@\""),
        Invocation::shell("a variable taken away", "echo LANG ${LANG-none} > report")
            .caller("unset LANG; exec \"$@\""),
        Invocation::shell("a variable that nothing passes", "echo PET ${PET-none} > report")
            .env("PET", "cat"),
    ]
}

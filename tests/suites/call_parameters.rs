//! Parameters of a call: form rules, the working directory, exec ids.
//!
//! Proves `spec/toolexec.md#directory`.

use std::fs;
use std::os::unix::fs::symlink;

use aifo_tests::{Answer, Backend, Session, fresh_id};

/// Sends a raw form body.
fn form(session: &Session, body: impl AsRef<[u8]>) -> Answer {
    session.answer(&session.post("/exec").body(body))
}

/// Calls `make cwd` in a directory.
fn cwd(session: &Session, dir: &str) -> Answer {
    session
        .answer(&session.post("/exec").field("tool", "make").field("cwd", dir).field("arg", "cwd"))
}

#[track_caller]
fn check_bad_request(answer: &Answer, what: &str) {
    assert_eq!((answer.status(), answer.exit_code()), (400, Some("86")), "{what}");
    let text = answer.text();
    assert!(text.starts_with("bad request: ") && text.lines().count() == 1, "{what}: {text:?}");
}

#[test]
fn arguments_keep_their_order_and_their_bytes() {
    let session = Session::start();
    let rows: [(&str, &[u8]); 9] = [
        ("arg=a&arg=b&arg=a", b"a\0b\0a\0"),
        ("arg=&arg=&arg=x&arg=", b"\0\0x\0\0"),
        ("arg", b"\0"),
        ("arg=a+b%2Bc%20d", b"a b+c d\0"),
        ("arg=%zz&arg=%4&arg=%&arg=100%25", b"%zz\0%4\0%\x00100%\0"),
        ("arg=%ff%FE%c3", b"\xff\xfe\xc3\0"),
        ("arg=%26%3D%0A%0d%22%27", b"&=\n\r\"'\0"),
        ("arg=a=b=c&&arg=d", b"a=b=c\0d\0"),
        ("", b""),
    ];
    for (args, expected) in rows {
        let answer = form(&session, format!("tool=make&arg=args&{args}"));
        assert_eq!(answer.body, expected, "{args}");
    }
}

#[test]
fn a_single_key_given_twice_counts_last_and_unknown_keys_not_at_all() {
    let session = Session::start();
    for body in [
        "tool=ls&tool=make&arg=say&arg=hi",
        "arg=say&arg=hi&tool=make",
        "tool=make&arg=say&colour=red&=&arg=hi&&x",
        "cwd=relative&tool=make&arg=say&arg=hi&cwd=/no/such/place&cwd=WORKSPACE",
    ] {
        let body = body.replace("WORKSPACE", session.workspace().to_str().unwrap());
        assert_eq!(form(&session, &body).text(), "hi\n", "{body}");
    }
}

#[test]
fn tools_that_are_no_names() {
    let session = Session::start();
    let bodies = [
        "",
        "arg=say",
        "tool=",
        "tool=%2Fbin%2Fsh",
        "tool=..%2Fmake",
        "tool=.",
        "tool=..",
        "tool=ma%00ke",
        "tool=make%0A",
        "tool=%ff",
    ];
    for body in bodies {
        check_bad_request(&form(&session, body), body);
    }
}

#[test]
fn a_nul_in_an_argument_is_refused() {
    let session = Session::start();
    let file = session.file("ran");
    let body = format!("tool=make&arg=count&arg={file}&arg=a%00b");
    check_bad_request(&form(&session, body), "NUL");
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn the_working_directory_is_honoured() {
    let session = Session::start();
    let root = session.workspace();
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("with space\u{e9}")).unwrap();
    symlink("sub/deep", root.join("inner")).unwrap();
    let root = root.to_str().unwrap();
    let rows = [
        ("", ""),
        ("/", ""),
        ("/sub", "/sub"),
        ("/sub/", "/sub"),
        ("/./sub//deep/../deep/.", "/sub/deep"),
        ("/sub/deep/..", "/sub"),
        ("/with space\u{e9}", "/with space\u{e9}"),
        ("/inner", "/sub/deep"),
    ];
    for (asked, given) in rows {
        let answer = cwd(&session, &format!("{root}{asked}"));
        assert_eq!(answer.text(), format!("{root}{given}\n"), "{asked}");
    }
    let default = format!("{}\n", session.root().display());
    assert_eq!(form(&session, "tool=make&arg=cwd").text(), default, "none given");
}

#[test]
fn a_working_directory_outside_the_workspace_is_refused() {
    let session = Session::start();
    let root = session.workspace();
    let evil = session.scratch().join("workspace-evil");
    fs::create_dir(&evil).unwrap();
    symlink("/", root.join("way-out")).unwrap();
    symlink("no-such", root.join("dangling")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    let below = |name: &str| format!("{}/{name}", root.display());
    let rows = [
        ("/".to_owned(), "the machine's root"),
        ("/usr".to_owned(), "a place of the machine"),
        (evil.to_str().unwrap().to_owned(), "a name that only begins like the workspace"),
        (below(".."), "the directory above"),
        (below("../workspace-evil"), "a neighbour"),
        (below("way-out"), "a link that leads out"),
        (below("way-out/usr"), "a place behind a link that leads out"),
        (below("dangling"), "a link that leads nowhere"),
        (below("no-such"), "a directory that is not there"),
        (below("file"), "a file"),
    ];
    for (dir, what) in rows {
        check_bad_request(&cwd(&session, &dir), what);
    }
    let relative = cwd(&session, "sub");
    assert_eq!(relative.text(), "bad request: cwd must be absolute\n");
}

/// Agents probe tools from any directory.
#[test]
fn a_version_may_be_asked_from_anywhere() {
    let session = Session::start();
    let root = session.root();
    let ask = |args: &[&str]| {
        let call = session.post("/exec").field("tool", "make").field("cwd", "/usr");
        session.answer(&args.iter().fold(call, |call, arg| call.field("arg", arg)))
    };
    for flag in ["--version", "-V", "-v", "version", "--help"] {
        assert_eq!(ask(&[flag]).text(), format!("{flag} in {}\n", root.display()));
    }
    let others: [&[&str]; 4] = [&[], &["say"], &["--version", "--version"], &["--versions"]];
    for args in others {
        check_bad_request(&ask(args), &format!("{args:?}"));
    }
}

#[test]
fn exec_ids_have_an_alphabet_and_a_length() {
    let session = Session::start();
    let longest = "x".repeat(64);
    for id in ["e1", "A.b_c-9", "...", &longest] {
        let answer = session.answer(&session.exec("make", ["say"]).id(id));
        assert_eq!((answer.status(), answer.header("X-Exec-Id")), (200, Some(id)));
    }
    let too_long = "x".repeat(65);
    for id in ["a b", "a/b", "a=b", "a:b", "\u{e9}", &too_long] {
        check_bad_request(&session.answer(&session.exec("make", ["say"]).id(id)), id);
    }
}

#[test]
fn an_exec_id_is_free_again_before_the_trailer() {
    let session = Session::start();
    let id = fresh_id();
    for version in ["1", "2"].repeat(20) {
        let answer = session.answer(&session.exec("make", ["exit", "4"]).id(&id).proto(version));
        assert_eq!((answer.status(), answer.exit_code()), (200, Some("4")));
    }
}

/// Agent and tools share it, so tools may be called in it.
#[test]
fn the_sessions_temporary_directory_is_a_place_to_run_in() {
    let session = Session::start();
    let tmp = session.tmp().into_os_string().into_string().expect("the scratch path is text");
    let env = session.answer(&session.exec("make", ["env"])).text();
    let printed = env.lines().find_map(|line| line.strip_prefix("TMPDIR="));
    // In a container it is `/tmp`, which needs no variable.
    assert_eq!(printed, (*Backend::chosen() == Backend::Local).then_some(tmp.as_str()));
    fs::create_dir(format!("{tmp}/sub")).unwrap();
    symlink("/usr", format!("{tmp}/way-out")).unwrap();
    for place in [tmp.to_owned(), format!("{tmp}/sub"), format!("{tmp}/sub/../sub")] {
        let answer = cwd(&session, &place);
        let real = fs::canonicalize(&place).unwrap();
        assert_eq!(answer.text(), format!("{}\n", real.display()));
    }
    for place in [format!("{tmp}/.."), format!("{tmp}/way-out"), format!("{tmp}/none")] {
        check_bad_request(&cwd(&session, &place), &place);
    }
    let way_in = session.workspace().join("way-in");
    symlink(&tmp, &way_in).unwrap();
    assert_eq!(cwd(&session, way_in.to_str().unwrap()).text(), format!("{tmp}\n"));
}

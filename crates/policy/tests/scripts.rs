//! The scripts that a call names.

use aifo_policy::{JudgedCall, scripts};

#[test]
fn the_scripts_of_a_call() {
    let rows: [(&str, &[&str]); 23] = [
        ("python3 x.py", &["/w/x.py"]),
        ("python3 -u -W error x.py data.txt", &["/w/x.py"]),
        ("python3.12 ../x.py", &["/x.py"]),
        ("/w/.venv/bin/python x.py", &["/w/.venv/bin/python", "/w/x.py"]),
        ("node --inspect sub/x.js", &["/w/sub/x.js"]),
        ("node -r ./hook.js x.js", &["/w/x.js"]),
        ("perl x.pl", &["/w/x.pl"]),
        ("sh -e x.sh", &["/w/x.sh"]),
        ("bash -x -o pipefail /w/x.sh", &["/w/x.sh"]),
        ("./x.sh a", &["/w/x.sh"]),
        ("sub/../x.sh", &["/w/x.sh"]),
        ("python3 -c pass x.py", &[]),
        ("python3 -m x data", &[]),
        ("node -e 1 x.js", &[]),
        ("make -f x.mk", &[]),
        ("git push", &[]),
        ("sh -c 'cd sub && ./x.sh'", &["/w/sub/x.sh"]),
        ("sh -c '. ./y.sh'", &["/w", "/w/y.sh"]),
        ("env A=1 timeout 9 python3 x.py", &["/w/x.py"]),
        ("nice ./x.sh", &["/w/x.sh"]),
        ("uv run x.py", &["/w/x.py"]),
        ("find . -exec sh x.sh {} ;", &["/w/x.sh"]),
        ("sh -c '$X x.sh; ./$Y'", &[]),
    ];
    for (line, expected) in rows {
        let argv: Vec<_> =
            shlex::split(line).unwrap().into_iter().map(String::into_bytes).collect();
        let call = JudgedCall { argv: &argv, directory: b"/w", workspace: &[b"/w".to_vec()] };
        let found: Vec<_> =
            scripts(&call).into_iter().map(|path| String::from_utf8(path).unwrap()).collect();
        assert_eq!(found, expected, "{line}");
    }
}

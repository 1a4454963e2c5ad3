use super::*;

fn excluded(launcher: Pid, component: &str, token: Token) -> Excluded {
    Excluded { launcher, component: component.to_owned(), token }
}

#[test]
fn the_launchers_descendants_cannot_answer() {
    let (own, none) = (nix::unistd::getpid(), Pid::from_raw(i32::MAX));
    let other = || Token::from_random([7; 16]);
    assert!(excluded(parent_of(own).unwrap(), "/aifo-none", other()).is_excluded(own));
    assert!(!excluded(none, "/aifo-none", other()).is_excluded(own));
    assert!(excluded(none, "/aifo-none", other()).is_excluded(none), "it has ended");
    let mut agent = std::process::Command::new("sleep");
    agent.env("HOSTNAME", "aifo-4567").env("TMPDIR", "/tmp/aifo-0123-tmp");
    let mut agent = agent.arg("60").spawn().unwrap();
    let pid = Pid::from_raw(agent.id().cast_signed());
    let of_session = excluded(none, "/aifo-0123", other());
    // The child's variables appear at its execve.
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !of_session.is_excluded(pid) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let is_excluded = of_session.is_excluded(pid);
    let is_named = excluded(none, "/aifo-4567", other()).is_excluded(pid);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(is_excluded, "its variables name the session");
    assert!(!is_named, "a program in a pod has the pod's host name");
}

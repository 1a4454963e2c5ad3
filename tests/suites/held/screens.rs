//! The screen and modes that a client terminal gets and loses, in tmux and on terminals that do not read.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aifo_tests::{Signal, Tmux, can_run, eventually, is_alive, pty, send_signal};

use super::{HeldSetup, appears, coder, held_setup, kept, put, sessions};

/// Draws once, with wide characters, colours and modes, on the alternate screen.
const DRAWS_ONCE: &str = r"/bin/stty raw -echo; trap '' WINCH
printf '\033]0;the title\007\033[>3u\033[?1049h\033[>7u\033[2J\033[?1002h\033[?1006h\033[?2004h\033[?1h\033=\033[4 q'
printf '\033[2;3H\033[38;2;255;100;7;48;2;1;2;3m漢字 wide\033[0m é\u0301 \033[1;3;4;7mall\033[m\033[38;5;200m x\033[m'
printf '\033[24;1Hlast row\033[10;79H界\033[12;40H'; : >began
while [ ! -e go ]; do /bin/sleep 0.02; done; exit 7";

/// What tmux keeps of a screen: cursor, modes, title.
const STATE: &str = "#{cursor_x} #{cursor_y} #{alternate_on} #{mouse_button_flag} #{mouse_sgr_flag} \
                     #{keypad_flag} #{keypad_cursor_flag} #{cursor_flag} #{pane_title}";

/// A shell with this setup's environment, which runs the lines that are typed.
fn shell(setup: &HeldSetup) -> Tmux {
    let coder = coder(setup, &[]);
    let mut shell = Command::new("/bin/bash");
    shell.args(["--norc", "--noprofile"]);
    let variables = coder.get_envs().filter_map(|(name, value)| Some((name, value?)));
    shell.env_clear().envs(variables).env("PS1", "$ ").env("TERM", "tmux-256color");
    Tmux::start(shell.current_dir(setup.workspace()))
}

fn attach_line() -> String {
    format!("'{}' attach", aifo_tests::binaries().coder.display())
}

#[test]
fn a_screen_is_copied_whole_and_its_modes_end_with_the_client() {
    let name = "held::screens::a_screen_is_copied_whole_and_its_modes_end_with_the_client";
    if !can_run(name, &["/usr/bin/tmux", "-V"]) {
        return;
    }
    let setup = held_setup();
    let first = Tmux::start(kept(&setup, "--keep", DRAWS_ONCE).env("TERM", "tmux-256color"));
    appears(&setup, "began");
    first.expect("last row");
    eventually("the state is drawn", || first.value(STATE) == "39 11 1 1 1 1 1 1 the title");
    let (screen, state) = (first.coloured_screen(), first.value(STATE));
    assert!(screen.contains("漢字 wide") && screen.contains("38;2;255;100;7"), "{screen}");

    let second = shell(&setup);
    second.prompt("$");
    second.line("printf '\\033]0;mine\\007'").prompt("$");
    second.clear().press(&["Enter"]).prompt("$");
    let before = second.value(STATE);
    assert!(before.ends_with(" mine"), "{before}");
    for _ in 0..2 {
        second.clear().press(&["Enter"]).prompt("$");
        second.line(&attach_line()).expect("last row");
        eventually("the screen is that of the first terminal", || {
            second.coloured_screen() == screen && second.value(STATE) == state
        });
        second.press(&["C-\\", "C-d"]).prompt("$");
        let [was, is] = [&before, &second.value(STATE)].map(|state| {
            state.split_once(' ').and_then(|(_, rest)| rest.split_once(' ')).unwrap().1.to_owned()
        });
        assert_eq!(was, is, "the terminal is the shell's");
        second.line("echo $((6 * 7)) lines").expect("42 lines");
    }
    put(&setup, "go");
}

/// A terminal whose user's side is not read, for example of a connection that hangs.
#[test]
fn a_terminal_that_does_not_read_blocks_neither_command_nor_client() {
    let setup = held_setup();
    let script = "while [ ! -e go ]; do /bin/sleep 0.02; done
        /usr/bin/head -c 3000000 /dev/zero | /usr/bin/tr '\\0' x; : >done; read -r";
    let (_user, line) = pty();
    let stdio = || Stdio::from(line.try_clone().unwrap());
    let run = kept(&setup, "--keep", script);
    let mut client = Command::new("/usr/bin/setsid");
    client.arg("--ctty").arg(run.get_program()).args(run.get_args()).env_clear();
    client.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    client.current_dir(run.get_current_dir().unwrap());
    let mut client = client.stdin(stdio()).stdout(stdio()).stderr(Stdio::null()).spawn().unwrap();
    eventually("it is attached", || sessions(&setup).contains("\n  1 client\n"));
    put(&setup, "go");
    appears(&setup, "done");
    send_signal(client.id().cast_signed(), Signal::SIGTERM);
    let started = Instant::now();
    while client.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(10), "the client does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    eventually("the session is detached", || sessions(&setup).contains(" detached "));
}

/// Modes that changed while a client read nothing.
#[test]
fn a_client_that_reads_late_gets_the_modes_of_the_screen() {
    let name = "held::screens::a_client_that_reads_late_gets_the_modes_of_the_screen";
    if !can_run(name, &["/usr/bin/tmux", "-V"]) {
        return;
    }
    let setup = held_setup();
    let script = r"printf '\033[?1049h\033[?1002h\033[?2004hfirst screen.'
        while [ ! -e go ]; do /bin/sleep 0.02; done
        /usr/bin/head -c 3000000 /dev/zero | /usr/bin/tr '\0' x
        printf '\033[?1002l\033[?1049l\033[?1003h\033[2J\033[H the other'; : >done; read -r word; echo got $word";
    let tmux = shell(&setup);
    tmux.prompt("$");
    fs::write(setup.workspace().join("script"), script).unwrap();
    let coder = aifo_tests::binaries().coder.display().to_string();
    // Otherwise the shell takes the terminal from a stopped client.
    tmux.line("set +m").prompt("$");
    tmux.line(&format!("'{coder}' run --keep --toolchain auto -- /bin/bash script"));
    tmux.expect("first screen.");
    let client = clients(&setup)[0];
    send_signal(client, Signal::SIGSTOP);
    put(&setup, "go");
    appears(&setup, "done");
    send_signal(client, Signal::SIGCONT);
    tmux.expect("the other");
    let state = "#{alternate_on} #{mouse_button_flag} #{mouse_all_flag}";
    eventually("the modes are those of the end", || tmux.value(state) == "0 0 1");
    tmux.press(&["C-\\", "C-d"]).prompt("$");
    assert_eq!(tmux.value(state), "0 0 0", "{}", tmux.screen());
    tmux.clear().line(&attach_line()).expect("the other");
    tmux.line("word").expect("got word").prompt("$");
}

/// The clients on this machine of a setup's holders.
fn clients(setup: &HeldSetup) -> Vec<i32> {
    let scratch = setup.scratch().display().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|pid| {
        let words = aifo_tests::argv(*pid);
        words.iter().any(|word| word == "--keep" || word == "attach")
            && words.first().is_some_and(|word| word.ends_with("aifo-coder"))
            && aifo_tests::environment(*pid).iter().any(|it| it.contains(&scratch))
            && is_alive(*pid)
    })
    .collect()
}

//! Text below the options of `--help`, and usage lines that clap cannot generate.

pub(super) const EXAMPLES: &str = "\
Examples:
  aifo-coder run codex               run an agent in a container, its tools in sidecars
  aifo-coder run -- make             run a command of this machine, its tools in sidecars
  aifo-coder prompt gemini 'Why?'    print an agent's answer
  aifo-coder acp gemini              run an agent for an editor that supports ACP
  aifo-coder exec cargo test         run one tool
  aifo-coder why python3 -m pytest   explain a tool call
  aifo-coder proxy make              serve this machine's make to containers
  aifo-coder log -f                  print tool calls as they end

Exit codes:
  0..255  those of the command
  86      nothing ran
  1       the request failed
  2       invalid command line";

pub(super) const SERVE: &str = "\
Prints AIFO_TOOLEEXEC_URL, AIFO_TOOLEEXEC_TOKEN and AIFO_WORKSPACE as NAME=value lines on stdout when \
clients can connect, then serves until SIGTERM, SIGINT or SIGHUP.

Examples:
  aifo-coder serve --toolchain rust
  aifo-coder serve --listen tcp://127.0.0.1:0 --toolchain auto

Exit codes:
  0   the session ended after a signal
  86  the session could not start
  2   invalid command line";

pub(super) const ATTACH: &str = "\
Examples:
  aifo-coder run --keep codex
  aifo-coder attach
  aifo-coder attach 5d0c

Ctrl-\\ Ctrl-D, or Ctrl-\\ d, leaves the session, which continues. So does closing the terminal. The end \
of a session that no terminal shows waits for the next `attach`, up to 24 hours.

Exit codes:
  0..255  that of the session, at its end
  0       the session continues
  125     the session's holder was killed
  1       no such session
  2       invalid command line";

pub(super) const PUBLISH: &str = "\
Examples:
  aifo-coder publish 3000
  aifo-coder publish --session 5d0c 8080:3000
  aifo-coder publish 0.0.0.0:8080:3000

Prints the address on stdout. The port is open on 127.0.0.1, unless an address is given, until the \
session ends. Without HOST, or with 0, a free port is chosen.

Exit codes:
  0  the port is open
  1  it is not
  2  invalid command line";

pub(super) const APPROVE: &str = "\
Examples:
  aifo-coder approve
  aifo-coder approve --watch 5d0c
  aifo-coder approve --answer q1 once

Shows each call that waits, and reads one key: y once, s for this session, a always, n deny, e deny and \
end the turn, q quit. The first answer counts. Without a terminal it prints the calls.

Exit codes:
  0  success
  1  another answer was first, or the session did not answer
  2  invalid command line";

pub(super) const SETUP: &str = "\
Prints the images of the project's toolchains and of the agents, asks, then builds or pulls those that \
are missing. Without a terminal it needs --yes. Ends with the command to run next.

Examples:
  aifo-coder setup
  aifo-coder setup codex
  aifo-coder setup --yes --base mmdebstrap gemini

Exit codes:
  0  success, or nothing was to be changed
  1  an image could not be built or pulled
  2  invalid command line";

pub(super) const KUBE_RENDER_USAGE: &str = "\
aifo-coder kube render [OPTIONS] AGENT [ARGS]..
       aifo-coder kube render [OPTIONS] --image IMAGE -- COMMAND [ARGS]..";

pub(super) const KUBE_RENDER: &str = "\
Prints a network policy and a pod with a container for aifo, for the agent and for each toolchain. The \
same options and session id give the same text.

Examples:
  aifo-coder kube render --pvc project codex | kubectl apply -f -
  aifo-coder kube render --git https://git.example/p.git#main --toolchain rust codex
  aifo-coder kube render --git https://git.example/p.git --git-secret login --git-push codex
  aifo-coder kube render --pvc project codex | podman kube play -

Exit codes:
  0  success
  1  the session cannot run in a pod
  2  invalid command line";

pub(super) const KUBE_FETCH: &str = "\
Fetches the changed files of an upload, and the commits of an upload or a clone. The commits, in a clone with the \
uncommitted files, are the branch aifo/SESSION of a repository of aifo's, and the command that fetches it is printed. \
The client also fetches every 30 s while it is attached, when it leaves, and at the session's end. This command \
     fetches at any other time. If the session has ended, its pod is deleted. A file that changed here \
and in the pod stays; the pod's version is in .aifo-conflicts.

Examples:
  aifo-coder kube fetch
  aifo-coder kube fetch --context staging 3f2a

Exit codes:
  0  success, also with conflicts
  1  files or commits could not be fetched
  2  invalid command line";

pub(super) const KUBE_RBAC: &str = "\
Examples:
  aifo-coder kube rbac --namespace team --group developers | kubectl apply -f -

Exit codes:
  0  success
  2  invalid command line";

pub(super) const RUN_USAGE: &str = "\
aifo-coder run [OPTIONS] AGENT [ARGS]..
       aifo-coder run [OPTIONS] [--image IMAGE] -- COMMAND [ARGS]..";

pub(super) const RUN: &str = "\
Examples:
  aifo-coder run codex
  aifo-coder run --toolchain rust --toolchain node claude --continue
  aifo-coder run --image ubuntu:24.04 -- bash
  aifo-coder run --keep codex
  aifo-coder run --max-secs 600 -- bash -c 'make && ./check'

An agent's container gets a state of its own for the project, with your settings and login, and the \
credentials of its row, see `aifo-coder agents`; \
AIFO_ENV_NAME=value sets NAME in it. A command after `--` without --image runs on this machine with the \
caller's environment. The session ends when its terminal is closed, unless --keep, --detach or \
`on_hangup = \"detach\"` of the configuration is given.

Exit codes:
  0..255  those of the command
  128+n   the command was killed by signal n
  127     the command was not found
  126     the command could not be executed
  86      nothing ran
  2       invalid command line
A tool's shim also exits with 124 (time limit) and 125 (exit code unknown).";

pub(super) const RUN_IN_SHORT: &str = "\
Examples:
  aifo-coder run codex
  aifo-coder run --toolchain rust claude --continue
  aifo-coder run --image ubuntu:24.04 -- bash

All options, limits, keys, Kubernetes and exit codes: aifo-coder run --help";

pub(super) const WEB: &str = "\
Examples:
  aifo-coder web gemini
  aifo-coder web --listen 127.0.0.1:9000 opencode
  aifo-coder web --origin https://aifo.example.org codex
  aifo-coder web --watch

Prints a link on stdout that signs one browser in, once. The agent starts with the first prompt.

Exit codes:
  0   ended by a signal
  86  nothing ran
  2   invalid command line";

pub(super) const PROMPT_USAGE: &str = "\
aifo-coder prompt [OPTIONS] AGENT [TEXT]
       aifo-coder prompt [OPTIONS] --agent-command COMMAND [TEXT]";

pub(super) const PROMPT: &str = "\
Examples:
  aifo-coder prompt gemini 'What does this project do?'
  aifo-coder prompt opencode --yes-to edit --yes-to execute 'Fix the failing test'
  git diff | aifo-coder prompt codex --format json | jq -r 'select(.type == \"final\").text'
  aifo-coder prompt --agent-command 'my-agent --acp' --backend local 'Hello'

Permission requests are denied unless a rule of the configuration or --yes-to allows them.

Exit codes:
  0      the turn ended
  1      the agent failed
  3      the agent refused
  4      token limit
  5      request limit
  6      another stop reason
  7      the agent cancelled the turn
  8      the agent cancelled the turn after a denied call
  124    timeout
  128+n  cancelled by signal n
  86     nothing ran
  2      invalid command line";

pub(super) const ACP_USAGE: &str = "\
aifo-coder acp [OPTIONS] AGENT [ARGS]..
       aifo-coder acp [OPTIONS] --agent-command COMMAND [-- ARGS..]";

pub(super) const ACP: &str = "\
An editor starts this command in the project's directory. Zed, in settings.json:

  \"agent_servers\": {
    \"Gemini in aifo\": {
      \"type\": \"custom\", \"command\": \"aifo-coder\", \"args\": [\"acp\", \"gemini\"], \"env\": {}
    }
  }

Toad:

  toad acp \"aifo-coder acp gemini\"

The editor shows permission requests that no rule of the configuration decides.

With ARGS, or if stdin is a terminal, the agent runs with ARGS in this terminal and its container. Editors \
use this to log in to the agent.

Exit codes:
  0      the editor closed the connection
  1      the agent failed
  128+n  ended by signal n
  86     nothing ran
  2      invalid command line
With ARGS: those of the agent.";

pub(super) const EXEC: &str = "\
Examples:
  aifo-coder exec cargo test
  aifo-coder exec --toolchain c-cpp make -j4
  aifo-coder exec --session 5d0c cargo build

Exit codes:
  0..255  those of the tool
  128+n   the tool was killed by signal n
  127     the tool's interpreter was not found
  126     the tool could not be executed
  125     the tool's exit code is unknown
  124     time limit
  86      nothing ran
  2       invalid command line";

pub(super) const PROXY: &str = "\
Creates a client for each command in the directory. In a container the client sends requests as files, and \
returns the command's output and exit code.

Examples:
  aifo-coder proxy make                      then, in a container: .swe-swe/proxy/make build
  aifo-coder proxy make docker
  aifo-coder proxy --global --max-secs 600 gh

PROXY_TIMEOUT in the container is the client's timeout in seconds: 300 by default, 0 for none.

Exit codes:
  0   ended by a signal
  86  could not start
  2   invalid command line
Exit codes of a client:
  0..255  those of the command
  128+n   the command was killed by signal n
  127     the command no longer exists
  126     the command could not be executed
  125     nothing ran, or the exit code is unknown
  124     timeout or time limit";

pub(super) const WHY: &str = "\
Examples:
  aifo-coder why cargo test
  aifo-coder why --toolchain node tsc --noEmit
  aifo-coder why --agent codex node /usr/local/bin/codex
  aifo-coder why --json make | jq .route
  aifo-coder why --backend kubernetes --session 5d0c cargo test

Exit codes:
  0  the call was explained
  1  it could not be explained
  2  invalid command line";

pub(super) const LOG: &str = "\
Examples:
  aifo-coder log
  aifo-coder log --failed 5d0c
  aifo-coder log -f --net
  aifo-coder log --json | jq 'select(.wall_ms > 1000)'";

pub(super) const NET: &str = "\
Examples:
  aifo-coder net -f
  aifo-coder net --failed 5d0c
  aifo-coder net suggest
  aifo-coder net check static.example.org:443
  aifo-coder net allow static.example.org:443
  aifo-coder net allow --kind python '*.registry.example'
  aifo-coder net --json | jq -r 'select(.state == \"closed\") | [.name, .received] | @tsv'

Exit codes:
  0  success
  1  the request failed
  2  invalid command line";

pub(super) const POLICY: &str = "\
Examples:
  aifo-coder policy check -- git -C sub push -f
  aifo-coder policy check -- sh -c 'cd x && npm publish'
  aifo-coder policy test

Exit codes:
  0  success
  1  a file or rule is invalid
  2  invalid command line";

pub(super) const CLEANUP: &str = "\
Examples:
  aifo-coder cleanup --dry-run
  aifo-coder cleanup
  aifo-coder cleanup 5d0c

Running and starting sessions, and those of other users, are never touched.

Exit codes:
  0  success, or nothing to remove
  1  an item could not be removed
  2  invalid command line";

pub(super) const CACHE: &str = "\
Examples:
  aifo-coder cache list --sizes
  aifo-coder cache clear rust

Exit codes:
  0  success
  1  a cache could not be removed
  2  invalid command line";

pub(super) const STATE: &str = "\
Examples:
  aifo-coder state list
  aifo-coder state clear codex --project
  aifo-coder state clear --gone

Exit codes:
  0  success
  1  a state could not be removed
  2  invalid command line";

pub(super) const DOCTOR: &str = "\
Examples:
  aifo-coder doctor
  aifo-coder doctor --backend podman --toolchain rust
  aifo-coder doctor --backend kubernetes --namespace team

Starts sidecars with the given options, runs some tool calls in them, and removes them. In a cluster it \
creates nothing.

Exit codes:
  0  no check failed
  1  a check failed
  2  invalid command line";

pub(super) const CONFIG: &str = "\
The user's file overrides built-in defaults, the environment overrides the file, and flags override both. \
A project's .aifo.toml can only restrict: deny tools, variables and permissions, lower limits, require \
confinement, separate caches, remove toolchains, turn off notifications \
and the network of containers.

Examples:
  aifo-coder config show --toolchain rust
  $EDITOR \"$(aifo-coder config path)\"
  aifo-coder config check";

pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(aifo-coder completions bash)                      in ~/.bashrc
  source <(aifo-coder completions zsh)                       in ~/.zshrc, after compinit
  aifo-coder completions fish | source                       in ~/.config/fish/config.fish
  eval (aifo-coder completions elvish | slurp)               in ~/.config/elvish/rc.elv
  aifo-coder completions powershell | Out-String | iex       in $PROFILE

The script contains the agents and toolchains of the current configuration.";

# Prints what a program of a session can do, a line for each row of README's table of trust: the row, and the
# beginning of its cell. Before it: USER_LIMITS (user namespace and uid of the launcher), HOST_HOME, RUN (the parent of session directories), PORT, ADDRESS, KEY.
PATH=/usr/bin:/bin
say() { echo "$1: $2"; }
try() { "$@" >/dev/null 2>&1; }

if try sh -c 'echo x > probe && cat probe'; then say "your project" "reads and writes"
elif try ls .; then say "your project" reads
else say "your project" nothing; fi

if try sh -c "echo x > '$HOST_HOME/written'"; then say "the rest of your home" "reads and writes"
elif try cat "$HOST_HOME/private"; then say "the rest of your home" "read all of it"
elif try cat ~/.qwen/settings.json && try cat ~/.qwen/oauth_creds.json; then
  say "the rest of your home" "copies of its settings and its login"
else say "the rest of your home" nothing; fi

reaches() { try timeout 5 bash -c "exec 3<>/dev/tcp/$1/$PORT"; }
if reaches 127.0.0.1 || reaches "$ADDRESS"; then say network yours
elif try getent hosts github.com && ! try getent hosts github.invalid; then say network names
else say network none; fi

if [ "$OPENAI_API_KEY" = "$KEY" ] || try grep -ls "OPENAI_API_KEY=$KEY" /proc/[0-9]*/environ; then
  say "model keys" "your environment"
elif [ -n "$OPENAI_API_KEY" ]; then say "model keys" "a phantom key"
else say "model keys" nothing; fi

if [ "$MINE" = mine ]; then say "other secrets" "the variables of its row"
elif try cat "$HOST_HOME/private"; then say "other secrets" "your files"
else say "other secrets" none; fi

# A mark that later sessions find.
if [ -d ~/.qwen ]; then kept=~/.qwen what="a state of its own"
else kept=$CCACHE_DIR what="caches of the same project"; fi
if [ -e "$kept/mark" ]; then say "between sessions" "$what"
else say "between sessions" nothing; try touch "$kept/mark"; fi

if try ls "$RUN" || try ls /var/run/docker.sock /run/podman/podman.sock; then
  say "container engine, other sessions" reachable
else say "container engine, other sessions" "out of reach"; fi

# The kernel counts by user namespace and uid.
if [ "$(readlink /proc/self/ns/user) $(id -u)" = "$USER_LIMITS" ]; then
  say "limits of your uid in the kernel" shared
else say "limits of your uid in the kernel" "its own"; fi

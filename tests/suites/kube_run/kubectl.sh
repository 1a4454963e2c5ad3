#!/bin/sh
# A kubectl whose cluster is the directory of this file, with one pod: the processes of its container
# `aifo` run on this machine. Files there change its answers.
D=${0%/*}
printf '%s\n' "$*" >>"$D/calls"
fail() { echo "$1" >&2; exit 1; }
client() { sed -n 's/.*name: AIFO_POD_CLIENT, value: "\(.*\)"}.*/\1/p' "$D/manifests"; }
id() { sed -n 's/^  name: aifo-//p' "$D/manifests" | head -n 1; }
size() {
    size=$(sed -n 's/.*"_pod", "[0-9]*", "\{0,1\}\([0-9]*x[0-9]*\).*/\1/p' "$D/manifests")
    echo "${size:-80x24}"
}
is_clone() { grep -q 'name: clone' "$D/manifests"; }
pushes() {
    if grep -q AIFO_POD_PUSH "$D/manifests"; then
        AIFO_POD_PUSH=$(cat "$D/push-url") && export AIFO_POD_PUSH
    fi
}
containers() {
    for name in aifo agent; do
        printf '%s{"name":"%s","image":"i","state":%s}' "$comma" "$name" "$1"
        comma=,
    done
}
pod() {
    [ -e "$D/manifests" ] || fail 'Error from server (NotFound): pods "aifo-x" not found'
    running='{"running":{}}' comma=
    if [ -e "$D/status" ]; then
        status=$(cat "$D/status")
    elif grep -q _workspace "$D/manifests" && [ ! -e "$D/tmp/aifo-uploaded" ]; then
        status="{\"phase\":\"Pending\",\"initContainerStatuses\":[{\"name\":\"upload\",\"state\":$running}]}"
    elif [ -e "$D/code" ]; then
        status="{\"phase\":\"Failed\",\"containerStatuses\":[$(containers "{\"terminated\":{\"exitCode\":$(cat "$D/code")}}")]}"
    elif [ -e "$D/tmp/aifo-ended" ]; then
        ended='{"name":"agent","state":{"terminated":{"exitCode":0}}}'
        status="{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"aifo\",\"state\":$running},$ended]}"
    else
        status="{\"phase\":\"Running\",\"containerStatuses\":[$(containers "$running")]}"
    fi
    printf '{"metadata":{"name":"aifo-%s","labels":{"dev.aifo.session":"%s","dev.aifo.agent":"sh"}},' "$(id)" "$(id)"
    inits=
    if grep -q _workspace "$D/manifests"; then inits=upload; elif is_clone; then inits=clone; fi
    printf '"spec":{"nodeName":"node1","initContainers":[{"name":"%s"}],' "$inits"
    printf '"containers":[{"name":"aifo"},{"name":"agent"}]},"status":%s}\n' "$status"
}
# `kuberc view` prints the preferences.
if [ "$1" = kuberc ]; then
    cat "$D/kuberc"
    exit
fi
if [ "$KUBERC" != off ]; then cat "$KUBERC" >"$D/preferences" || fail "error: no preferences '$KUBERC'"; fi
case "$*" in
"version --client"*)
    echo "{\"clientVersion\":{\"gitVersion\":\"$(cat "$D/version" 2>/dev/null || echo v1.30.0)\"}}"
    exit ;;
*" config view "*)
    for field in context namespace; do
        echo "$(cat "$D/$field" 2>/dev/null)"
    done
    echo https://10.0.0.1:6443
    exit ;;
esac
[ ! -e "$D/away" ] || fail 'The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?'
case "$*" in
*" get --raw=/version") echo '{"major":"1","gitVersion":"v1.31.2"}'; exit ;;
*" auth can-i "*)
    # The exit code of "no" is that of an error.
    words=$*
    grep -qsx -- "${words#*auth can-i }" "$D/denied-rights" || { echo yes; exit; }
    echo no
    exit 1 ;;
*" get namespace "*)
    [ ! -e "$D/refusal" ] || fail "$(cat "$D/refusal")"
    printf 'Active restricted'
    exit ;;
*" get secret "*)
    [ ! -e "$D/refusal" ] || fail "$(cat "$D/refusal")"
    words=$*
    name=${words#* get secret }
    name=${name%% *}
    [ -e "$D/secret-$name" ] || fail "Error from server (NotFound): secrets \"$name\" not found"
    cat "$D/secret-$name"
    exit ;;
esac
case "$*" in
*" create --dry-run=server "*)
    cat >/dev/null
    [ ! -e "$D/warning" ] || echo "Warning: $(cat "$D/warning")" >&2
    [ ! -e "$D/refusal" ] || fail "$(cat "$D/refusal")" ;;
*" patch "*) ;;
*" create "*)
    cat >"$D/manifests"
    echo 'NetworkPolicy/uid-1;Pod/uid-2;'
    [ ! -e "$D/unscheduled" ] || exit 0
    AIFO_POD_SESSION=$(id) AIFO_POD_CLIENT=$(client) && export AIFO_POD_SESSION AIFO_POD_CLIENT
    AIFO_POD_SETTINGS=$(sed -n '/name: AIFO_POD_SETTINGS/{n;s/^ *value: "\(.*\)"$/\1/p}' "$D/manifests" | sed 's/\\"/"/g')
    AIFO_POD_SETTINGS=$(printf '%b' "$AIFO_POD_SETTINGS") && export AIFO_POD_SETTINGS
    export HOME="$D/home"
    if grep -q _workspace "$D/manifests"; then
        mkdir -p "$D/files" "$D/tmp" && cd "$D/files" || exit
        export TMPDIR="$D/tmp" AIFO_POD_UPLOAD=1
    elif is_clone; then
        mkdir -p "$D/tmp" && git clone --quiet "$D/origin" "$D/files" 2>"$D/clone" && cd "$D/files" || exit
        git switch --quiet --create "aifo/$(id)"
        export TMPDIR="$D/tmp" AIFO_POD_GIT=1
        pushes
    fi
    (while [ -n "$AIFO_POD_UPLOAD" ] && [ ! -e "$D/tmp/aifo-uploaded" ]; do
        [ -e "$D/manifests" ] || exit 0
        sleep 0.1
    done
        setsid "$AIFO_CODER" _pod "$(cat "$D/secs" 2>/dev/null || echo 900)" "$(size)" sh --toolchain auto -- /bin/bash "$D/script" >"$D/log" 2>&1
        echo $? >"$D/code") </dev/null >/dev/null 2>&1 & ;;
*"get events"*) while :; do cat "$D/events" 2>/dev/null; sleep 1; done ;;
*"get pod "*--watch*) while pod; do sleep 0.3; done ;;
*"get pod "*) pod ;;
*"get pods "*)
    if [ -e "$D/manifests" ]; then echo "{\"items\":[$(pod)]}"; else echo '{"items":[]}'; fi ;;
*" delete "*)
    echo "$*" >>"$D/deleted"
    rm -f "$D/manifests" ;;
*" logs "*) echo 'fatal: repository not found' ;;
*exec*" -- "*)
    [ ! -e "$D/code" ] || fail 'error: cannot exec into a container in a completed pod; current phase is Failed'
    AIFO_POD_SESSION=$(id) AIFO_POD_CLIENT=$(client) && export AIFO_POD_SESSION AIFO_POD_CLIENT
    export HOME="$D/home"
    while [ "$1" != -- ]; do shift; done
    shift 2
    relayed=
    if [ "$1" = _command ]; then relayed=_command && shift; fi
    if [ -d "$D/files" ]; then cd "$D/files" && export TMPDIR="$D/tmp"; fi
    if is_clone; then export AIFO_POD_GIT=1; else export AIFO_POD_UPLOAD=1; fi
    pushes
    [ ! -e "$D/no-$2" ] || fail "$(cat "$D/no-$2")"
    if [ -e "$D/cut-$2" ]; then
        "$AIFO_CODER" "$@" | head -c "$(cat "$D/cut-$2")"
        exit 1
    fi
    if [ -n "$AIFO_POD_PATH" ]; then PATH=$AIFO_POD_PATH; fi
    case "$1" in _relay | _workspace | _signal) exec "$AIFO_CODER" "$@" ;; esac
    case "$1" in acp | prompt | why)
        # The same command, with an agent and tools of this machine.
        skip=
        for word; do
            shift
            case $word in
            --image) skip=1; continue ;;
            --keys) skip=1; continue ;;
            pod) word=local ;;
            /workspace) word=$D/files ;;
            esac
            [ -n "$skip" ] || set -- "$@" "$word"
            skip=
        done ;;
    esac
    echo $$ >"$D/command"
    # As if a node has lost the connection.
    [ ! -e "$D/lost-connection" ] || relayed=
    # A container runtime gives it a session of its own.
    setsid --wait "$AIFO_CODER" ${relayed:+"$relayed"} "$@" && exit
    echo "command terminated with exit code $?" >&2
    exit 3 ;;
*) fail "error: unknown command: $*" ;;
esac

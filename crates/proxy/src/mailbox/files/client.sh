#!/bin/sh
# Runs @NAME@ on the host. 'aifo-coder mailbox' creates this script and removes it when it exits.
#
# Some functions are called by name only:
# shellcheck disable=SC2317,SC2329
set -u

command=@COMMAND@
made_in=@DIRECTORY@
# The workspace: relative to this directory, and on the host.
workspace=@WORKSPACE@
host=@HOST@
# The variables to forward.
variables=@VARIABLES@

fail() {
    printf '%s\n' "$1" >&2
    exit "$2"
}

case $0 in
    */*) dir=${0%/*} ;;
    *) dir=$made_in ;;
esac
if [ ! -e "$dir/$command.mailbox" ] && [ -h "$0" ]; then
    link=$(readlink -f "$0") && dir=${link%/*}
fi
id=
{ read -r id </proc/sys/kernel/random/uuid; } 2>/dev/null
[ -n "$id" ] || id=$$-$(date +%s)
prefix=$dir/$command.$id

limit=${PROXY_TIMEOUT:-300}
case $limit in '' | *[!0-9]*) limit=300 ;; esac
inotify=$(command -v inotifywait)
request=$prefix.req.tmp
heartbeat='' spooler='' opened='' expired=''

cleanup() {
    trap '' INT TERM HUP ALRM
    for child in $heartbeat $spooler; do
        kill "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    done
    rm -f "$prefix.req" "$prefix.req.tmp" "$prefix.call" "$prefix.stdin" "$prefix.eof" "$prefix.sig.tmp" \
        "$prefix.sig" "$prefix.notes" "$prefix.stdout" "$prefix.stderr" "$prefix.reason" "$prefix.exit" "$prefix.alive"
}

# Forwards a signal to the command.
forward() {
    printf '%s\n' "$1" >"$prefix.sig.tmp" && mv "$prefix.sig.tmp" "$prefix.sig"
}

# Touches the liveness file every second while the script lives, without creating it, and raises ALRM at the
# timeout.
heartbeat() {
    elapsed=0
    sleep 0.1 || sleep 1
    while kill -0 $$ 2>/dev/null && touch -c "$prefix.alive"; do
        sleep 1
        elapsed=$((elapsed + 1))
        [ "$elapsed" != "$limit" ] || kill -ALRM $$
    done
}

# Copies standard input block by block, at most 1 MiB ahead of the command.
spool_stdin() {
    trap 'kill "$reader" 2>/dev/null; exit 0' TERM
    trap '' TTIN
    sent=0
    while :; do
        LC_ALL=C dd bs=65536 count=1 <&3 >>"$prefix.stdin" 2>"$prefix.notes" &
        reader=$!
        wait "$reader" || break
        { read -r blocks && read -r _ && read -r bytes _; } <"$prefix.notes" || bytes=65536
        case $blocks in '0+0 '*) break ;; esac
        sent=$((sent + bytes))
        while taken=0 && { read -r taken <"$prefix.taken" || :; } && [ $((sent - taken)) -gt 1048576 ]; do
            sleep 0.05 || sleep 1
        done 2>/dev/null
    done
    : >"$prefix.eof"
}

# Runs a function once the files are watched. Returns its status after the next change, or after a
# second.
watch() {
    action=$1
    if [ -z "$inotify" ]; then
        (trap '' INT TERM HUP && "$action") || return
        sleep 0.05 || sleep 1
        return 0
    fi
    # The request keeps its inode when it is renamed; its removal is the end.
    if [ -n "$opened" ]; then set -- "$prefix.run" "$prefix.stdout" "$prefix.stderr"; else set -- "$request"; fi
    # inotifywait prints two lines, the second once it watches, and then the change. It takes a while to
    # exit, which is not waited for. A file that was renamed before is found by the next check.
    {
        inotifywait -t 1 -e modify -e attrib -e delete_self "$prefix.alive" "$@" \
            2>&1 </dev/null 3<&- 4<&- 5<&- &
    } | {
        trap '' INT TERM HUP
        read -r _
        read -r established
        "$action" || exit
        case $established in
            *established*) read -r _ ;;
            *) sleep 0.05 || sleep 1 ;;
        esac
        exit 0
    }
}

# Runs a function again if a signal, which was forwarded, has ended its subshell before that ignored it.
again() {
    while :; do
        "$@"
        status=$?
        case $status in 129 | 130 | 143) ;; *) return "$status" ;; esac
    done
}

submit() {
    mv "$prefix.req.tmp" "$prefix.req"
}

# Prints new output; the open descriptors keep the position. Once the exit code exists, the touch ends the wait.
show_or_finish() {
    [ ! -e "$prefix.exit" ] || touch -c "$prefix.alive"
    show_streams
}

show_streams() {
    [ -n "$opened" ] || return 0
    if [ -s "$prefix.stdout" ]; then cat <&4 || return; fi
    if [ -s "$prefix.stderr" ]; then cat <&5 >&2 || return; fi
}

show_rest() {
    (trap '' INT TERM HUP && show_streams)
}

open_streams() {
    if [ -z "$opened" ] && [ -e "$prefix.stderr" ]; then
        exec 4<"$prefix.stdout" 5<"$prefix.stderr" && opened=yes
    fi
}

trap cleanup EXIT
trap 'forward INT' INT
trap 'forward TERM' TERM
trap 'forward HUP' HUP
trap 'expired=yes' ALRM

cwd=$(pwd -P)
root=$host
[ -z "$workspace" ] || root=$(cd "$dir/$workspace" 2>/dev/null && pwd -P)
{
    : >"$prefix.alive" &&
        {
            printf '%s\0' "cwd=$cwd" "workspace=$root"
            for name in $variables; do
                eval "[ -z \"\${$name+set}\" ] || printf 'env=%s=%s\\0' $name \"\$$name\""
            done
        } >"$prefix.call" &&
        # Without arguments printf would write one empty argument.
        if [ $# = 0 ]; then : >"$prefix.req.tmp"; else printf '%s\0' "$@" >"$prefix.req.tmp"; fi
} 2>/dev/null || fail "cannot place a request in '$dir'" 125
if { true <&0; } 2>/dev/null; then
    : >"$prefix.stdin"
    exec 3<&0
fi

if [ -e "$prefix.stdin" ]; then
    spool_stdin </dev/null >/dev/null 2>&1 &
    spooler=$!
fi
heartbeat </dev/null >/dev/null 2>&1 &
heartbeat=$!
again watch submit
request=$prefix.req
until [ -e "$prefix.exit" ]; do
    [ -z "$expired" ] || fail 'timeout waiting for host to execute command' 124
    open_streams
    again watch show_or_finish || exit 141
done
open_streams
again show_rest || exit 141
code=
read -r code <"$prefix.exit"
case $code in '' | *[!0-9]*) fail "the command's exit status is unknown" 125 ;; esac
exit "$code"

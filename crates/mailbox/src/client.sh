#!/bin/sh
# The host's @NAME@, for a container: made by 'aifo-coder proxy', and removed when that ends.
#
# Some functions are only called by their names:
# shellcheck disable=SC2317,SC2329
set -u

command=@COMMAND@
made_in=@DIRECTORY@
# The way from here to the workspace, and what the host calls that.
workspace=@WORKSPACE@
host=@HOST@
# The variables that pass.
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
stem=$dir/$command.$id

limit=${PROXY_TIMEOUT:-300}
case $limit in '' | *[!0-9]*) limit=300 ;; esac
inotify=$(command -v inotifywait)
request=$stem.req.tmp
beat='' feed='' opened='' expired=''

cleanup() {
    trap '' INT TERM HUP ALRM
    for child in $beat $feed; do
        kill "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    done
    rm -f "$stem.req" "$stem.req.tmp" "$stem.call" "$stem.stdin" "$stem.eof" "$stem.sig.tmp" \
        "$stem.sig" "$stem.notes" "$stem.stdout" "$stem.stderr" "$stem.reason" "$stem.exit" "$stem.alive"
}

# A signal of ours is the command's.
forward() {
    printf '%s\n' "$1" >"$stem.sig.tmp" && mv "$stem.sig.tmp" "$stem.sig"
}

# Says every second that we are here, without ever making the file anew, and when time is up.
beat() {
    elapsed=0
    sleep 0.1 || sleep 1
    while touch -c "$stem.alive"; do
        sleep 1
        elapsed=$((elapsed + 1))
        [ "$elapsed" != "$limit" ] || kill -ALRM $$
    done
}

# Standard input, block by block as it comes, and no more than 1 MiB ahead of the command.
feed() {
    trap 'kill "$reader" 2>/dev/null; exit 0' TERM
    trap '' TTIN
    sent=0
    while :; do
        LC_ALL=C dd bs=65536 count=1 <&3 >>"$stem.stdin" 2>"$stem.notes" &
        reader=$!
        wait "$reader" || break
        { read -r blocks && read -r _ && read -r bytes _; } <"$stem.notes" || bytes=65536
        case $blocks in '0+0 '*) break ;; esac
        sent=$((sent + bytes))
        while taken=0 && { read -r taken <"$stem.taken" || :; } && [ $((sent - taken)) -gt 1048576 ]; do
            sleep 0.05 || sleep 1
        done 2>/dev/null
    done
    : >"$stem.eof"
}

# Runs a function once our files are watched, and returns with what it said after the next change, or
# after a second.
await() {
    action=$1
    if [ -z "$inotify" ]; then
        "$action" || return
        sleep 0.05 || sleep 1
        return 0
    fi
    # The request is the same file under every name, and its removal the end.
    if [ -n "$opened" ]; then set -- "$stem.run" "$stem.stdout" "$stem.stderr"; else set -- "$request"; fi
    # Two lines come first, the second when it watches, and then the change. It takes a while to end, for
    # which nobody waits. What has another name by now cannot be watched, and is looked for again.
    {
        inotifywait -t 1 -e modify -e attrib -e delete_self "$stem.alive" "$@" \
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

submit() {
    mv "$stem.req.tmp" "$stem.req"
}

# Shows what has come; the open files remember how far. If it is all over, the wait is as well.
look() {
    [ ! -e "$stem.exit" ] || touch -c "$stem.alive"
    show
}

show() {
    [ -n "$opened" ] || return 0
    if [ -s "$stem.stdout" ]; then cat <&4 || return; fi
    if [ -s "$stem.stderr" ]; then cat <&5 >&2 || return; fi
}

open() {
    if [ -z "$opened" ] && [ -e "$stem.stderr" ]; then
        exec 4<"$stem.stdout" 5<"$stem.stderr" && opened=yes
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
    : >"$stem.alive" &&
        {
            printf '%s\0' "cwd=$cwd" "workspace=$root"
            for name in $variables; do
                eval "[ -z \"\${$name+set}\" ] || printf 'env=%s=%s\\0' $name \"\$$name\""
            done
        } >"$stem.call" &&
        # printf would make an empty argument of none.
        if [ $# = 0 ]; then : >"$stem.req.tmp"; else printf '%s\0' "$@" >"$stem.req.tmp"; fi
} 2>/dev/null || fail "cannot place a request in '$dir'" 125
if { true <&0; } 2>/dev/null; then
    : >"$stem.stdin"
    exec 3<&0
fi

if [ -e "$stem.stdin" ]; then
    feed </dev/null >/dev/null 2>&1 &
    feed=$!
fi
beat </dev/null >/dev/null 2>&1 &
beat=$!
await submit
request=$stem.req
until [ -e "$stem.exit" ]; do
    [ -z "$expired" ] || fail 'timeout waiting for host to execute command' 124
    open
    await look || exit 141
done
open
(trap '' INT TERM HUP && show) || exit 141
code=
read -r code <"$stem.exit"
case $code in '' | *[!0-9]*) fail 'the ending of the command is unknown' 125 ;; esac
exit "$code"

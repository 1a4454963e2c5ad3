#!/bin/sh
# A kubectl whose cluster is podman. The directory of this file has the manifests of its session.
D=${0%/*}
id() { sed -n 's/^  name: aifo-//p' "$D/manifests" | head -n 1; }
down() {
    podman kube down "$D/manifests" >/dev/null 2>&1 || podman pod rm --force --time 0 "aifo-$(id)" >/dev/null 2>&1
    podman volume ls --quiet --filter "name=aifo-$(id)-" | xargs --no-run-if-empty podman volume rm --force >/dev/null
    rm -f "$D/manifests"
}
pod() {
    if ! [ -e "$D/manifests" ]; then
        echo 'Error from server (NotFound): pods "aifo" not found' >&2
        return 1
    fi
    containers= names=
    list=$(podman ps --all --filter "pod=aifo-$(id)" --format '{{.Names}} {{.ExitCode}} {{.Status}}')
    while read -r name code state; do
        name=${name#"aifo-$(id)-"}
        case $name in '' | install | clone | branch | *-infra) continue ;; esac
        case $state in
        Up*) state='{"running":{}}' ;;
        Exited*) state="{\"terminated\":{\"exitCode\":$code}}" ;;
        *) state='{"waiting":{"reason":"ContainerCreating"}}' ;;
        esac
        containers="$containers${containers:+,}{\"name\":\"$name\",\"image\":\"i\",\"state\":$state}"
        names="$names${names:+,}{\"name\":\"$name\"}"
    done <<END
$list
END
    printf '{"metadata":{"name":"aifo-%s","labels":{"dev.aifo.session":"%s"}},' "$(id)" "$(id)"
    printf '"spec":{"nodeName":"here","containers":[%s]},"status":{"phase":"Running","containerStatuses":[%s]}}\n' \
        "$names" "$containers"
}
case "$*" in
"version --client"*) echo '{"clientVersion":{"gitVersion":"v1.30.0"}}' ;;
*" create --dry-run=server "*) cat >/dev/null ;;
*" create "*)
    cat >"$D/manifests"
    podman kube play "$D/manifests" >/dev/null ;;
*"get events"*) exec sleep 600 ;;
*"get pod "*--watch*) while pod; do sleep 0.2; done ;;
*"get pod "*) pod ;;
*"get pods "*)
    if [ -e "$D/manifests" ]; then echo "{\"items\":[$(pod)]}"; else echo '{"items":[]}'; fi ;;
*" delete "*) [ ! -e "$D/manifests" ] || down ;;
*exec*" -- "*)
    while [ "$1" != -- ]; do shift; done
    shift
    case $3 in
    _relay) exec podman exec --interactive "aifo-$(id)-aifo" "$@" ;;
    esac
    podman exec --interactive "aifo-$(id)-aifo" "$@" && exit
    code=$?
    echo "command terminated with exit code $code" >&2
    exit $code ;;
*) echo "error: unknown command: $*" >&2; exit 1 ;;
esac

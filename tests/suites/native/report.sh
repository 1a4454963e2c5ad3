# Writes a program's own attributes to the file `report`, as `name value` lines. Builtins inspect the shell
# itself; children inspect it by its pid, $$.
exec 9> report
say() { echo "$@" >&9; }
field() { while read -r name value; do [ "$name" = "$1:" ] && echo "$value"; done < /proc/$$/status; }

say arguments "$@"
say directory "$(readlink /proc/$$/cwd)"
say PWD "$PWD"
say umask "$(umask)"
for limit in t f d s c m l p n v w r; do
    say "soft_limit_$limit" "$(ulimit -S -$limit)"
    say "hard_limit_$limit" "$(ulimit -H -$limit)"
done
for name in SigBlk SigIgn SigPnd; do
    # Signals 32 and 33 belong to the C library and cannot be changed.
    say "$name" "$(printf %x $((0x$(field $name) & ~0x180000000)))"
done
for name in NoNewPrivs Seccomp Uid Gid Groups CapInh CapPrm CapEff CapAmb Cpus_allowed; do
    say "$name" "$(field $name)"
done
read -r stat < /proc/$$/stat
set -- ${stat##*) }
say own_process_group "$([ "$3" = $$ ] && echo yes || echo no)"
say own_session "$([ "$4" = $$ ] && echo yes || echo no)"
say terminal "$([ "$5" = 0 ] && echo no || echo yes)"
say nice "${17}"
say oom_score_adj "$(cat /proc/$$/oom_score_adj)"
say parent "$(cat /proc/$PPID/comm)"
for fd in 0 1 2; do
    if [ ! -e /proc/$$/fd/$fd ]; then
        say "fd${fd}_kind" closed
        continue
    fi
    kind=$(stat -L -c '%F %t:%T' /proc/$$/fd/$fd)
    # The number of the pseudo-terminal depends on how many others exist.
    case $kind in *' 88:'*) kind=${kind%:*} ;; esac
    say "fd${fd}_kind" "$kind"
    say "fd${fd}_mode" "$(while read -r name value; do [ $name = flags: ] && echo "$value"; done < /proc/$$/fdinfo/$fd)"
    say "fd${fd}_terminal" "$([ -t $fd ] && echo yes || echo no)"
done
say fd1_and_fd2 "$([ /proc/$$/fd/1 -ef /proc/$$/fd/2 ] && echo same || echo apart)"
for fd in 3 4 5 6 7 8; do
    [ -e /proc/$$/fd/$fd ] && say further_descriptors $fd
done
say environment "$(tr '\0' '\n' < /proc/$$/environ | sed 's/=.*//' | sort | tr '\n' ' ')"

# Runs the server given as arguments until standard input ends, and then ends it too.
#
# The starting process holds the other end of that pipe. The system closes it whatever way that process ends, SIGKILL
# included, so a server never outlives it. $1 is a folder to remove afterwards, or empty.
scratch=$1
shift

exec 3<&0 </dev/null
"$@" 3<&- &
server=$!

# `read` and not `cat`: it is this very subshell that waits, so that ending the subshell leaves nothing behind. Output
# is detached because standard output carries the lock that marks a running server.
(
    read -r _ <&3
    kill -TERM "$server"
    tenths=0
    while kill -0 "$server"; do
        [ "$tenths" -lt 50 ] || kill -KILL "$server"
        tenths=$((tenths + 1))
        sleep 0.1
    done
) >/dev/null 2>&1 &
watcher=$!
exec 3<&-

wait "$server"
status=$?
kill "$watcher" 2>/dev/null
# A server that failed leaves its log for its parent to show. One that was ended, 137 being SIGKILL, may have no parent.
case $status in
    0 | 137) [ -z "$scratch" ] || rm -rf -- "$scratch" ;;
esac
exit "$status"

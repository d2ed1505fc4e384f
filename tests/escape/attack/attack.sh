# What attacks in the shell share: each attempt prints one line, "refused NAME" or "ESCAPED NAME", and the last line counts them.
attempts=0 escapes=0

escaped() {
        attempts=$((attempts + 1)) escapes=$((escapes + 1))
        printf 'ESCAPED %s\n' "$*"
}

refused() {
        attempts=$((attempts + 1))
        printf 'refused %s\n' "$*"
}

# attempt COMMAND...: it must fail.
attempt() {
        local said
        if said=$("$@" 2>&1 </dev/null); then
                escaped "$*: $said"
        else
                refused "$*: ${said//$'\n'/; }"
        fi
}

# attempt_write TEXT FILE: writing must fail. In this shell: what a program would be needed for may be missing.
attempt_write() {
        if { printf '%s' "$1" >"$2"; } 2>/dev/null; then
                escaped "wrote '$1' to $2"
        else
                refused "writing to $2"
        fi
}

# expect NAME COMMAND...: it must succeed.
expect() {
        local name=$1
        shift
        if "$@" >/dev/null 2>&1; then refused "$name"; else escaped "$name"; fi
}

finish() {
        echo "$attempts attempts"
        [ "$escapes" = 0 ]
}

# What `glovebox help VERB` prints, one verb behind the other, as sections of a man page. The options that every verb has (groups Server and Other)
# are printed once, at the end.

function roff(s) {
        gsub(/\\/, "\\e", s)
        gsub(/-/, "\\-", s)
        sub(/^[.']/, "\\\\\\&&", s)
        return s
}

function close_example() {
        if (in_example)
                print ".EE\n.RE"
        in_example = 0
}

function option(line,   help) {
        help = substr(line, 33)
        if (substr(line, 32, 1) != " ") {
                # too long for its column: two blanks set the text off
                match(line, /[^ ]  +[^ ]/)
                help = substr(line, RSTART + RLENGTH - 1)
                line = substr(line, 1, RSTART)
        } else
                line = substr(line, 1, 32)
        sub(/^ +/, "", line)
        sub(/ +$/, "", line)
        return ".TP\n.B " roff(line) "\n" roff(help)
}

/^Usage: / {
        close_example()
        sub(/^Usage: /, "")
        print ".SS " roff($0)
        verb++
        common = 0
        next
}

/^Examples:$/ {
        print ".PP\nExamples:\n.RS\n.EX"
        in_example = 1
        common = 0
        next
}

/^[A-Z].*:$/ {
        close_example()
        common = /^(Server|Other):$/
        sub(/:$/, "")
        if (!common)
                print ".PP\n.I " roff($0)
        next
}

/^ +-/ && !in_example {
        if (!common)
                print option($0)
        else if (verb == 1)
                shared = shared option($0) "\n"
        next
}

/^$/ {
        close_example()
        blank = 1
        next
}

{
        if (blank && !in_example)
                print ".PP"
        blank = 0
        sub(/^  /, "")
        print roff($0)
}

END {
        close_example()
        printf ".SS Options of every verb\n%s", shared
}

# The shipped glovebox.conf as the KEYS part of its man page, so that a key is explained in one place. A comment belongs to the keys behind it; before a
# section or an empty line it is about the section.

function roff(s) {
        gsub(/\\/, "\\e", s)
        gsub(/-/, "\\-", s)
        sub(/^[.']/, "\\\\\\&&", s)
        return s
}

function end_group() {
        for (i = 1; i <= n_keys; i++)
                printf "%s\n.B %s\n", i == 1 ? ".TP" : ".TQ", roff(keys[i])
        if (n_keys > 0 && text != "")
                print text
        if (n_keys > 0) {
                n_keys = 0
                text = ""
        }
}

function paragraph() {
        end_group()
        if (text != "")
                print ".PP\n" text
        text = ""
}

/^#?\[[a-z]+( [^]]*)?\]/ {
        end_group()
        about = text
        text = ""
        sub(/^#/, "")
        print ".SS " roff($0)
        in_section = 1
        if (about != "")
                print about
        next
}

!in_section { next }

/^#[a-z][a-z-]* =/ {
        sub(/^#/, "")
        keys[++n_keys] = $0
        next
}

/^# / {
        if (n_keys > 0)
                end_group()
        sub(/^# +/, "")
        text = text (text == "" ? "" : "\n") roff($0)
        next
}

{ paragraph() }

END { paragraph() }

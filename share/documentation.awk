# Makes the manual pages and the shell completions from what `covsplit help` prints for each
# subcommand, so that they always agree with the help. Run by the build.
#
# Environment: COVSPLIT, the command; EMULATOR, what runs it when cross-compiling, else empty; EXAMPLES, a
# directory with the handwritten sections of the pages, as NAME.roff for NAME.1; OUTPUT, the directory for
# covsplit (for bash), _covsplit (zsh), covsplit.fish and man1/, which must exist.

BEGIN {
    date = "2026-11-21" # when the pages were last reviewed
    # The kind of value that options expect, by the names of their arguments; others expect no file.
    values["MODE"] = "any all"
    values["merge FORMAT"] = "profraw profdata"
    values["report FORMAT"] = values["test FORMAT"] = "lcov json summary cobertura text markdown"
    values["KIND"] = "missing empty unmapped earlier foreign mismatched"
    values["LIST"] = "covmap covfun names data covnames covdata zeros"
    wants["DIR"] = wants["STATE"] = "directory"
    wants["FILE"] = wants["OUT"] = wants["PROGRAM"] = wants["STRIPPED"] = wants["OTHER"] = "file"
    section_order = "|EXIT STATUS|ENVIRONMENT|FILES|NOTES|EXAMPLES|"
    output = ENVIRON["OUTPUT"]
    ask("--version")
    version = line[1]
    count = ask("help")
    for (i = 1; i <= count; i++)
        if (line[i] ~ /^  [a-z]/) {
            name[++names] = substr(line[i], 3, index(substr(line[i], 3), "  ") - 1)
            group[names] = name[names] ~ / / ? name[names] : ""
            sub(/ .*/, "", group[names])
        }
    for (c = 1; c <= names; c++) {
        read_help(c)
        write_page(c, "covsplit-" name[c])
    }
    write_overview()
    write_bash(output "/covsplit")
    write_zsh(output "/_covsplit")
    write_fish(output "/covsplit.fish")
}

# ---- what the command says ----

# Runs covsplit, puts the lines that it prints into line[], and returns their number.
function ask(words,    command, n) {
    command = "$EMULATOR \"$COVSPLIT\" " words
    while ((command | getline line[++n]) > 0)
        ;
    if (close(command) != 0 || n == 1)
        exit 1
    return n - 1
}

# Parses the help: the usage, which may have several lines; the summary; the description; a table of
# the options.
function read_help(c,    n, i, text, part) {
    n = ask("help " name[c])
    usage[c] = substr(line[1], length("Usage: covsplit " name[c] " ") + 1)
    for (i = 2; line[i] ~ /^ /; i++) {
        sub(/^ +/, " ", line[i])
        usage[c] = usage[c] line[i]
    }
    summary[c] = substr(line[i], 1, length(line[i]) - 1)
    for (i++; line[i] != "Options:"; i++)
        description[c] = description[c] line[i] "\n"
    for (i++; i <= n; i++) {
        o = ++options[c]
        letter[c, o] = substr(line[i], 3, 1) == "-" ? substr(line[i], 4, 1) : ""
        text = substr(line[i], 9)
        match(text, /  +/)
        split(substr(text, 1, RSTART - 1) " ", part, " ")
        long[c, o] = part[1]
        argument[c, o] = part[2]
        help[c, o] = substr(text, RSTART + RLENGTH)
        sub(/^print this text$/, "print a short description", help[c, o])
    }
}

# The words that can come first in a command line, or second after the name of a group.
function words_of(g,    i, list, seen) {
    for (i = 1; i <= names; i++)
        if (g != "" && group[i] == g)
            list = list substr(name[i], length(g) + 2) " "
        else if (g == "" && (group[i] == "" || !seen[group[i]]++))
            list = list (group[i] == "" ? name[i] : group[i]) " "
    return list
}

# The words that an option takes; none if it takes others.
function values_of(c, o,    a) {
    a = argument[c, o]
    return (name[c] " " a) in values ? values[name[c] " " a] : a in values ? values[a] : ""
}

function is_first_of_group(c) {
    return group[c] != "" && (c == 1 || group[c - 1] != group[c])
}

# ---- manual pages ----

# Escapes text for roff: dashes can be copied then, and no line is taken for a request.
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/\n[.']/, "\n\\\\\\&&", text)
    return text
}

function start_page(page, title) {
    printf ".TH %s 1 %s \"%s\" \"covsplit\"\n", toupper(page), date, version > file
    # Options that are hyphenated at the end of a line cannot be copied.
    printf ".nh\n.ad l\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B covsplit", roff(page), title > file
}

# Reads the handwritten sections into section[]; a page for a command has only those in section_order.
function read_sections(page,    text, from, name, got) {
    split("", section)
    from = ENVIRON["EXAMPLES"] "/" page ".roff"
    while ((got = (getline text < from)) > 0)
        if (text ~ /^\.SH /) {
            name = substr(text, 5)
            if (index(section_order, "|" name "|") == 0) {
                print from ": " name " is none of " section_order > "/dev/stderr"
                exit 1
            }
        } else
            section[name] = section[name] text "\n"
    close(from)
    if (got < 0)
        exit 1
}

# What all commands have in common comes after what is special to one.
function complete_sections(c,    o, has_sidecar, has_store) {
    if (section["EXIT STATUS"] == "")
        section["EXIT STATUS"] = ".TP\n.B 0\nDone; there may be warnings.\n.TP\n.B 1\n" \
            "Failed: one line on standard error says what failed and why. " \
            "Inputs and earlier outputs are unchanged.\n" \
            ".TP\n.B 2\nThe command line is wrong.\n"
    if (section["ENVIRONMENT"] ~ /COVSPLIT_STORE/ || name[c] == "store copy")
        section["ENVIRONMENT"] = section["ENVIRONMENT"] ".TP\n" \
            ".B COVSPLIT_CACHE\\fR, \\fPCOVSPLIT_HTTP_HEADERS\\fR and others\n" \
            "For stores at URLs: see\n.BR covsplit (1).\n"
    section["ENVIRONMENT"] = section["ENVIRONMENT"] ".TP\n.B NO_COLOR\n" \
        "If it is set and not empty, messages on a terminal have no colour, as if TERM is dumb.\n"
    for (o = 1; o <= options[c]; o++) {
        has_sidecar = has_sidecar || long[c, o] == "sidecar"
        has_store = has_store || long[c, o] == "store"
    }
    has_store = has_store || group[c] == "store"
    if (has_sidecar || !has_store)
        section["FILES"] = section["FILES"] ".TP\n.IB IMAGE .covsplit\n" \
            "The sidecar of IMAGE, beside it.\n"
    if (has_store)
        section["FILES"] = section["FILES"] ".TP\n.IB DIR /.build\\-id/ab/cdef... .covsplit\n" \
            "The sidecar of the image with the UUID abcdef... in the store\n.IR DIR .\n"
}

function append_examples(page,    text, from, got) {
    from = ENVIRON["EXAMPLES"] "/" page ".roff"
    while ((got = (getline text < from)) > 0)
        print text > file
    if (got < 0)
        exit 1
}

function write_page(c, page,    o, text, part, n, i) {
    gsub(/ /, "-", page)
    file = output "/man1/" page ".1"
    start_page(page, roff(summary[c]))
    printf " %s\n%s\n.SH DESCRIPTION\n%s.\n", roff(name[c]), roff(usage[c]), roff(summary[c]) > file
    text = roff(description[c])
    gsub(/\n\n/, "\n.PP\n", text)
    sub(/^\n/, ".PP\n", text)
    sub(/\.PP\n$/, "", text)
    printf "%s.SH OPTIONS\n", text == ".PP\n" ? "" : text > file
    for (o = 1; o <= options[c]; o++)
        printf ".TP\n\\fB%s\\-\\-%s\\fR%s\n%s.\n",
            letter[c, o] == "" ? "" : "\\-" letter[c, o] "\\fR, \\fB", roff(long[c, o]),
            argument[c, o] == "" ? "" : " \\fI" argument[c, o] "\\fR", roff(help[c, o]) > file
    read_sections(page)
    complete_sections(c)
    n = split(substr(section_order, 2), part, "|")
    for (i = 1; i < n; i++)
        if (section[part[i]] != "")
            printf ".SH %s\n%s", part[i], section[part[i]] > file
    print ".SH SEE ALSO\n.BR covsplit (1)" > file
}

function write_overview(    i, page) {
    file = output "/man1/covsplit.1"
    start_page("covsplit", "split coverage data off instrumented images, and put it back")
    print "\n.I COMMAND\n[OPTION...] ARGUMENT...\n.SH COMMANDS" > file
    for (i = 1; i <= names; i++) {
        page = "covsplit-" name[i]
        gsub(/ /, "-", page)
        printf ".TP\n.BR %s (1)\n%s.\n", roff(page), roff(summary[i]) > file
    }
    append_examples("covsplit")
}

# ---- completions ----

# Quoting for single quotes; in zsh, brackets and colons are special too.
function quoted(text) {
    gsub(/'/, "'\\''", text)
    return text
}

function for_zsh(text) {
    gsub(/[\[\]:\\]/, "\\\\&", text)
    return quoted(text)
}

function write_bash(file,    c, o, a) {
    print "# Completion of covsplit for bash. Made from its help.\n_covsplit()\n{\n" \
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n" \
        "    local command=${COMP_WORDS[1]-} options='' values='' kind='' first=1\n" \
        "    COMPREPLY=()\n" \
        "    case \" ${COMP_WORDS[*]:0:COMP_CWORD} \" in *' -- '*) return ;; esac\n" \
        "    if [ \"$current\" = = ]; then\n        current=''\n" \
        "    elif [ \"$previous\" = = ]; then\n        previous=${COMP_WORDS[COMP_CWORD - 2]}\n" \
        "    fi\n    case \"$command\" in" > file
    for (c = 1; c <= names; c++)
        if (is_first_of_group(c))
            printf "        %s) first=2; command=\"$command ${COMP_WORDS[2]-}\" " \
                "options='%s--help' ;;\n", group[c], words_of(group[c]) > file
    printf "        help) options='%s' ;;\n    esac\n" \
        "    [ \"$COMP_CWORD\" -eq 1 ] && options='%shelp --help --version'\n" \
        "    if [ \"$COMP_CWORD\" -le $first ] || [ \"$command\" = help ]; then\n" \
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n        return\n    fi\n" \
        "    case \"$command\" in\n", words_of(""), words_of("") > file
    for (c = 1; c <= names; c++) {
        printf "        '%s')\n            options='", name[c] > file
        for (o = 1; o <= options[c]; o++)
            printf "%s--%s ", letter[c, o] == "" ? "" : "-" letter[c, o] " ", long[c, o] > file
        print "'\n            case \"$previous\" in" > file
        for (o = 1; o <= options[c]; o++)
            if ((a = argument[c, o]) != "")
                printf "                %s--%s) %s ;;\n",
                    letter[c, o] == "" ? "" : "-" letter[c, o] " | ", long[c, o],
                    values_of(c, o) != "" ? "values='" values_of(c, o) "'" \
                    : "kind=" (a in wants ? wants[a] : "none") > file
        print "            esac\n            ;;" > file
    }
    print "    esac\n    if [ -n \"$values\" ]; then\n" \
        "        COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n" \
        "    elif [ \"$kind\" = directory ]; then\n" \
        "        compopt -o filenames 2>/dev/null\n" \
        "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n" \
        "    elif [ -z \"$kind\" ] && [ \"${current:0:1}\" = - ]; then\n" \
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n    fi\n}\n" \
        "complete -o bashdefault -o default -F _covsplit covsplit" > file
}

function write_zsh(file,    c, o, a) {
    printf "#compdef covsplit\n# Completion of covsplit for zsh. Made from its help.\n_covsplit()\n{\n" \
        "    local command=$words[2]\n    if (( CURRENT == 2 )); then\n" \
        "        local -a commands=(%shelp)\n        _describe command commands\n" \
        "        return\n    fi\n    shift words\n    (( CURRENT-- ))\n", words_of("") > file
    for (c = 1; c <= names; c++)
        if (is_first_of_group(c))
            printf "    if [[ $command == %s ]]; then\n        if (( CURRENT == 2 )); then\n" \
                "            local -a actions=(%s)\n            _describe action actions\n" \
                "            return\n        fi\n        command+=\" $words[2]\"\n" \
                "        shift words\n        (( CURRENT-- ))\n    fi\n",
                group[c], words_of(group[c]) > file
    print "    case $command in" > file
    for (c = 1; c <= names; c++) {
        printf "        '%s')\n            _arguments -s", name[c] > file
        for (o = 1; o <= options[c]; o++) {
            printf " \\\n                '%s[%s]", letter[c, o] == "" ? "--" long[c, o] \
                : "(-" letter[c, o] " --" long[c, o] ")'{-" letter[c, o] ",--" long[c, o] "}'",
                for_zsh(help[c, o]) > file
            if ((a = argument[c, o]) != "")
                printf ":%s:%s", a, values_of(c, o) != "" ? "(" values_of(c, o) ")" \
                    : wants[a] == "file" ? "_files" : wants[a] == "directory" ? "_directories" : "" > file
            printf "'" > file
        }
        printf " \\\n                '*: :%s'\n            ;;\n",
            usage[c] ~ /-- COMMAND/ ? "_normal" : "_files" > file
    }
    print "    esac\n}\n_covsplit \"$@\"" > file
}

function write_fish(file,    c, d, o, a, start, seen) {
    start = "complete -c covsplit -n "
    seen = "__fish_seen_subcommand_from "
    print "# Completion of covsplit for fish. Made from its help.\n" start \
        "__fish_use_subcommand -x -a help -d 'describe a command'" > file
    for (c = 1; c <= names; c++) {
        when = seen name[c]
        if (group[c] != "")
            sub(/ [^ ]*$/, "; and " seen substr(name[c], length(group[c]) + 2), when)
        for (d = 1; d <= names; d++) # "pack" is not "store pack"
            if (name[d] == group[d] " " name[c])
                when = when "; and not " seen group[d]
        if (is_first_of_group(c))
            print start "__fish_use_subcommand -x -a " group[c] > file
        printf "%s%s -x -a %s -d '%s'\n", start, group[c] == "" ? "__fish_use_subcommand" \
            : "'" seen group[c] "; and not " seen words_of(group[c]) "'",
            substr(name[c], group[c] == "" ? 1 : length(group[c]) + 2), quoted(summary[c]) > file
        for (o = 1; o <= options[c]; o++) {
            a = argument[c, o]
            printf "%s'%s' -l %s%s%s -d '%s'\n", start, when, long[c, o],
                letter[c, o] == "" ? "" : " -s " letter[c, o],
                a == "" ? "" : values_of(c, o) != "" ? " -x -a '" values_of(c, o) "'" \
                : wants[a] == "file" ? " -r" \
                : wants[a] == "directory" ? " -x -a '(__fish_complete_directories)'" : " -x",
                quoted(help[c, o]) > file
        }
    }
}

# Completion of sakiyomi for bash. The program itself says what may stand at a word, bash completes paths and commands.

_sakiyomi() {
    # Bash splits words at = and :, which are part of ours: join what is not separated by blanks, up to the cursor.
    local rest=${COMP_LINE:0:COMP_POINT} words=() index=-1 i blanks word
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blanks=${rest%%[![:blank:]]*}
        rest=${rest#"$blanks"}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$rest
        rest=${rest#"$word"}
        if ((i > 0)) && [[ -z $blanks ]]; then
            words[index]+=$word
        else
            words[++index]=$word
        fi
    done
    local current=${words[index]} quote=
    # Paths may be quoted; what the program knows never needs it.
    [[ $current == [\"\']* ]] && quote=${current:0:1}
    for i in "${!words[@]}"; do
        word=${words[i]#[\"\']}
        words[i]=${word//\\/}
    done

    # Readline replaces what follows the last of these.
    local breaks= behind=
    [[ -z $quote && $COMP_WORDBREAKS == *=* ]] && breaks+==
    [[ -z $quote && $COMP_WORDBREAKS == *:* ]] && breaks+=:
    [[ -n $breaks && $current == *[$breaks]* ]] && behind=${current%"${current##*[$breaks]}"}

    local also= value
    COMPREPLY=()
    {
        IFS= read -r also
        while IFS=$'\t' read -r value _; do
            COMPREPLY+=("${value#"$behind"}")
        done
    } < <("${words[0]/#\~/$HOME}" __complete "$index" "${words[@]}" 2>/dev/null)

    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=:,] ]]; then
        compopt -o nospace
    fi
    case $also in
        files)
            if ((${#COMPREPLY[@]} > 0)); then
                local named=${#COMPREPLY[@]}
                while IFS= read -r value; do
                    COMPREPLY+=("$value")
                done < <(compgen -f -- "${current#"$behind"}")
                # Quotes what is inserted, as paths need it.
                ((${#COMPREPLY[@]} == named)) || compopt -o filenames
            else
                compopt -o default
            fi
            ;;
        directories) compopt -o dirnames ;;
        commands)
            while IFS= read -r value; do
                COMPREPLY+=("$value")
            done < <(compgen -c -- "$current")
            compopt -o default
            ;;
    esac
}

complete -F _sakiyomi sakiyomi

#compdef sakiyomi
# Completion of sakiyomi for zsh. The program itself says what may stand at a word, zsh completes paths and commands.

_sakiyomi() {
    local -a given lines open closed
    local program line value also
    integer ret=1
    given=("${(@Q)words}")
    given[CURRENT]=${(Q)PREFIX}
    program=$given[1]
    [[ $program == '~'* ]] && program=${~program}
    lines=("${(@f)$("$program" __complete $((CURRENT - 1)) "${(@)given}" 2>/dev/null)}")
    also=$lines[1]
    for line in "${(@)lines[2,-1]}"; do
        value=${${line%%$'\t'*}//:/\\:}
        # What follows these belongs to the same word.
        if [[ $value == *[=:,] ]]; then
            open+=("$value:${line#*$'\t'}")
        else
            closed+=("$value:${line#*$'\t'}")
        fi
    done
    (( $#open )) && _describe -t values value open -S '' && ret=0
    (( $#closed )) && _describe -t values value closed && ret=0
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    case $also in
        files) _files && ret=0 ;;
        directories) _files -/ && ret=0 ;;
        commands) _command_names -e && ret=0 ;;
    esac
    return ret
}

# Loaded as a function of $fpath, or sourced.
if [[ $funcstack[1] == _sakiyomi ]]; then
    _sakiyomi "$@"
else
    compdef _sakiyomi sakiyomi
fi

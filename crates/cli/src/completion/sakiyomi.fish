# Completion of sakiyomi for fish. The program itself says what may stand at a word, fish completes paths and commands.

function __sakiyomi_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l typed (commandline --current-token --cut-at-cursor)
    # Without backslashes and quotes, unless one is still open.
    set -l current (string unescape -- $typed; or echo $typed)
    set -l program (string replace --regex '^~' $HOME -- $words[1])
    set -l lines ($program __complete (count $words) $words "$current" 2>/dev/null)
    test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
    # A path may follow an option's name and =.
    set -l option (string match --regex -- '^--[^=]*=' $current)
    set -l path (string replace -- "$option" '' $current)
    switch "$lines[1]"
        case files
            __fish_complete_path $path | string replace --regex '^' -- "$option"
        case directories
            __fish_complete_directories $path '' | string replace --regex '^' -- "$option"
        case commands
            __fish_complete_command
    end
end

complete --command sakiyomi --no-files --keep-order --arguments '(__sakiyomi_complete)'

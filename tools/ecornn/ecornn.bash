# bash completion for ecornn(1).
_ecornn()
{
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-} before=
    local lists='--shapes --recorded --random --seed' common='--device --cell --seconds --json --help'
    [ "$COMP_CWORD" -lt 1 ] || before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'info plan bench tune wisdom cell check help --help --version' -- "$word"))
        return
    fi
    case $before in
    --device)
        COMPREPLY=($(compgen -W 'cpu cuda reference' -- "$word"))
        return ;;
    --cell)
        COMPREPLY=($(compgen -f -W "$("${COMP_WORDS[0]}" cell --list 2> /dev/null | sed 's/ .*//')" -- "$word"))
        return ;;
    --shapes | --recorded | --csv | -o)
        COMPREPLY=($(compgen -f -- "$word"))
        return ;;
    --versus)
        COMPREPLY=($(compgen -W 'ort torch' -- "$word"))
        return ;;
    --seconds | --threads | --random | --seed | --again)
        return ;;
    esac
    case $command:$word in
    plan:-*) COMPREPLY=($(compgen -W "$common $lists --measure --time" -- "$word")) ;;
    bench:-*) COMPREPLY=($(compgen -W "$common $lists --csv --threads --versus" -- "$word")) ;;
    tune:-*) COMPREPLY=($(compgen -W "$common $lists --regret --again --csv -o" -- "$word")) ;;
    help:*) COMPREPLY=($(compgen -W 'info plan bench tune wisdom cell check' -- "$word")) ;;
    wisdom:-*) COMPREPLY=($(compgen -W '--json --help' -- "$word")) ;;
    check:-*) COMPREPLY=($(compgen -W '--device --json --help' -- "$word")) ;;
    cell:-*) COMPREPLY=($(compgen -W '--list --json --help' -- "$word")) ;;
    info:-*) COMPREPLY=($(compgen -W '--json --help' -- "$word")) ;;
    wisdom:*)
        if [ "$COMP_CWORD" -eq 2 ]; then
            COMPREPLY=($(compgen -W 'list check' -- "$word"))
        else
            COMPREPLY=($(compgen -f -- "$word"))
        fi ;;
    cell:*) COMPREPLY=($(compgen -f -W "$("${COMP_WORDS[0]}" cell --list 2> /dev/null | sed 's/ .*//')" -- "$word")) ;;
    esac
}
complete -F _ecornn ecornn

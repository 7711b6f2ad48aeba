source "${SCENE%/*}/../words.sh"

# alone: go where "stripped" is without a sidecar beside it.
alone() {
    mkdir here
    cp stripped light.profraw here
    cd here
}

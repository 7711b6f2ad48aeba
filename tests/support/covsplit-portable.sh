#!/bin/sh
# The covsplit command under test, but that all sidecars are made with --portable: for $COVSPLIT.
#
# COVSPLIT_PORTABLE: the command itself.
case ${1-} in
split | link)
    subcommand=$1
    shift
    exec "$COVSPLIT_PORTABLE" "$subcommand" --portable "$@"
    ;;
esac
exec "$COVSPLIT_PORTABLE" "$@"

source "${SCENE%/*}/build.sh"
build 19

# A program and its shared library.
source "${preparation%/*}/application.sh"
run_application kind=shared functions=100

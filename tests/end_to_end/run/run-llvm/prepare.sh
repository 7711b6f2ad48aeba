# A program and its shared library.
source "${preparation%/*}/application.sh"
application kind=shared functions=100

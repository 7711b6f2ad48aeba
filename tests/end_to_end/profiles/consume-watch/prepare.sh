source "${preparation%/*/*}/consume/prepare.sh"

source "${preparation%/*/*}/leveldb.sh"
prepare db_bench libleveldb.so
profile_leveldb

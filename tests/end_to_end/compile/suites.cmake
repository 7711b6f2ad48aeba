# Objects and archives without the mapping's weight.
add_suites(pack archives bad_archives)
add_run(pack pack)
add_run(archives archives)
add_run(bad-archives bad_archives 1 2000)

# Objects and archives without the mapping's weight.
add_suites(archives)
add_run(archives archives)

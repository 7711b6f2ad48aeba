# Sidecars: their format, stores of them, and what is exported of them.
add_suites(sidecar_format finding store store_writers export debuginfod)
add_run(sidecar-format sidecar_format)
add_run(finding finding)
add_run(store store)
add_run(store-writers store_writers)
add_run(export export)
add_run(debuginfod debuginfod)

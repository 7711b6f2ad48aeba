# Sidecars: their format, stores of them, and what is exported of them.
add_suites(sidecar_format store store_writers store_copy repack export debuginfod)
add_run(sidecar-format sidecar_format)
add_run(store store)
add_run(store-writers store_writers)
add_run(store-copy store_copy)
add_run(repack repack)
add_run(export export)
add_run(debuginfod debuginfod)

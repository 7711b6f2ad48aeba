# refuse_memory(PROGRAM): for refused_memory.h.
function(refuse_memory program)
  target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/refused_memory.c)
  foreach(function malloc calloc realloc strdup tsearch
                   buffer_reserve buffer_append buffer_append_zeros buffer_append_uleb128
                   array_make_room intern_table_add intern_table_put digest_set_add
                   ZSTD_createCCtx ZSTD_createDCtx ZSTD_CCtx_setParameter ZSTD_DCtx_setParameter
                   ZSTD_compressStream2 ZSTD_compress2 ZSTD_decompressStream)
    target_link_options(${program} PRIVATE -Wl,--wrap=${function})
  endforeach()
endfunction()

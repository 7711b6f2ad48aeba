/*
 * Names of formats and UUID sources: see facts.h.
 */
#include "common/sidecar/facts.h"

const char *image_format_name(enum image_format format)
{
    switch (format) {
    case IMAGE_ELF:
        return "ELF";
    case IMAGE_MACHO:
        return "Mach-O";
    case IMAGE_COFF:
        return "COFF";
    }
    return "unknown";
}

const char *uuid_source_name(enum uuid_source source)
{
    switch (source) {
    case UUID_FROM_BUILD_ID:
        return "build ID";
    case UUID_FROM_OPTION:
        return "--uuid";
    case UUID_FROM_DIGEST:
        return "digest of the image";
    }
    return "unknown";
}

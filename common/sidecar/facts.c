/*
 * Names of formats and UUID sources: see facts.h.
 */
#include "common/sidecar/facts.h"

#include <string.h>

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

void facts_make_stub_id(uint8_t stub_id[PROFILE_STUB_ID_SIZE], const struct uuid *uuid,
                        const struct digest sections[STUB_KIND_COUNT])
{
    struct digest all =
        digest_of((struct bytes){(const uint8_t *)sections, STUB_KIND_COUNT * sizeof(*sections)});

    uuid_stub(uuid, stub_id);
    memcpy(stub_id + UUID_STUB_SIZE, all.bytes, PROFILE_STUB_ID_SIZE - UUID_STUB_SIZE);
}

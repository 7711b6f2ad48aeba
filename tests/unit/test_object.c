/*
 * Objects, read by libelf and not by the code under test: they hold what the sidecar has, in the
 * form that LLVM's tools and debuginfod want, and nothing else.
 */
#include <gelf.h>
#include <string.h>

#include "common/sidecar/exported.h"
#include "tests/support/suite.h"
#include "tests/unit/name_chunk.h"
#include "tests/unit/sidecar_sample.h"

/* The places of sections in the sample. */
enum {
    COVMAP,
    COVFUN,
    NAMES,
    DATA,
};

/* ---- making ---- */

static const char distinct[] = "main\1shared\1first\1second";

/* Names as two translation units give them. */
static struct buffer sample_names(void)
{
    struct buffer section = {0};

    name_chunk_put(&section, "main\1shared\1first", true);
    ck_assert(buffer_append_zeros(&section, 5));
    name_chunk_put(&section, "shared\1second\1main", false);
    return section;
}

static void set_content(struct section *section, enum section_kind kind, struct bytes content)
{
    section->kind = kind;
    section->content = content;
    section->size = content.size;
}

/* The object of a sidecar that is made of the source. */
static struct buffer make_object(const struct sidecar_source *source)
{
    struct buffer file = sample_write(source, 9, 1), object = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    struct error error = {0};

    ck_assert_msg(export_write(sidecar, sample_collect, &object, &error), "%s", error.message);
    buffer_free(&file);
    return object;
}

/* ---- reading ---- */

/* NULL where there is none. */
static Elf_Scn *find(Elf *elf, const char *name, GElf_Shdr *header)
{
    size_t names;
    Elf_Scn *section = NULL;

    ck_assert_int_eq(elf_getshdrstrndx(elf, &names), 0);
    while ((section = elf_nextscn(elf, section)) != NULL) {
        ck_assert_ptr_nonnull(gelf_getshdr(section, header));
        if (strcmp(elf_strptr(elf, names, header->sh_name), name) == 0)
            return section;
    }
    return NULL;
}

static void check_content(Elf *elf, const char *name, struct bytes expected)
{
    GElf_Shdr header;
    Elf_Scn *section = find(elf, name, &header);
    Elf_Data *data;

    ck_assert_msg(section != NULL, "no section %s", name);
    ck_assert_uint_eq(header.sh_type, SHT_PROGBITS);
    ck_assert_uint_eq(header.sh_flags & (SHF_ALLOC | SHF_COMPRESSED), 0);
    data = elf_rawdata(section, NULL);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(data->d_size, expected.size);
    ck_assert_mem_eq(data->d_buf, expected.data, expected.size);
}

static void check_names(Elf *elf, const char *name)
{
    FREED_BY(buffer_free) struct buffer expected = {0};

    name_chunk_put(&expected, distinct, false);
    check_content(elf, name, buffer_view(&expected));
}

static void check_place(Elf *elf, const char *name, const struct section *made)
{
    GElf_Shdr header;

    ck_assert_ptr_nonnull(find(elf, name, &header));
    ck_assert_uint_eq(header.sh_type, SHT_NOBITS);
    ck_assert_uint_eq(header.sh_addr, made->address);
    ck_assert_uint_eq(header.sh_size, made->size);
    ck_assert_uint_eq(header.sh_addralign, made->alignment);
}

static void check_build_id(Elf_Data *notes, const struct uuid *uuid)
{
    size_t name, description;
    GElf_Nhdr header;

    ck_assert_ptr_nonnull(notes);
    ck_assert_uint_ne(gelf_getnote(notes, 0, &header, &name, &description), 0);
    ck_assert_uint_eq(header.n_type, NT_GNU_BUILD_ID);
    ck_assert_uint_eq(header.n_descsz, uuid->size);
    ck_assert_mem_eq((const char *)notes->d_buf + description, uuid->bytes, uuid->size);
}

/* By section and by segment, as tools look for it. */
static void check_identity(Elf *elf, const struct sidecar_facts *facts)
{
    GElf_Ehdr header;
    GElf_Phdr segment;
    GElf_Shdr section;

    ck_assert_ptr_nonnull(gelf_getehdr(elf, &header));
    ck_assert_uint_eq(header.e_ident[EI_CLASS], facts->elf_class);
    ck_assert_uint_eq(header.e_ident[EI_DATA], facts->elf_data);
    ck_assert_uint_eq(header.e_type, facts->elf_type);
    ck_assert_uint_eq(header.e_machine, facts->machine);
    check_build_id(elf_getdata(find(elf, ".note.gnu.build-id", &section), NULL), &facts->uuid);
    ck_assert_ptr_nonnull(gelf_getphdr(elf, 0, &segment));
    ck_assert_uint_eq(segment.p_type, PT_NOTE);
    check_build_id(
        elf_getdata_rawchunk(elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_NHDR),
        &facts->uuid);
}

/* What makes debuginfod serve it as debug information, and as nothing else. */
static void check_debug_information(Elf *elf)
{
    GElf_Shdr header;
    Elf_Scn *section = find(elf, ".debug_str", &header);
    Elf_Data *text;

    ck_assert_ptr_nonnull(section);
    text = elf_rawdata(section, NULL);
    ck_assert_uint_ge(text->d_size, 1);
    ck_assert_int_eq(((const char *)text->d_buf)[text->d_size - 1], '\0');
    section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        ck_assert_ptr_nonnull(gelf_getshdr(section, &header));
        ck_assert((header.sh_flags & SHF_ALLOC) == 0 || header.sh_type == SHT_NOBITS);
    }
}

/* ---- the tests ---- */

START_TEST(test_coverage)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[_i]);
    FREED_BY(buffer_free) struct buffer names = sample_names(), object;
    struct export_facts facts;
    struct error error = {0};
    GElf_Shdr header;
    Elf *elf;

    set_content(&sample->sections[NAMES], SECTION_NAMES, buffer_view(&names));
    object = make_object(&sample->source);
    elf = elf_memory((char *)object.data, object.size);
    ck_assert_ptr_nonnull(elf);
    check_identity(elf, &sample->source.facts);
    check_content(elf, "__llvm_covmap", sample->sections[COVMAP].content);
    check_content(elf, "__llvm_covfun", sample->sections[COVFUN].content);
    check_names(elf, "__llvm_prf_names");
    check_place(elf, "__llvm_prf_cnts", &sample->sections[4]);
    check_place(elf, "__llvm_prf_bits", &sample->sections[5]);
    ck_assert_ptr_nonnull(find(elf, "__llvm_covfun", &header));
    ck_assert_uint_eq(header.sh_offset % 8, 0);
    ck_assert_ptr_null(find(elf, "__llvm_prf_data", &header));
    check_debug_information(elf);
    elf_end(elf);

    ck_assert(export_recognize(buffer_view(&object)));
    ck_assert(!sidecar_recognize(buffer_view(&object)));
    ck_assert_msg(export_read(buffer_view(&object), "object", &facts, &error), "%s", error.message);
    ck_assert_str_eq(facts.image_name, sample->source.image_name);
    ck_assert(digest_equal(&facts.image.original_digest, &sample->source.facts.original_digest));
    ck_assert(uuid_equal(&facts.image.uuid, &sample->source.facts.uuid));
    ck_assert_uint_eq(facts.image.machine, sample->source.facts.machine);
    ck_assert_uint_eq(facts.section_count, 5);
}
END_TEST

static bool must_not_be_called(void *context, struct bytes part, struct error *error)
{
    (void)context;
    (void)part;
    (void)error;
    ck_abort_msg("the sink was called");
}

static void check_refused(const struct sidecar_source *source, const char *reason)
{
    FREED_BY(buffer_free) struct buffer file = sample_write(source, 9, 1);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    struct error error = {0};

    ck_assert(!export_write(sidecar, must_not_be_called, NULL, &error));
    ck_assert_msg(strstr(error.message, reason) != NULL, "%s", error.message);
}

START_TEST(test_refusals)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer names = sample_names();
    struct section *sections = sample->sections;
    size_t count = sample->source.section_count;

    set_content(&sections[NAMES], SECTION_NAMES, (struct bytes){(const uint8_t *)"\x7f", 1});
    check_refused(&sample->source, "names cannot be read");
    set_content(&sections[NAMES], SECTION_NAMES, buffer_view(&names));
    sample->source.facts.is_placeholder = true;
    check_refused(&sample->source, "placeholder");
    sample->source.facts.is_placeholder = false;
    sample->source.section_count = NAMES;
    check_refused(&sample->source, "only a part");
    sample->source.section_count = count;
    sections[COVFUN].kind = SECTION_COVDATA;
    check_refused(&sample->source, "only a part");
    sections[COVMAP].kind = SECTION_COVNAMES;
    sections[4].kind = SECTION_COVFUN;
    set_content(&sections[4], SECTION_COVFUN, buffer_view(&names));
    check_refused(&sample->source, "only a part");
    sample->source.section_count = 0;
    check_refused(&sample->source, "no coverage mapping");
}
END_TEST

/* ---- whether an image has coverage mapping ---- */

static enum sidecar_mapping mapping_of(const struct sidecar_source *source)
{
    FREED_BY(buffer_free) struct buffer file = sample_write(source, 9, 1);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    enum sidecar_mapping mapping = sidecar_mapping(sidecar);

    return mapping;
}

/* What is not in a sidecar was not in its image, unless a note tells that it was. */
START_TEST(test_mapping)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    struct section kept = {.kind = SECTION_COVFUN, .size = 5, .reason = ""};
    struct sidecar_source source = sample->source, none;

    source.facts.has_stub = false;
    source.kept = &kept;
    source.kept_count = 0;
    ck_assert_int_eq(mapping_of(&source), MAPPING_IS_THERE);
    source.kept_count = 1; /* the section is there all the same, so that it is not noted */
    ck_assert_int_eq(mapping_of(&source), MAPPING_IS_THERE);
    source.section_count = NAMES;
    ck_assert_int_eq(mapping_of(&source), MAPPING_IS_APART);

    none = source;
    none.sections = &sample->sections[NAMES];
    none.section_count = SAMPLE_SECTIONS - NAMES;
    ck_assert_int_eq(mapping_of(&none), MAPPING_IS_APART);
    none.kept_count = 0;
    ck_assert_int_eq(mapping_of(&none), MAPPING_IS_ABSENT);
    none.facts.is_placeholder = true;
    ck_assert_int_eq(mapping_of(&none), MAPPING_IS_APART);
}
END_TEST

static bool stop_at_once(void *context, struct bytes part, struct error *error)
{
    (void)context;
    (void)part;
    return error_set(error, "stopped");
}

START_TEST(test_a_sink_that_stops)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer names = sample_names(), file;
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;

    set_content(&sample->sections[NAMES], SECTION_NAMES, buffer_view(&names));
    file = sample_write(&sample->source, 9, 1);
    sidecar = sample_open(&file);
    ck_assert(!export_write(sidecar, stop_at_once, NULL, &error));
    ck_assert_str_eq(error.message, "stopped");
}
END_TEST

/* Contents that turn out to be damaged while they are written. */
START_TEST(test_damaged_content)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer names = sample_names(), file, object = {0};
    uint64_t section_headers, covfun;
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;

    set_content(&sample->sections[NAMES], SECTION_NAMES, buffer_view(&names));
    file = sample_write(&sample->source, 9, 1);
    section_headers = load_u64(file.data + 40, false);
    covfun = section_headers + 3 * sizeof(Elf64_Shdr);
    /* The end of its frame: what the seal does not cover. */
    file.data[load_u64(file.data + covfun + 24, false) + load_u64(file.data + covfun + 32, false) -
              1] ^= 0xff;
    sidecar = sample_open(&file);
    ck_assert(!export_write(sidecar, sample_collect, &object, &error));
    ck_assert_msg(strstr(error.message, "__llvm_covfun") != NULL, "%s", error.message);
}
END_TEST

int main(void)
{
    elf_version(EV_CURRENT);
    TCase *all = suite_case("all", 300, NULL);
    suite_loops(all, SAMPLE_SHAPES, test_coverage);
    suite_tests(all, test_refusals, test_mapping, test_a_sink_that_stops, test_damaged_content);
    return suite_main("object", all);
}

/*
 * Damaged ELF objects, packed: whatever is wrong with them, covsplit ends by itself, soon and in
 * little memory; and an object that it packed is the damaged one without coverage mapping, as a
 * second reader (object_reader.py) sees both.
 *
 * Usage: bad_objects FIRST COUNT      seeds of the mutations
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/program.h"

#define READER               COVSPLIT_FIXTURE_DIRECTORY "/../support/object_reader.py"
#define TEST_TIMEOUT_SECONDS 1500
#define PARTS_MAX            400
#define PAIRS_AT_ONCE        100

/* Objects of other forms: what they have of each kind is in the tables of parts. */
static const struct form {
    const char *clang;
    const char *machine; /* NULL: this one */
    const char *options;
} forms[] = {
    {"22", NULL, "-g -ffunction-sections -faddrsig"},
    {"19", "mips64el", "-g"},
    {"14", "arm", "-ffunction-sections"},
    {"19", "s390x", "-g"},
    {"14", NULL, ""},
};

#define FORMS (sizeof forms / sizeof *forms)

static char *scratch;

static struct elf_file objects[FORMS];
static struct mutated_part parts[FORMS][PARTS_MAX];
static size_t part_counts[FORMS];

/* The parts that a reader believes: headers, and all sections but code, data and debug data. */
static void list_parts(size_t form)
{
    const struct elf_file *elf = &objects[form];
    struct mutated_part *list = parts[form];
    size_t count = 0;
    uint64_t header_size = elf->is_32_bit ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
    list[count++] = (struct mutated_part){0, 64};
    for (size_t i = 0; i < elf->header->e_shnum && count + 3 < PARTS_MAX; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        list[count++] = (struct mutated_part){elf->header->e_shoff + i * header_size, header_size};
        if (section->sh_type != SHT_PROGBITS && section->sh_type != SHT_NOBITS &&
            section->sh_size != 0) {
            list[count++] = (struct mutated_part){section->sh_offset, section->sh_size};
        }
    }
    const char *const mapping[] = {"__llvm_covmap", "__llvm_covfun"};
    for (size_t i = 0; i < 2; i++) {
        const Elf64_Shdr *section = elf_file_section(elf, mapping[i]);
        ck_assert_ptr_nonnull(section);
        list[count++] = (struct mutated_part){section->sh_offset, section->sh_size};
    }
    part_counts[form] = count;
}

static void prepare(void)
{
    scratch = scratch_create("bad-objects");
    many_units_write(scratch);
    for (size_t i = 0; i < FORMS; i++) {
        char *name = text_format("form%zu.o", i);
        struct command command =
            command_words(scratch, "clang++-%s " INSTRUMENT_COVERAGE " -O1 %s -c unit0.cc -o %s",
                          forms[i].clang, forms[i].options, name);
        if (forms[i].machine != NULL) {
            target_add_compile_words(target_find(forms[i].machine), &command.arguments);
        }
        command_run_or_abort(&command);
        objects[i] = elf_file_read(path_join(scratch, name));
        list_parts(i);
    }
}

/* Compares all pairs of objects in the directory with the second reader. */
static void compare_pairs(const char *directory, struct text_list *pairs)
{
    if (pairs->count != 0) {
        struct command command = command_words(directory, "python3 %s compare", READER);
        text_list_add_all(&command.arguments, (const char *const *)pairs->items);
        struct outcome outcome = command_run(&command);
        ck_assert_msg(outcome.exit_code == 0, "%s%s", outcome.output, outcome.errors);
        outcome_free(&outcome);
        command_free(&command);
    }
    for (size_t i = 0; i < pairs->count; i++) {
        unlink(path_join(directory, pairs->items[i]));
    }
    text_list_free(pairs);
    *pairs = (struct text_list){0};
}

START_TEST(test_damaged_object)
{
    char *directory = path_join(scratch, text_format("seeds%d", _i));
    struct text_list pairs = {0};
    unsigned kept = 0;
    unsigned packed = 0;
    directory_create(directory);
    for (unsigned long seed = hostile_first(_i); seed < hostile_end(_i); seed++) {
        size_t form = seed % FORMS;
        struct verdict verdict = {0};
        hostile_fork_most(seed);
        char *description = NULL;
        int exit_code = -1;
        struct contents damaged =
            mutate_parts(&objects[form].file, parts[form], part_counts[form], seed, &description);
        char *before = text_format("%lu-form%zu.o", seed, form);
        char *after = text_format("%lu-packed.o", seed);
        file_write(path_join(directory, before), damaged.data, damaged.size);
        hostile_run(directory, text_format("pack -j1 -o %s %s", after, before), &exit_code,
                    &verdict);
        hostile_holds(directory, before, &damaged, &verdict);
        verdict_assert(&verdict, description);
        bool is_same =
            exit_code != 0 || (file_size(path_join(directory, after)) == damaged.size &&
                               hostile_holds(directory, after, &damaged, &(struct verdict){0}));
        if (is_same) {
            unlink(path_join(directory, before));
            unlink(path_join(directory, after));
            kept++;
        } else {
            text_list_add(&pairs, before);
            text_list_add(&pairs, after);
            packed++;
        }
        if (pairs.count >= 2 * PAIRS_AT_ONCE) {
            compare_pairs(directory, &pairs);
        }
        contents_free(&damaged);
        free(description);
    }
    compare_pairs(directory, &pairs);
    hostile_assert_mixed(packed, kept);
}
END_TEST

/* Packs the object without options, as it is now, and expects that it stays, with this warning. */
static void assert_kept(const struct elf_file *elf, const char *reason)
{
    file_write(path_join(scratch, "kept.o"), elf->file.data, elf->file.size);
    struct outcome outcome = covsplit_run_words(scratch, 0, "pack kept.o");
    ck_assert_str_eq(outcome.errors,
                     text_format("covsplit: warning: kept.o: %s; compile it again\n", reason));
}

/* The first section of this type that is larger than that. */
static const Elf64_Shdr *find_larger(const struct elf_file *elf, uint32_t type, uint64_t size)
{
    size_t i = 0;
    while (i < elf->header->e_shnum &&
           (elf->sections[i].sh_type != type || elf->sections[i].sh_size <= size)) {
        i++;
    }
    ck_assert_uint_lt(i, elf->header->e_shnum);
    return &elf->sections[i];
}

/* The first symbol is none, so that it is in no section: not in one that exists, that goes, or that
 * does not exist. */
START_TEST(test_first_symbol)
{
    const struct elf_file *elf = &objects[FORMS - 1];
    const Elf64_Shdr *covfun = elf_file_section(elf, "__llvm_covfun");
    const uint16_t sections[] = {1, (uint16_t)(covfun - elf->sections), SHN_LORESERVE - 1};
    memcpy(elf->file.data + find_larger(elf, SHT_SYMTAB, 0)->sh_offset +
               offsetof(Elf64_Sym, st_shndx),
           &sections[_i], sizeof sections[_i]);
    assert_kept(elf, "its symbol table is damaged");
}
END_TEST

/* A group that stays cannot have a group that goes as a member, also if that comes later. */
START_TEST(test_group_of_group)
{
    struct command command =
        command_words(scratch, "clang++-14 " INSTRUMENT_COVERAGE " -O0 -c unit0.cc -o group.o");
    command_run_or_abort(&command);
    const struct elf_file made = elf_file_read(path_join(scratch, "group.o")), *elf = &made;
    /* The group of a record has one member, that of a function has relocations, too. */
    const Elf64_Shdr *group = find_larger(elf, SHT_GROUP, 2 * sizeof(Elf32_Word));
    uint32_t last = 0;
    for (uint32_t i = (uint32_t)(group - elf->sections); i < elf->header->e_shnum; i++) {
        uint64_t members = elf->sections[i].sh_offset + sizeof(Elf32_Word);
        if (elf->sections[i].sh_type == SHT_GROUP &&
            (elf->sections[elf_file_number(elf, members, sizeof(Elf32_Word))].sh_flags &
             SHF_ALLOC) == 0) { /* of a record, which is not loaded */
            last = i;
        }
    }
    ck_assert_uint_ne(last, 0);
    memcpy(elf->file.data + group->sh_offset + sizeof(Elf32_Word), &last, sizeof last);
    assert_kept(elf, "a group of sections is damaged");
}
END_TEST

/* What a later version of ELF says is not known: the object is like a file of another format. */
START_TEST(test_unknown_version)
{
    const struct elf_file *elf = &objects[0];
    uint8_t *version = elf->file.data + EI_VERSION;
    *version = EV_CURRENT + 1;
    file_write(path_join(scratch, "later.o"), elf->file.data, elf->file.size);
    struct outcome outcome = covsplit_run_words(scratch, 0, "pack later.o");
    ck_assert_str_eq(outcome.errors, "");
    ck_assert(hostile_holds(scratch, "later.o", &elf->file, &(struct verdict){0}));
    *version = EV_CURRENT;
}
END_TEST

int main(int count, char **words)
{
    const char *first, *seeds;
    suite_arguments(count, words, "FIRST COUNT", &first, &seeds);
    hostile_in_memory();
    hostile_seeds(first, seeds);
    TCase *mutations = suite_case("objects", TEST_TIMEOUT_SECONDS, prepare);
    suite_loops(mutations, hostile_tests(), test_damaged_object);
    suite_loops(mutations, 3, test_first_symbol);
    suite_tests(mutations, test_group_of_group, test_unknown_version);
    return suite_main("bad objects", mutations);
}

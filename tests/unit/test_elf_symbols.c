/*
 * The symbol table of an ELF image: the runtime's symbols are found at both ends of a large one, in
 * little memory, and a table that cannot be read is an error.
 */
#include <elf.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "formats/elf/elf.h"
#include "tests/support/suite.h"

#define SYMBOLS      UINT64_C(300000)
#define STRINGS_SIZE (UINT64_C(48) << 20)
#define ADDRESS      UINT64_C(0x400000)

static const char section_names[] = "\0.text";
static const char first_name[] = "\0__llvm_profile_begin_data",
                  last_name[] = "__llvm_profile_end_data";

enum { TEXT = 1, SYMBOL_TABLE, STRINGS, SECTION_NAMES_TABLE, SECTIONS };

static struct {
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdr;
    Elf64_Shdr shdrs[SECTIONS];
    char section_names[8];
} headers;

static Elf64_Sym symbols[SYMBOLS];
static struct elf_state state;

/* The names of symbols, in between those of the runtime, are empty: a hole in the file. */
static void prepare(void)
{
    const uint64_t place = sizeof(headers);

    headers.ehdr =
        (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                     .e_type = ET_EXEC,
                     .e_machine = EM_X86_64,
                     .e_version = EV_CURRENT,
                     .e_phoff = sizeof(Elf64_Ehdr),
                     .e_shoff = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
                     .e_ehsize = sizeof(Elf64_Ehdr),
                     .e_phentsize = sizeof(Elf64_Phdr),
                     .e_phnum = 1,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shnum = SECTIONS,
                     .e_shstrndx = SECTION_NAMES_TABLE};
    headers.phdr = (Elf64_Phdr){.p_type = PT_LOAD,
                                .p_flags = PF_R | PF_X,
                                .p_vaddr = ADDRESS,
                                .p_filesz = place,
                                .p_memsz = place,
                                .p_align = 0x1000};
    headers.shdrs[TEXT] = (Elf64_Shdr){.sh_name = 1,
                                       .sh_type = SHT_PROGBITS,
                                       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                       .sh_addr = ADDRESS,
                                       .sh_size = place};
    headers.shdrs[SYMBOL_TABLE] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                               .sh_offset = place,
                                               .sh_size = sizeof(symbols),
                                               .sh_link = STRINGS,
                                               .sh_entsize = sizeof(Elf64_Sym)};
    headers.shdrs[STRINGS] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = place + sizeof(symbols), .sh_size = STRINGS_SIZE};
    headers.shdrs[SECTION_NAMES_TABLE] =
        (Elf64_Shdr){.sh_type = SHT_STRTAB,
                     .sh_offset = offsetof(__typeof__(headers), section_names),
                     .sh_size = sizeof(section_names)};
    memcpy(headers.section_names, section_names, sizeof(section_names));
    for (uint64_t i = 1; i < SYMBOLS; i++)
        symbols[i] = (Elf64_Sym){.st_name = (uint32_t)(i * (STRINGS_SIZE / SYMBOLS)),
                                 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                 .st_shndx = TEXT,
                                 .st_value = ADDRESS + i,
                                 .st_size = 1};
    symbols[1].st_name = 1;
    symbols[SYMBOLS - 1].st_name = (uint32_t)(STRINGS_SIZE - sizeof(last_name));
}

static void write_at(int fd, const void *data, size_t size, uint64_t offset)
{
    ck_assert_int_eq(pwrite(fd, data, size, (off_t)offset), (ssize_t)size);
}

static void open_image(struct input *input, struct elf_image *image)
{
    const uint64_t strings = sizeof(headers) + sizeof(symbols);
    char path[] = "/tmp/covsplit-symbols-XXXXXX";
    int fd = mkstemp(path);
    struct error error;

    ck_assert_int_ge(fd, 0);
    write_at(fd, &headers, sizeof(headers), 0);
    write_at(fd, symbols, sizeof(symbols), sizeof(headers));
    write_at(fd, first_name, sizeof(first_name), strings);
    write_at(fd, last_name, sizeof(last_name), strings + STRINGS_SIZE - sizeof(last_name));
    ck_assert_msg(input_open(input, path, &error), "%s", error.message);
    unlink(path);
    close(fd);
    ck_assert_msg(elf_image_open(image, input, &error), "%s", error.message);
}

static long peak_kib(void)
{
    struct rusage usage;

    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

START_TEST(test_large)
{
    struct runtime_symbols *found = &state.base.code.symbols;
    FREED_BY(input_close) struct input input;
    struct error error;
    long before;

    open_image(&input, &state.image);
    before = peak_kib();
    ck_assert_msg(elf_symbols_find(&state, &error), "%s", error.message);
    ck_assert_int_lt(peak_kib() - before, (long)(STRINGS_SIZE / 1024 / 2));
    ck_assert_uint_eq(found->count, 2);
    ck_assert_uint_eq(found->definitions[0].symbol, RUNTIME_BEGIN_DATA);
    ck_assert_uint_eq(found->definitions[0].address, ADDRESS + 1);
    ck_assert_uint_eq(found->definitions[1].symbol, RUNTIME_END_DATA);
    ck_assert_uint_eq(found->definitions[1].address, ADDRESS + SYMBOLS - 1);
    elf_image_close(&state.image);
}
END_TEST

/* A symbol's section has no number, and there is no table of such numbers. */
START_TEST(test_unreadable)
{
    FREED_BY(input_close) struct input input;
    struct error error;

    symbols[SYMBOLS - 2].st_shndx = SHN_XINDEX;
    open_image(&input, &state.image);
    ck_assert(!elf_symbols_find(&state, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "its symbol table cannot be read"));
    elf_image_close(&state.image);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("symbols", 60, prepare);

    suite_tests(test_case, test_large, test_unreadable);
    return suite_main("elf_symbols", test_case);
}

/*
 * The strings and files of file_system.h. Out of memory is an abort: there is nothing a test could
 * do about it.
 */
#include "tests/support/file_system.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* ---- strings ---- */

static char *format_arguments(const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        abort();
    }
    return text;
}

char *text_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_arguments(format, arguments);
    va_end(arguments);
    return text;
}

char *text_replace(const char *text, const char *part, const char *replacement)
{
    char *result = text_format("%s", "");
    for (const char *at = strstr(text, part); at != NULL; at = strstr(text, part)) {
        char *longer = text_format("%s%.*s%s", result, (int)(at - text), text, replacement);
        free(result);
        result = longer;
        text = at + strlen(part);
    }
    char *whole = text_format("%s%s", result, text);
    free(result);
    return whole;
}

char *path_join(const char *directory, const char *name)
{
    return text_format("%s/%s", directory, name);
}

/* Takes ownership of the text. */
static void list_take(struct text_list *list, char *text)
{
    /* There is room for the next power of two, and the NULL: lists of lines have tens of thousands,
     * and with sanitizers each growth is another allocation. */
    if ((list->count & (list->count - 1)) == 0) {
        list->items = realloc(list->items, (2 * list->count + 2) * sizeof *list->items);
    }
    if (list->items == NULL || text == NULL) {
        abort();
    }
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
}

void text_list_add(struct text_list *list, const char *text)
{
    list_take(list, strdup(text));
}

void text_list_add_format(struct text_list *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    list_take(list, format_arguments(format, arguments));
    va_end(arguments);
}

void text_list_add_all(struct text_list *list, const char *const *texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        text_list_add(list, texts[i]);
    }
}

/* Adds the non-empty runs of characters between the separators. */
static void add_parts(struct text_list *list, const char *text, const char *separators)
{
    while (*text != '\0') {
        size_t size = strcspn(text, separators);
        if (size != 0) {
            list_take(list, strndup(text, size));
        }
        text += size;
        text += strspn(text, separators);
    }
}

void text_list_add_words(struct text_list *list, const char *words)
{
    add_parts(list, words, " ");
}

struct text_list text_list_of_lines(const char *text)
{
    struct text_list list = {0};
    add_parts(&list, text, "\n");
    return list;
}

bool text_list_contains(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

void text_list_free(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct text_list){0};
}

static char *group_digits(unsigned long long number)
{
    return number < 1000 ? text_format("%llu", number)
                         : text_format("%s,%03llu", group_digits(number / 1000), number % 1000);
}

char *text_of_count(unsigned long long count, const char *noun)
{
    return text_format("%s %s%s", group_digits(count), noun, count == 1 ? "" : "s");
}

size_t text_count(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + strlen(part), part)) {
        count++;
    }
    return count;
}

void assert_contains(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in:\n%s", part, text);
}

bool verdict_fail(struct verdict *verdict, const char *format, ...)
{
    if (verdict->problem == NULL) {
        va_list arguments;
        va_start(arguments, format);
        verdict->problem = format_arguments(format, arguments);
        va_end(arguments);
    }
    return false;
}

void verdict_assert(const struct verdict *verdict, const char *label)
{
    if (verdict->problem != NULL) {
        ck_abort_msg("%s: %s", label, verdict->problem);
    }
}

/* ---- files and directories ---- */

#define OPEN_DIRECTORIES_MAX 16

static _Noreturn void abort_on(const char *what, const char *path)
{
    ck_abort_msg("cannot %s %s: %s", what, path, strerror(errno));
    abort(); /* ck_abort_msg is not declared to be without return */
}

struct stat file_status(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        abort_on("look at", path);
    }
    return status;
}

uint64_t file_size(const char *path)
{
    return (uint64_t)file_status(path).st_size;
}

bool file_exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

struct contents file_read(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        abort_on("open", path);
    }
    struct contents contents = {malloc((size_t)status.st_size + 1), (size_t)status.st_size};
    if (contents.data == NULL) {
        abort();
    }
    size_t done = 0;
    while (done < contents.size) {
        ssize_t part = read(descriptor, contents.data + done, contents.size - done);
        if (part <= 0) {
            abort_on("read", path);
        }
        done += (size_t)part;
    }
    close(descriptor);
    contents.data[contents.size] = 0;
    return contents;
}

void contents_free(struct contents *contents)
{
    free(contents->data);
    *contents = (struct contents){0};
}

bool contents_equal(const struct contents *a, const struct contents *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

void file_write(const char *path, const void *data, size_t size)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) {
        abort_on("create", path);
    }
    const char *rest = data;
    while (size > 0) {
        ssize_t part = write(descriptor, rest, size);
        if (part <= 0) {
            abort_on("write", path);
        }
        rest += part;
        size -= (size_t)part;
    }
    if (close(descriptor) != 0) {
        abort_on("write", path);
    }
}

void file_write_text(const char *path, const char *text)
{
    file_write(path, text, strlen(text));
}

/* What the file has from `start` on, up to a hole. Returns where that ends. */
static off_t copy_data(int copy, int source, off_t start, const char *to)
{
    off_t end = lseek(source, start, SEEK_HOLE);
    if (end < 0 || lseek(copy, start, SEEK_SET) < 0) {
        abort_on("copy", to);
    }
    while (start < end) {
        if (sendfile(copy, source, &start, (size_t)(end - start)) <= 0) {
            abort_on("write", to);
        }
    }
    return end;
}

/* By the kernel: what the process has held counts as its children's peak of memory too. Holes stay
 * holes: some images have gigabytes of them. */
void file_copy(const char *from, const char *to)
{
    struct stat status = file_status(from);
    int source = open(from, O_RDONLY | O_CLOEXEC);
    int copy = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (source < 0 || copy < 0) {
        abort_on("copy", from);
    }
    off_t data = lseek(source, 0, SEEK_DATA);
    while (data >= 0) {
        data = lseek(source, copy_data(copy, source, data, to), SEEK_DATA);
    }
    if (errno != ENXIO || ftruncate(copy, status.st_size) != 0 ||
        fchmod(copy, status.st_mode & 07777) != 0 || close(copy) != 0) {
        abort_on("write", to);
    }
    close(source);
}

bool files_equal(const char *path, const char *other, struct verdict *verdict)
{
    struct contents a = file_read(path);
    struct contents b = file_read(other);
    bool equal = contents_equal(&a, &b);
    if (!equal) {
        size_t same = 0;
        while (same < a.size && same < b.size && a.data[same] == b.data[same]) {
            same++;
        }
        verdict_fail(verdict, "%s (%zu bytes) and %s (%zu bytes) differ from byte %zu on", path,
                     a.size, other, b.size, same);
    }
    contents_free(&a);
    contents_free(&b);
    return equal;
}

void files_assert_equal(const char *path, const char *other, const char *label)
{
    struct verdict verdict = {0};
    files_equal(path, other, &verdict);
    verdict_assert(&verdict, label);
}

struct scratch {
    pid_t process;
    char *directory;
};

/* Processes that it forks come here too. */
static void remove_at_end(int status, void *context)
{
    const struct scratch *made = context;
    if (status == 0 && getpid() == made->process) {
        scratch_remove(made->directory);
    }
}

char *scratch_create(const char *label)
{
    const char *parent = getenv("TMPDIR");
    char *directory = text_format("%s/covsplit-%s-XXXXXX", parent != NULL ? parent : "/tmp", label);
    if (mkdtemp(directory) == NULL) {
        abort_on("make a directory like", directory);
    }
    struct scratch *made = malloc(sizeof *made);
    if (made == NULL) {
        abort_on("remember", directory);
    }
    *made = (struct scratch){.process = getpid(), .directory = directory};
    on_exit(remove_at_end, made);
    return directory;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void directory_remove(const char *path)
{
    if (nftw(path, remove_entry, OPEN_DIRECTORIES_MAX, FTW_DEPTH | FTW_PHYS) != 0 &&
        errno != ENOENT) {
        abort_on("remove", path);
    }
}

void scratch_use_memory(void)
{
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 0);
    }
}

void scratch_remove(const char *directory)
{
    const char *keep = getenv("COVSPLIT_TEST_KEEP");
    if (keep == NULL || strcmp(keep, "1") != 0) {
        directory_remove(directory);
    }
}

void directory_create(const char *path)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        abort_on("make the directory", path);
    }
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct text_list directory_list(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL) {
        abort_on("list", path);
    }
    struct text_list names = {0};
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            text_list_add(&names, entry->d_name);
        }
    }
    closedir(directory);
    if (names.count != 0) {
        qsort(names.items, names.count, sizeof *names.items, compare_texts);
    }
    return names;
}

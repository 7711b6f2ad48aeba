/* The program that is shipped: greets everyone it is told to, but only its friends by name. */
#include <stdio.h>
#include <string.h>

static void greet(const char *name)
{
    if (strcmp(name, "world") == 0)
        puts("hello, world");
    else
        puts("hello");
}

int main(int count, char **words)
{
    for (int i = 1; i < count; i++)
        greet(words[i]);
    return 0;
}

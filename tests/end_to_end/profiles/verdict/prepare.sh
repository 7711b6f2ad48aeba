# Two programs, a.c and b.c.
cat >a.c <<'END'
int f(int a)
{
    if (a > 3)
        return 1;
    return 0;
}
int main(int count, char **words)
{
    (void)words;
    return f(count);
}
END
cat >b.c <<'END'
int g(int b)
{
    return b > 7 ? 1 : 0;
}
int main(int count, char **words)
{
    (void)words;
    if (count > 5)
        return 2;
    return g(count);
}
END

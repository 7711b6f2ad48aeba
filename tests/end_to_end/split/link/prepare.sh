# A program.
cat >program.c <<'END'
int twice(int x) { return x > 5 ? 2 * x : x; }
int main(int count, char **words) { (void)words; return twice(count); }
END

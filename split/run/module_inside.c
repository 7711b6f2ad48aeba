/*
 * The preload module as a part of a static command: the file COVSPLIT_PRELOAD_FILE, linked in as
 * bytes for run.c.
 */
__asm__(".section .rodata.preload_module, \"a\"\n"
        ".globl preload_module, preload_module_end\n"
        ".hidden preload_module, preload_module_end\n"
        "preload_module:\n"
        ".incbin \"" COVSPLIT_PRELOAD_FILE "\"\n"
        "preload_module_end:\n"
        ".previous\n");

/* cli/signals.h - Ctrl-C and SIGTERM.
 *
 * Path:     the kernel -> [this: two flags] -> progress and event callbacks, the line editor
 * Threads:  the flags may be read anywhere; install and clear from the main thread.
 *
 * The first Ctrl-C only sets a flag: whoever computes looks at it, stops, and keeps its state. A
 * second one before the flag is cleared, ends the program at once with 130. SIGTERM sets its own
 * flag. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

#include "flashnext.h"

/* Interactive programs and those that stop between tokens. */
void cli_signals_catch(void);
/* Programs that compute in one piece: both signals end at once, and the file is removed (NULL:
 * none). */
void cli_signals_end_removing(const char *path);

/* A write beyond the file size limit (ulimit -f) then fails like one on a full disk, and can be reported. */
void cli_signals_ignore_size_limit(void);
/* From now on touching a mapped model file that shrank, or whose disk fails, ends the program with exit code 3 and the
 * file's name. NULL: the engine is about to go. */
void cli_signals_guard(const fn_engine *engine);

bool cli_interrupted(void); /* Ctrl-C since the last clear */
bool cli_terminated(void);
bool cli_stop_asked(void); /* one of both */
void cli_interrupt_clear(void);

/* What is typed is not echoed until show; a signal that ends the program shows it again first. */
void cli_signals_hide_typing(void);
void cli_signals_show_typing(void);

/* 143 after SIGTERM, else 130. */
int cli_signal_exit_code(void);

#endif

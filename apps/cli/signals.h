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

/* Interactive programs and those that stop between tokens. */
void cli_signals_catch(void);
/* Programs that compute in one piece: both signals end at once, and the file is removed (NULL:
 * none). */
void cli_signals_end_removing(const char *path);

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

/* cli/option_values.h - from the text of a value to the value; used by options.c alone.
 *
 * Path:     options.c -> [this] -> cli_value
 * Memory:   texts are copied into the value. */
#ifndef CLI_OPTION_VALUES_H
#define CLI_OPTION_VALUES_H

#include "cli/options.h"

/* Stores text (NULL: a flag given without value). shown names the option in messages ("--temp").
 * A list is added to when it came from the same source, else it starts anew. Fails with
 * FN_E_USAGE. */
fn_status cli_value_store(cli_value *value, const cli_option *option, const char *shown,
                          const char *text, cli_source source, fn_error *err);
void cli_value_clear(cli_value *value);

/* Is word (n letters) one of the choices "a|b|c"? */
bool cli_choice_has(const char *choices, const char *word);

#endif

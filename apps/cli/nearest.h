/* cli/nearest.h - the name somebody probably meant.
 *
 * Threads:  any; Memory: none of its own. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

typedef struct cli_nearest {
    const char *wanted;
    const char *best; /* lent from the candidates; NULL: nothing is near enough */
    size_t distance;
} cli_nearest;

/* Near enough: at most a third of the letters differ, and never more than 4. */
cli_nearest cli_nearest_to(const char *wanted);
void cli_nearest_try(cli_nearest *nearest, const char *candidate);

/* Letters inserted, deleted, replaced or swapped with their neighbour. */
size_t cli_edit_distance(const char *a, const char *b);

#endif
